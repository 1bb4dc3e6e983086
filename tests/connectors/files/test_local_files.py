"""Files and Delta logs on a mount that does not answer: planning and tasks fail, and name the file. No JVM.

A FIFO without a writer stands for a file that hangs when it is opened. A file system that waits stands for a log.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import NativeFile
from pyarrow.fs import FileSystem

from flip27_stream import local_calls, running_time
from flip27_stream.connectors.files import FileSource, local_files
from flip27_stream.connectors.files.delta import delta_log, delta_log_files
from flip27_stream.connectors.files.formats import statistics
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.statistics import FileStatistics
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.local_calls import LocalCall
from tests.connectors.files.support.delta_tables import append, fails, query, running
from tests.connectors.files.support.file_query import FileQuery, write
from tests.connectors.files.support.reading import LOCAL_FS
from tests.support.module_time import replace_time


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCall, "time_limit_s", 0.5)
    monkeypatch.setattr(Retries, "time_limit_s", 0.1)


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    answers = threading.Event()
    yield answers
    answers.set()


def hang(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def release(path: Path) -> None:
    """Ends the calls that wait for a writer of the FIFO."""
    os.close(os.open(path, os.O_RDWR))


def test_a_file_that_hangs_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    write(file, 1)
    schema = ParquetFormat().schema(LOCAL_FS, str(file))
    hang(file)
    named = r"Opening .*a\.parquet hangs: no answer came for 0\.5 s\. Check .* its mount"
    with pytest.raises(UnreachableError, match=named):
        ParquetFormat().units(LOCAL_FS, str(file))
    with pytest.raises(UnreachableError, match=named):
        ParquetFormat().schema(LOCAL_FS, str(file))
    with pytest.raises(UnreachableError, match=named):
        list(ParquetFormat().read(LOCAL_FS, str(file), 0, 1, schema))
    release(file)


def test_time_in_which_the_process_was_suspended_does_not_count(
    answers: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock jumps between two readings, as in a suspended process. The call has still time to answer."""
    jumps = itertools.count(step=1000)
    replace_time(monkeypatch, running_time.__name__, monotonic=lambda: float(next(jumps)))
    monkeypatch.setattr(LocalCall, "time_limit_s", 60.0)
    threading.Timer(0.3, answers.set).start()
    assert local_calls.answered(lambda: answers.wait(30), "A call")


def test_threads_are_used_again_but_not_after_a_fork() -> None:
    """To start a thread takes longer than to open a file. A forked process has none of the threads."""
    names = {local_calls.answered(threading.get_ident, "A call") for _ in range(50)}
    assert len(names) < 10
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            local_calls.answered(os.getpid, "A call")
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_planning_fails_by_name_if_a_file_hangs(tmp_path: Path) -> None:
    """A file that was partly read is opened again after a restart. If it hangs, planning fails with its name."""
    file = tmp_path / "in" / "a.parquet"
    write(file, 1)
    options = {"path": str(tmp_path / "in"), "maxRowsPerTrigger": "40"}
    reading = FileQuery(options, schema=FileSource(options).schema)
    assert reading.step() == [("a.parquet", 0, 30)]
    hang(file)
    reading.restart()
    with pytest.raises(UnreachableError, match=r"Opening .*a\.parquet hangs"):
        reading.run()
    release(file)


def test_many_files_are_opened_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is missing, and one that was not opened before, are opened where they are needed."""
    paths = [str(tmp_path / name) for name in "abcd"]
    for path in paths:
        Path(path).write_text(path)
    Path(paths[1]).unlink()
    threads = []
    opened = local_files._opened

    def opening(fs: FileSystem, path: str) -> NativeFile:
        threads.append(threading.get_ident())
        return opened(fs, path)

    monkeypatch.setattr(local_files, "_opened", opening)
    with local_files.opened_ahead(LOCAL_FS, paths[:3]):
        assert len(threads) == 3
        assert len({*threads, threading.get_ident()}) == 2
        for path in paths[::2] * 2:
            assert local_files.open_file(LOCAL_FS, path).read() == path.encode()
        with pytest.raises(FileNotFoundError):
            local_files.open_file(LOCAL_FS, paths[1])
        assert len(threads) == 6  # The second opening of two files, and the missing one.
        with local_files.opened_ahead(LOCAL_FS, paths[3:]):
            assert local_files.open_file(LOCAL_FS, paths[3]).read() == paths[3].encode()
        assert len(threads) == 7


def test_a_file_that_hangs_among_many_is_named(tmp_path: Path) -> None:
    """The files before it and after it can be read. The thread that was given up opens none of them."""
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_text(path)
    hang(Path(paths[1]))
    with local_files.opened_ahead(LOCAL_FS, paths):
        assert local_files.open_file(LOCAL_FS, paths[0]).read() == paths[0].encode()
        with pytest.raises(UnreachableError, match=r"Opening .*/b hangs: no answer came for 0\.5 s"):
            local_files.open_file(LOCAL_FS, paths[1])
        assert list(local_files._ahead.files) == []
        assert local_files.open_file(LOCAL_FS, paths[2]).read() == paths[2].encode()
    release(Path(paths[1]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_look_at_many_files_opens_no_further_one(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, answers: threading.Event
) -> None:
    """A signal ends the look. Threads that go on while the process ends could abort it."""
    opened: list[str] = []
    ended = threading.Event()

    def opening(_: object, path: str) -> None:
        opened.append(path)
        assert answers.wait(60)

    class Interrupted(LocalCall[Any]):
        def wait(self) -> Any:
            raise error

        def _run(self) -> None:
            super()._run()
            ended.set()

    monkeypatch.setattr(local_files, "_opened", opening)
    monkeypatch.setattr(local_files, "LocalCall", Interrupted)
    with pytest.raises(error), local_files.opened_ahead(LOCAL_FS, ["a", "b", "c"]):
        pass
    answers.set()
    assert ended.wait(60)
    assert len(opened) <= 1


def test_a_file_that_hangs_while_event_times_are_read_is_named(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.parquet") for name in "abc"]
    for path in paths:
        write(Path(path), 1)
    statistics = FileStatistics(Storage(), ParquetFormat(), pa.schema({"ts": pa.timestamp("us", "UTC")}))
    order = statistics.order_named("ts")
    assert statistics.least(paths, order) == dict.fromkeys(paths, 1)
    hang(Path(paths[1]))
    with pytest.raises(UnreachableError, match=r"Opening .*b\.parquet hangs"):
        statistics.least(paths, order)
    release(Path(paths[1]))


def test_files_of_a_slow_mount_are_opened_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads look at them. If each opened many files at once, the process could have too many open files."""
    paths = [str(tmp_path / f"{number}.parquet") for number in range(20)]
    for path in paths:
        write(Path(path), 1)
    opened: list[Sequence[str]] = []

    def opening(_: FileSystem, together: Sequence[str]) -> dict[str, Callable[[], NativeFile]]:
        opened.append(together)
        return {}

    monkeypatch.setattr(local_files, "_opened_together", opening)
    looked = FileStatistics(Storage(), ParquetFormat(), pa.schema({"ts": pa.timestamp("us", "UTC")}))
    for ratio, expected in [(-1, []), (1e9, [paths[1:]])]:
        monkeypatch.setattr(statistics, "_WAITING", ratio)
        assert looked.least(paths, looked.order_named("ts")) == dict.fromkeys(paths, 1)
        assert opened == expected


def test_files_with_their_event_time_in_a_folder_are_not_opened(tmp_path: Path) -> None:
    """A file in a folder ``ts=now and then`` has no event time in the result, like a file that cannot be read."""
    layouts = {}
    for number, value in enumerate(["2026-11-01", "now and then", "2026-11-02"]):
        path = tmp_path / f"ts={value}" / f"{number}.parquet"
        path.parent.mkdir()
        os.mkfifo(path)
        layouts[str(path)] = FileLayout((("ts", value),))
    statistics = FileStatistics(Storage(), ParquetFormat(), pa.schema({"ts": pa.timestamp("us", "UTC")}))
    found = statistics.least(list(layouts), statistics.order_named("ts"), layouts)
    assert list(found) == [path for path in layouts if "then" not in path]


def test_without_another_thread_it_is_opened_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise ConnectorError("no thread")

    write(tmp_path / "a.parquet", 1)
    monkeypatch.setattr(local_calls, "start", start)
    monkeypatch.setattr(local_calls, "_idle", deque())
    with local_files.opened_ahead(LOCAL_FS, [str(tmp_path / "a.parquet")]):
        assert not local_files._ahead.files
    assert ParquetFormat().units(LOCAL_FS, str(tmp_path / "a.parquet")).end == 100
    (tmp_path / "empty").touch()
    assert local_files.open_file(LOCAL_FS, str(tmp_path / "empty")).size() == 0


def test_a_delta_log_that_hangs_fails_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: threading.Event
) -> None:
    """A Delta log that hangs fails the query when it starts, and when it looks for new commits."""

    def hanging(*arguments: Any, **options: Any) -> DeltaTable:
        assert answers.wait(60)
        return DeltaTable(*arguments, **options)

    append(tmp_path / "t", 0, 0)
    reading = running(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(delta_log, "DeltaTable", hanging)
        with pytest.raises(
            UnreachableError, match=r"Reading the log of the Delta table .* hangs: no answer came"
        ):
            query(tmp_path / "t")

    def opening(*_: object) -> object:
        assert answers.wait(60)
        raise AssertionError("it was not to answer")

    append(tmp_path / "t", 100, 100)
    with monkeypatch.context() as patch:
        patch.setattr(
            delta_log_files, "open_file", lambda fs, path: local_calls.answered(opening, f"Opening {path}")
        )
        with pytest.raises(UnreachableError, match=r"Opening .*/_delta_log/.*\.json hangs"):
            fails(reading)
    answers.set()


def test_a_delta_log_whose_listing_hangs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: threading.Event
) -> None:
    append(tmp_path / "t", 0, 0)
    log = delta_log_files.LogFiles(Storage(), str(tmp_path / "t" / "_delta_log"))
    assert log.names() == ["00000000000000000000.json"]

    class FileSystem:
        """A file system that does not answer."""

        def get_file_info(self, _: object) -> list[object]:
            assert answers.wait(60)
            return []

    monkeypatch.setattr(Storage, "filesystem", lambda _: FileSystem())
    with pytest.raises(UnreachableError, match=r"Listing the Delta log .* hangs"):
        log.names()
