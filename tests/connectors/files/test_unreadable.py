"""Files that are damaged or gone fail the query, or are skipped with a warning, also over restarts. No JVM."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from flip27_stream.connectors.files.backlog.listed_files import ListedFiles, ListingChanges
from flip27_stream.connectors.files.backlog.processed_files import ProcessedFiles
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.statistics import FileStatistics
from flip27_stream.connectors.files.lines.csv_lines import CsvFormat
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import ConnectorError, CorruptRecordError, DataLossError, UnreachableError
from flip27_stream.spark.execution.task import read_task
from flip27_stream.testing import wait_until
from tests.connectors.files.support.file_query import UNLIMITED, FileQuery, write


def test_a_file_that_is_gone_before_it_is_read_fails_the_query(folder: Path) -> None:
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "1"})
    query.step()
    by_time = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    by_time[1].unlink()
    with pytest.raises(DataLossError, match=r"is gone.*ignoreMissingFiles"):
        query.step()


def test_a_file_that_is_gone_before_it_is_read_is_skipped_if_the_option_allows_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "1", "ignoreMissingFiles": "true"})
    query.step()
    by_time = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    by_time[1].unlink()
    query.run()
    assert len(query.rows) == 900
    assert re.search(rf"{by_time[1].name}.* skipped", caplog.text)


@pytest.mark.parametrize("in_place", ["a folder", "a file in place of its folder"])
@pytest.mark.parametrize("planned", [False, True])
def test_a_file_whose_place_something_else_takes(folder: Path, in_place: str, planned: bool) -> None:
    """A file whose place a folder or another file takes is gone. It can be skipped before its batch
    is planned and after.
    """
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "1", "ignoreMissingFiles": "true"})
    query.step()
    begin, end = query.offset, query.coordinator.latest_offset(query.offset, UNLIMITED) if planned else None
    left = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[1:]
    for path in left:
        path.unlink()
        if in_place == "a folder":
            path.mkdir()
    if in_place != "a folder":
        shutil.rmtree(folder)
        folder.touch()
    if end is not None:
        for task in query.coordinator.tasks(begin, end):
            assert not list(read_task(query._spec, replace(task, report_to=None)))
        query.offset = end
    query.run()
    assert len(query.rows) == 100


def test_damaged_files_fail_or_are_skipped(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "damaged.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(CorruptRecordError, match=r"damaged\.parquet.*ignoreCorruptFiles"):
        FileQuery({"path": str(folder)}).run()
    query = FileQuery({"path": str(folder), "ignoreCorruptFiles": "true"})
    query.run()
    assert len(query.rows) == 1000
    assert "damaged.parquet is skipped" in caplog.text


def unreachable(*_: object) -> None:
    raise UnreachableError("Stale file handle")


@pytest.mark.parametrize("begun", [False, True])
def test_a_file_that_cannot_be_reached_for_a_moment_is_read_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """A file that cannot be reached is read once when it can be reached again, whether it is new or was begun before
    a restart. Files behind it wait.
    """
    query = FileQuery({"path": str(folder), "maxRowsPerTrigger": "50"}, available_now=False)
    if begun:
        query.step()
        query.restart()
    expected = len(query.rows)
    with monkeypatch.context() as patched:
        for name in ("units", "units_of"):
            patched.setattr(FileStatistics, name, unreachable)
        for _ in range(5):
            assert not query.step()
    assert len(query.rows) == expected
    wait_until(lambda: query.step() is None and len(query.rows) == 1000, "all rows", 30)
    assert set(query.ids().values()) == {1}


def test_a_file_that_cannot_be_reached_for_long_fails_the_query_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retries, "time_limit_s", 0.1)
    monkeypatch.setattr(FileStatistics, "units", unreachable)
    with pytest.raises(
        UnreachableError, match=r"Stale file handle Reading the file was tried repeatedly for"
    ):
        FileQuery({"path": str(folder)}).run()


def test_a_file_that_is_begun_and_away_after_a_restart_is_read_once(folder: Path) -> None:
    """A begun file that is missing after a restart, with its folder, is read once when both are back, as on a disk
    that is mounted late.
    """
    query = FileQuery({"path": str(folder), "maxRowsPerTrigger": "50"}, max_drift="1 h", available_now=False)
    while not query.rows:
        query.step()
    expected = len(query.rows)
    query.restart()
    away = folder.with_name("away")
    folder.rename(away)
    folder.mkdir()
    for _ in range(5):
        assert not query.step()
    assert len(query.rows) == expected
    folder.rmdir()
    away.rename(folder)
    wait_until(lambda: query.step() is None and len(query.rows) == 1000, "all rows", 30)
    assert set(query.ids().values()) == {1}


@pytest.mark.parametrize("option", ["ignoreMissingFiles", None])
def test_a_file_that_is_begun_and_gone_after_a_restart(
    folder: Path, option: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a begun file that is gone is skipped, as in a task, or fails the query. All
    other files are read.
    """
    options = {"path": str(folder), "maxRowsPerTrigger": "50"} | ({option: "true"} if option else {})
    query = FileQuery(options, max_drift="1 h")
    while not query.rows:
        query.step()
    (begun,) = [Path(name.rpartition("@")[0]) for name in query.splits]
    expected = len(query.rows) + 900
    begun.unlink()
    monkeypatch.setattr(Retries, "time_limit_s", 0.3)
    query.restart()
    if option is None:
        with pytest.raises(
            DataLossError, match=r"is gone.*ignoreMissingFiles.*Reading the file was tried repeatedly"
        ):
            query.run()
        return
    query.run()
    assert len(query.rows) == expected
    assert set(query.ids().values()) == {1}


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few files are enough for a generation: the window of processed files is small."""
    monkeypatch.setattr(
        "flip27_stream.connectors.files.source.ProcessedFiles", partial(ProcessedFiles, window=4)
    )


@pytest.mark.usefixtures("generations")
@pytest.mark.parametrize("was_read", [True, False])
def test_a_file_that_becomes_unreadable_while_a_generation_is_open(folder: Path, was_read: bool) -> None:
    """A file becomes unreadable while a generation is open. After a restart nobody knows whether it was read, so the
    query fails, or skips the file if an option says so.
    """
    options = {"path": str(folder), "maxFilesPerTrigger": "3"}
    query = FileQuery(options, max_drift="1 h")
    while not query.rows:
        query.step()
    assert query.state[1]["seen"][2], "a generation is open"
    damaged, rows = next(
        (path, rows)
        for number in range(1, 10)
        if (query.ids()[(rows := range(number * 100, number * 100 + 100))[0]] == 1) is was_read
        and (path := folder / f"{number * 7 % 10}.parquet")
    )
    status, good = damaged.stat(), damaged.read_bytes()
    damaged.write_bytes(bytes(len(good)))
    os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))
    query.restart()
    with pytest.raises(CorruptRecordError, match=rf"{damaged.name}.*ignoreCorruptFiles"):
        query.run()
    query.coordinator.close()
    tolerant = FileQuery({**options, "ignoreCorruptFiles": "true"}, max_drift="1 h")
    tolerant.offset = query.offset
    tolerant.run()
    damaged.write_bytes(good)
    os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))
    tolerant.restart()
    tolerant.run()
    lost = set() if was_read else set(rows)
    assert query.ids() + tolerant.ids() == dict.fromkeys(set(range(1000)) - lost, 1)


@pytest.mark.usefixtures("generations")
def test_a_file_that_could_not_be_read_when_it_was_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that could not be read in its listing is read in its place, so that after a restart
    it counts as read.
    """
    least = FileStatistics.least
    missed = {str(folder / "8.parquet")}

    def without(self: FileStatistics, paths: Sequence[str], *others: Any) -> Mapping[str, int | None]:
        found = dict(least(self, paths, *others))
        return {path: time for path, time in found.items() if path not in missed}

    monkeypatch.setattr(FileStatistics, "least", without)
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "1"}, max_drift="1 h")
    query.step()
    monkeypatch.setattr(FileStatistics, "least", least)
    while query.step() is not None:
        query.restart()
    times = [row["ts"] for row in query.rows]
    assert times == sorted(times)
    assert query.ids() == dict.fromkeys(range(1000), 1)


@pytest.mark.parametrize("rows", [10, 35, 200])
@pytest.mark.parametrize("limit", [{"maxRowsPerTrigger": "40"}, {"maxBytesPerTrigger": "1"}])
def test_a_file_that_is_begun_and_replaced_before_a_restart(
    tmp_path: Path, rows: int, limit: dict[str, str]
) -> None:
    """Its units are read again, and they are of another file."""
    for ignore in ("false", "true"):
        write(tmp_path / "a.parquet", 1000)
        query = FileQuery({"path": str(tmp_path), "ignoreMissingFiles": ignore} | limit)
        query.step()
        assert len(query.rows) == 30
        write(tmp_path / "a.parquet", 1000, rows, ids=1000)
        query.restart()
        if ignore == "true":
            query.run()
        else:
            with pytest.raises(DataLossError, match=rf"ends at position {rows} now: it was overwritten"):
                query.run()
        assert len(query.rows) == 30


def test_a_file_that_is_truncated_and_written_anew_after_it_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is empty, it does not count as read."""
    file, take_in = tmp_path / "a.txt", ListedFiles.take_in
    file.write_text("old\n")

    def truncating(self: ListedFiles, look: ListingChanges) -> None:
        take_in(self, look)
        file.write_text("")

    options = {"path": str(tmp_path), "files.format": "text", "source.monitor-interval": "1 h"}
    query = FileQuery(options, available_now=False, schema=pa.schema([("value", pa.string())]))
    with monkeypatch.context() as patched:
        patched.setattr(ListedFiles, "take_in", truncating)
        query.step()
    file.write_text("new\nlines\n")
    backlog: Any = query.coordinator._enumerator._backlog  # type: ignore[union-attr]
    backlog._not_before = 0.0
    backlog.take_in(backlog.look())
    query.run()
    assert [row["value"] for row in query.rows] == ["new", "lines"]


@pytest.mark.parametrize("ignore", ["false", "true"])
def test_a_compressed_file_that_is_damaged_under_a_limit_on_rows(tmp_path: Path, ignore: str) -> None:
    """Its lines are counted before they are read."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" * 10))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"b\n" * 1000)[:-9])
    options = {"path": str(tmp_path), "files.format": "text", "maxRowsPerTrigger": "5"}
    query = FileQuery(options | {"ignoreCorruptFiles": ignore}, schema=pa.schema([("value", pa.string())]))
    if ignore == "true":
        query.run()
    else:
        with pytest.raises(CorruptRecordError, match=r"b\.gz does not decode.*ignoreCorruptFiles"):
            query.run()
    assert len(query.rows) in ({"true": [10], "false": [0, 10]}[ignore])


OUT_OF_MEMORY = pa.ArrowMemoryError("malloc of size 64 failed")


@pytest.mark.parametrize(
    ("failure", "error", "said"),
    [
        (
            OUT_OF_MEMORY,
            ConnectorError,
            "needs more memory than this process can get: malloc of size 64 failed",
        ),
        (
            OSError(errno.EMFILE, "Too many open files"),
            UnreachableError,
            "could not be read.*Too many open files",
        ),
    ],
    ids=["memory", "files"],
)
def test_a_process_that_lacks_a_resource_skips_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, error: type[Exception], said: str
) -> None:
    """Not even with ignoreCorruptFiles: the file is whole, and its rows would be lost."""
    query = FileQuery({"path": str(folder), "ignoreCorruptFiles": "true"})
    with monkeypatch.context() as patched:
        patched.setattr(ParquetFormat, "_read", Mock(side_effect=failure))
        with pytest.raises(error, match=said) as raised:
            query.step()
        assert type(raised.value) is error
    query.run()
    assert len(query.rows) == 1000


def test_a_line_for_which_memory_is_lacking_is_not_malformed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("1\n2\n3\n")
    options = {"path": str(tmp_path), "files.format": "csv", "mode": "DROPMALFORMED"}
    query = FileQuery(options, schema=pa.schema([("id", pa.int64())]))
    with monkeypatch.context() as patched:
        patched.setattr(CsvFormat, "table", Mock(side_effect=OUT_OF_MEMORY))
        with pytest.raises(ConnectorError, match="needs more memory than this process can get"):
            query.step()
    query.run()
    assert sorted(query.ids()) == [1, 2, 3]
