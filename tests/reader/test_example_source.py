"""The example of a source that a user writes is short, and passes the conformance suite."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import log_folder
from examples.log_folder import SCHEMA, AssignedFiles, Context, LogFile, LogFolder, LogFolderEnumerator
from flip27_stream.api import Boundedness, ReadLimits, SplitRange, WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.task import SplitTask, read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite
from offsets import INITIAL

NOON = 1_700_000_000_000


class LogFolderSystem(ExternalSystem):
    def __init__(self, folder: Path) -> None:
        self.folder, self._away = folder / "logs", folder / "away"
        self.folder.mkdir()
        self._written: dict[int, int] = {}

    @property
    def source(self) -> LogFolder:
        return LogFolder(str(self.folder))

    @property
    def bounded(self) -> Bounded:
        return Bounded(str(self.folder))

    def limited(self, limits: ReadLimits) -> LogFolder | None:
        return FiveLines(str(self.folder)) if limits == FiveLines.read_limits else None

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = self._written.get(split, 0)
        return self.write_at(split, [NOON + 1000 * split + 10 * n for n in range(first, first + count)])

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """Writes lines that begin with their event times. A negative time stands for ``None``."""
        name = f"{split}.log"
        first = self._written.get(split, 0)
        self._written[split] = first + len(times)
        rows = [(name, n, f"line {n} of {name}") for n in range(first, first + len(times))]
        stamps = [-1 if t is None else t for t in times]
        with open(self.folder / name, "a") as file:
            file.writelines(f"{t} {text}\n" for t, (_, _, text) in zip(stamps, rows, strict=True))
        return rows

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["file"], row["number"], row["text"]

    def hide(self, split: int) -> str:
        (self.folder / f"{split}.log").rename(self._away)
        return f"{split}.log"

    def restore(self, split: int) -> None:
        self._away.rename(self.folder / f"{split}.log")

    def fail(self) -> None:
        self.folder.rename(self._away)

    def recover(self) -> None:
        self._away.rename(self.folder)


class FiveLines(LogFolder):
    read_limits = ReadLimits(max_rows=5)


class UpToNow(LogFolderEnumerator):
    """An enumerator of a bounded source, which ends at the existing lines."""

    def _assign(self, paths: list[str], error: BaseException | None) -> None:
        super()._assign(paths, error)
        for reader in self._context.registered_readers():
            self._context.signal_no_more_splits(reader)

    def split_ranges(self, positions: Mapping[LogFile, int | None]) -> Mapping[str, SplitRange]:
        return {name: replace(r, final=True) for name, r in super().split_ranges(positions).items()}


class Bounded(LogFolder):
    boundedness = Boundedness.BOUNDED

    def create_enumerator(self, context: Context) -> UpToNow:
        return UpToNow(self.folder, context, AssignedFiles())

    def restore_enumerator(self, context: Context, checkpoint: AssignedFiles) -> UpToNow:
        return UpToNow(self.folder, context, checkpoint)


class TestLogFolder(SourceConformanceSuite):
    """The checks for the example source: SX-01 to SX-08, CO-11, CO-25, and alignment by pausing."""

    strategy = WatermarkStrategy().with_timestamp_assigner(timestamp_assigner("timestamp", SCHEMA))

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._folders = tmp_path_factory

    def create_system(self) -> ExternalSystem:
        return LogFolderSystem(self._folders.mktemp("system"))


def test_the_example_has_fewer_than_100_lines() -> None:
    """The example has fewer than 100 lines, so a user can write a source in as many."""
    text = Path(log_folder.__file__ or "").read_text()
    assert len(text.splitlines()) < 100


def test_the_page_has_the_whole_example() -> None:
    """The page docs/write-a-source.md shows the same file that is tested here."""
    page = (Path(__file__).parents[2] / "docs" / "write-a-source.md").read_text()
    assert f"```python\n{Path(log_folder.__file__ or '').read_text()}```" in page


def test_the_page_about_readers_shows_parts_of_the_example() -> None:
    page = (Path(__file__).parents[2] / "docs" / "readers.md").read_text()
    parts = re.findall("```python\n(.+?)```", page, re.DOTALL)
    assert len(parts) == 2
    assert all(part in Path(log_folder.__file__ or "").read_text() for part in parts)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """The code that counts lines and the code that reads them agree, so that no line is lost. Neither a lone CR nor
    another character at which ``str.splitlines`` cuts ends a line. A CR LF ends a line, and a line without an end is
    not read yet.
    """
    breaks = "\r \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"
    texts = [f"a{one}b" for one in breaks.split(" ")] + ["\r", "", " padded "]
    written = (
        "".join(f"{n} {text}\n" for n, text in enumerate(texts)) + "90 Windows\r\n91 last\n92 unfinished"
    )
    (tmp_path / "a.log").write_bytes(written.encode())
    spec = SourceSpec(LogFolder(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    coordinator = SourceCoordinator(spec)
    try:
        end = coordinator.latest_offset(INITIAL, 1000)
        tasks = coordinator.tasks(INITIAL, end)
    finally:
        coordinator.close()
    read = [
        row["text"]
        for task in tasks
        for batch in read_task(spec, replace(task, report_to=None))
        for row in batch.to_pylist()
    ]
    ended = [text.removesuffix("\r") for text in texts]
    assert read == [*ended, "Windows", "last"]


def test_a_task_of_a_micro_batch_reads_the_example(tmp_path: Path) -> None:
    """A task, which Spark runs in a Python worker, reads the planned ranges of two files."""
    (tmp_path / "a.log").write_text("0 a0\n1 a1\n2 a2\n3 a3\n")
    (tmp_path / "b.log").write_text("0 b0\n1 b1\n")
    spec = SourceSpec(LogFolder(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    ranges = [
        PlannedRange(LogFile(str(tmp_path / "a.log")), 1, 3),
        PlannedRange(LogFile(str(tmp_path / "b.log")), 0, 2),
    ]
    rows = [row for batch in read_task(spec, SplitTask(0, 0, ranges)) for row in batch.to_pylist()]
    assert [row["text"] for row in rows] == ["a1", "a2", "b0", "b1"]
