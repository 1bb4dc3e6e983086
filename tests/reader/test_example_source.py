"""The example of a source of one's own: short, and all that a source must be."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import log_folder
from examples.log_folder import SCHEMA, LogFile, LogFolder
from flip27_stream.api import WatermarkStrategy
from flip27_stream.spark.coordinator import SourceCoordinator
from flip27_stream.spark.job import Driver, Job
from flip27_stream.spark.task import SplitTask, read_task
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite
from offsets import INITIAL
from watermark_alignment.event_time import timestamp_assigner

NOON = 1_700_000_000_000


class LogFolderSystem(ExternalSystem):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[int, int] = {}

    @property
    def source(self) -> LogFolder:
        return LogFolder(str(self.folder))

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        name = f"{split}.log"
        first = self._written.get(split, 0)
        self._written[split] = first + count
        rows = [(name, n, f"line {n} of {name}") for n in range(first, first + count)]
        with open(self.folder / name, "a") as file:
            file.writelines(f"{NOON + 1000 * split + 10 * n} {text}\n" for _, n, text in rows)
        return rows

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["file"], row["number"], row["text"]


class TestLogFolder(SourceConformanceSuite):
    """SX-01 to SX-08, CO-11, CO-25, and alignment by pausing."""

    strategy = WatermarkStrategy().with_timestamp_assigner(timestamp_assigner("timestamp", SCHEMA))

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> None:
        self._folder = tmp_path

    def create_system(self) -> ExternalSystem:
        return LogFolderSystem(self._folder)


def test_it_is_short() -> None:
    """Someone writes a source of their own in under 100 lines."""
    text = Path(log_folder.__file__ or "").read_text()
    assert len(text.splitlines()) < 100


def test_the_page_has_it_whole() -> None:
    """docs/write-a-source.md shows the very file that is tested here."""
    page = (Path(__file__).parents[2] / "docs" / "write-a-source.md").read_text()
    assert f"```python\n{Path(log_folder.__file__ or '').read_text()}```" in page


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """What counts lines and what reads them agree, so no line is lost: not at a lone CR, nor at any other character at
    which ``str.splitlines`` cuts. A CR LF ends a line as it does elsewhere; a line without an end is not there yet."""
    breaks = "\r \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"
    texts = [f"a{one}b" for one in breaks.split(" ")] + ["\r", "", " padded "]
    written = (
        "".join(f"{n} {text}\n" for n, text in enumerate(texts)) + "90 Windows\r\n91 last\n92 unfinished"
    )
    (tmp_path / "a.log").write_bytes(written.encode())
    job = Job(LogFolder(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    coordinator = SourceCoordinator(job)
    try:
        end = coordinator.latest_offset(INITIAL, 1000)
        tasks = coordinator.tasks(INITIAL, end)
    finally:
        coordinator.close()
    read = [
        row["text"]
        for task in tasks
        for batch in read_task(job, replace(task, report_to=None))
        for row in batch.to_pylist()
    ]
    ended = [text.removesuffix("\r") for text in texts]
    assert read == [*ended, "Windows", "last"]


def test_a_task_of_a_micro_batch_reads_it(tmp_path: Path) -> None:
    """What Spark runs in a Python worker: planned ranges of two files, one of them beyond what the other has."""
    (tmp_path / "a.log").write_text("0 a0\n1 a1\n2 a2\n3 a3\n")
    (tmp_path / "b.log").write_text("0 b0\n1 b1\n")
    job = Job(LogFolder(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    ranges: list[Any] = [(LogFile(str(tmp_path / "a.log")), 1, 3), (LogFile(str(tmp_path / "b.log")), 0, 2)]
    rows = [row for batch in read_task(job, SplitTask(0, 0, ranges)) for row in batch.to_pylist()]
    assert [row["text"] for row in rows] == ["a1", "a2", "b0", "b1"]
