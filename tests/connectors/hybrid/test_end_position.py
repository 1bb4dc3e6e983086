"""The end position of a history of files, as the next source gets it; limits and order of its batches. No JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime, timezone
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.api import JsonValue
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.errors import DataLossError
from flip27_stream.testing import wait_until
from tests.connectors.hybrid.support.kit import HybridQuery, live
from tests.spark.support.sources.memory_source import SCHEMA
from tests.support.exploring import examples

FAR = int(datetime(2099, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
LIMITS = [{"maxRowsPerTrigger": "10"}, {"maxBytesPerTrigger": "1"}, {"maxFilesPerTrigger": "1"}, {}]


def write(path: Path, times: Sequence[int | None], *, group: int) -> None:
    """Writes a Parquet file with these event times (ms)."""
    path.parent.mkdir(exist_ok=True)
    table = pa.table([[path.stem] * len(times), pa.array(times, pa.int64())], schema=SCHEMA)
    pq.write_table(table, path, row_group_size=group)


class EndPositionFactory:
    """A factory that notes the end positions that it is told in this process. A pickled copy begins without notes."""

    def __init__(self) -> None:
        self.ends: list[JsonValue] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"ends": []}

    def __call__(self, switch: SourceSwitchContext) -> Any:
        self.ends.append(switch.end_position)
        return live("live", {})


class FilesThenLog:
    """A query over files and then a log. It notes what the factory of the log is told.

    Args:
        folder: The folder of the files.
        aligned: Whether the query is aligned.
        options: Options of the files.
    """

    def __init__(self, folder: Path, aligned: bool, **options: str) -> None:
        self._told = EndPositionFactory()
        self._folder, self._options = folder, options
        table = folder.parent / "watermarks" if aligned else None
        plausible = {"scan.watermark.max-future": "1 h", "scan.watermark.implausible-event-time": "pass"}
        self.query = HybridQuery(self._source, table, drift_ms=100, options=plausible)

    def _source(self) -> HybridSource:
        where = {} if "paths" in self._options else {"path": str(self._folder)}
        history = FileSource({**where, **self._options}, bounded=True, schema=SCHEMA)
        builder = HybridSource.builder(history, event_time="event_time")
        return builder.add_source(self._told).build()

    def set(self, **options: str) -> None:
        """Changes options of the files. They hold from the next restart on."""
        self._options |= options

    @property
    def end(self) -> JsonValue:
        """The end position that the factory was told last."""
        return self._told.ends[-1]

    def batches(self, restarts: Callable[[], bool] = lambda: False) -> list[list[int]]:
        """Runs the history to its end, and returns the event times of each micro-batch."""
        found = []
        while not self.query.offsets or self.query.index == 0:
            if restarts():
                self.query.restart()
            rows = self.query.step()
            assert len(self.query.offsets) < 500, "empty batches for ever"
            found.append([time or 0 for _, time in rows or ()])
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three files. Each file begins, in event time, before its predecessor ends."""
    data = tmp_path / "data"
    for number in range(3):
        write(data / f"{number}.parquet", range(number * 500 + 1, number * 500 + 1001, 25), group=10)
    return data


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_and_order_hold_and_the_end_is_the_greatest_event_time(
    folder: Path, aligned: bool, limit: dict[str, str]
) -> None:
    """I2: batches keep the limit, and event times are in order. A begun file is not read in a batch whose limit
    leaves no row for it.
    """
    reading = FilesThenLog(folder, aligned, **limit)
    batches = reading.batches()
    assert reading.end == 1976
    assert sorted(reading.query.rows) == sorted(
        (str(n), time) for n in range(3) for time in range(n * 500 + 1, n * 500 + 1001, 25)
    )
    if limit and "maxFilesPerTrigger" not in limit:
        assert max(map(len, batches)) <= 10
    if limit:
        span = 1000 if "maxFilesPerTrigger" in limit else 250  # event times of a file, or of a row group
        for earlier, later in pairwise(accumulate(batches)):
            assert min(later[len(earlier) :], default=FAR) > max(earlier, default=0) - span - 100


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("group", [7, 1000])
def test_implausible_event_times_in_the_rest_of_a_file_are_no_end(
    tmp_path: Path, aligned: bool, limit: dict[str, str], group: int
) -> None:
    """The end is the greatest plausible event time, also where a row group has implausible event times beside it."""
    times = [*range(1, 301, 10), *[FAR] * 12, *range(301, 401, 10)]
    write(tmp_path / "data" / "a.parquet", times, group=group)
    write(tmp_path / "data" / "b.parquet", range(100, 301, 10), group=group)
    reading = FilesThenLog(tmp_path / "data", aligned, **limit)
    reading.batches()
    assert reading.end == 391
    assert len(reading.query.rows) == len(times) + 21


FILES = st.lists(
    st.lists(st.one_of(st.integers(0, 400), st.none(), st.just(FAR)), min_size=1, max_size=30),
    min_size=1,
    max_size=5,
)


@pytest.mark.long
@settings(max_examples=examples(200))
@given(
    files=FILES,
    group=st.integers(1, 12),
    aligned=st.booleans(),
    limit=st.sampled_from(LIMITS),
    data=st.data(),
)
def test_any_history_is_read_once_within_the_limits_up_to_its_true_end(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[int | None]],
    group: int,
    aligned: bool,
    limit: dict[str, str],
    data: st.DataObject,
) -> None:
    """HY-17: every row is read once, with restarts. Event times may be missing or implausible, and have no order."""
    folder = tmp_path_factory.mktemp("history") / "data"
    for number, times in enumerate(files):
        write(folder / f"{number}.parquet", times, group=group)
    reading = FilesThenLog(folder, aligned, **limit)
    batches = reading.batches(lambda: data.draw(st.booleans()))
    plausible = [time for times in files for time in times if time is not None and time != FAR]
    assert reading.end == max(plausible, default=None)
    read = sorted((name, time or 0) for name, time in reading.query.rows)
    assert read == sorted((str(n), time or 0) for n, times in enumerate(files) for time in times)
    if "maxRowsPerTrigger" in limit:
        assert max(map(len, batches)) <= 10


def away(folder: Path) -> Callable[[], None]:
    """Empties a folder, and returns a function that brings back its content."""
    elsewhere = folder.with_name(f".{folder.name}")
    folder.rename(elsewhere)
    folder.mkdir()

    def bring_back() -> None:
        folder.rmdir()
        elsewhere.rename(folder)

    return bring_back


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("empty", [["a/deep"], ["b"], ["a/deep", "b"], ["a", "b"]])
def test_a_history_that_is_away_when_the_query_starts_again_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: list[str], aligned: bool
) -> None:
    """HY-04: a listing that lacks files which are still to be read does not end the history. The listing lacks the
    files of one path, of all paths, or of a folder below a path.
    """
    monkeypatch.setattr("flip27_stream.connectors.files.planning.enumerator._LATE_LOOK_MS", 10)
    (tmp_path / "a").mkdir()
    for number, name in enumerate(["a", "a/deep", "b"]):
        write(tmp_path / name / f"{number}.parquet", range(number * 10, number * 10 + 10), group=10)
    paths = json.dumps([str(tmp_path / "a"), str(tmp_path / "b")])
    reading = FilesThenLog(tmp_path / "a", aligned, paths=paths, maxFilesPerTrigger="1")
    reading.query.step()
    bring_back = [away(tmp_path / name) for name in empty]
    reading.query.restart()
    for _ in range(5):
        reading.query.step()
        assert reading.query.index == 0
    for back in bring_back:
        back()
    wait_until(lambda: reading.query.step() is None and reading.query.index == 1, "the switch")
    assert sorted(reading.query.rows) == [(str(n), n * 10 + i) for n in range(3) for i in range(10)]
    assert reading.end == 29


def test_files_that_are_added_to_a_history_hide_none_that_are_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have older times and come while the query is stopped, so they are read. Then the folder is empty for a
    while.
    """
    monkeypatch.setattr("flip27_stream.connectors.files.planning.enumerator._LATE_LOOK_MS", 10)
    data = tmp_path / "data"
    for number in range(7):
        write(data / f"{number}.parquet", range(number * 10, number * 10 + 10), group=10)
        os.utime(data / f"{number}.parquet", (1000 + number, 1000 + number))
    hidden = [(data / f"{n}.parquet").rename(data / f".{n}.parquet") for n in (1, 2, 3)]
    reading = FilesThenLog(data, False, maxFilesPerTrigger="1")
    reading.query.step()
    for path in hidden:
        path.rename(data / path.name[1:])
    reading.query.restart()
    for _ in range(3):
        reading.query.step()
    bring_back = away(data)
    reading.query.restart()
    for _ in range(5):
        reading.query.step()
        assert reading.query.index == 0
    bring_back()
    wait_until(lambda: reading.query.step() is None and reading.query.index == 1, "the switch")
    assert sorted(reading.query.rows) == [(str(n), n * 10 + i) for n in range(7) for i in range(10)]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesThenLog:
    """A query over a history of three files, after the first file was read."""
    monkeypatch.setattr("flip27_stream.connectors.files.planning.enumerator._LATE_LOOK_MS", 10)
    for number in range(3):
        write(tmp_path / "data" / f"{number}.parquet", range(number * 10, number * 10 + 10), group=10)
    reading = FilesThenLog(tmp_path / "data", False, maxFilesPerTrigger="1")
    reading.query.step()
    return reading


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("names", ["2", "012"])
@pytest.mark.parametrize("skipped", [False, True])
def test_files_of_a_history_that_stay_away_fail_the_query_by_name_or_are_skipped(
    begun: FilesThenLog,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    skipped: bool,
    names: str,
    rewritten: bool,
) -> None:
    """The query waits a limited time for missing files. Then it fails and says how many they are, or skips them if it
    has the option for that.
    """
    monkeypatch.setattr("flip27_stream.connectors.files.backlog.listed_files._TIME_LIMIT_S", 0.2)
    for name in names:
        (tmp_path / "data" / f"{name}.parquet").unlink()
        if rewritten:
            write(tmp_path / "data" / f"{name}.parquet", range(5), group=10)
    if skipped:
        begun.set(ignoreMissingFiles="true")
    begun.query.restart()
    with (
        nullcontext()
        if skipped
        else pytest.raises(DataLossError, match=r"[12] of the files .* not read yet.*ignoreMissingFiles")
    ):
        wait_until(lambda: begun.query.step() is None and begun.query.index == 1, "the switch")
    assert {name for name, _ in begun.query.rows} == {"0", *"012"} - {*names} | {"0"}


def test_files_of_a_history_that_are_read_may_be_gone(begun: FilesThenLog, tmp_path: Path) -> None:
    for _ in range(2):
        begun.query.step()
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    begun.query.restart()
    begun.query.step()
    assert begun.query.index == 1
    assert begun.end == 29


def test_a_history_that_has_nothing_from_the_first_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A history without files is passed over with a warning: the folder may be the mount point of a disk."""
    (tmp_path / "data").mkdir()
    reading = FilesThenLog(tmp_path / "data", False)
    reading.query.step()
    assert reading.query.index == 1
    assert "No row with a later event time was found in source 0" in caplog.text
