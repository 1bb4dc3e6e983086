"""A process that can start no more threads raises an error that names the thread, or is slower.

It never waits for ever.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from flip27_stream.connectors.kafka.planning.group_offsets import GroupCommitter
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError
from flip27_stream.reader import FetcherPerSplitManager, SingleThreadFetcherManager
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.reporting.registered_readers import Readers
from flip27_stream.spark.source_spec import Driver
from flip27_stream.testing import ManualClock, wait_until
from flip27_stream.threads import CallPool, of_each
from tests.reader.support.kit import NumbersReader, NumbersSourceReader, read_all, splits, values_by_split
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.membership import Membership
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter

NO_MORE = "can't start new thread"
Spare = Callable[[int], None]


@pytest.fixture
def spare(monkeypatch: pytest.MonkeyPatch) -> Spare:
    """Returns a function that sets how many more threads can be started."""
    start = threading.Thread.start

    def only(left: int) -> None:
        def start_one(thread: threading.Thread) -> None:
            nonlocal left
            if left == 0:
                raise RuntimeError(NO_MORE)
            left -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_one)

    return only


def test_fewer_fetchers_read_everything(spare: Spare, caplog: pytest.LogCaptureFixture) -> None:
    made: list[NumbersReader] = []

    def make() -> NumbersReader:
        made.append(NumbersReader())
        return made[-1]

    spare(2)
    reader = NumbersSourceReader(FetcherPerSplitManager(make))
    output = read_all(reader, splits((0, 5), (0, 6), (0, 7), (0, 8)))
    assert {name: len(values) for name, values in values_by_split(output).items()} == {
        f"s{i}": 5 + i for i in range(4)
    }
    reader.close()
    assert all(r.closed.is_set() for r in made)
    assert [r.levelno for r in caplog.records if NO_MORE in r.message] == [logging.WARNING]


def test_a_task_without_any_fetcher_fails_by_name(spare: Spare) -> None:
    made = NumbersReader()
    spare(0)
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    with pytest.raises(
        ConnectorError, match=rf"Thread 'split-fetcher-\w+' cannot be started: {NO_MORE}.*ulimit"
    ):
        reader.add_splits(splits((0, 5)))
    assert made.closed.is_set()
    reader.close()


@pytest.mark.parametrize("delay_ms", [None, 5])
def test_a_call_without_a_thread_is_not_waited_for(spare: Spare, delay_ms: int | None) -> None:
    context = CoordinatorContext(1, "driver")
    spare(0)
    with pytest.raises(ConnectorError, match=f"'flip27-call-async' cannot be started: {NO_MORE}"):
        context.call_async(lambda: 1, lambda value, error: None, delay_ms)
    context.run_due()
    assert context.handled_calls() == {}
    context.close()


def test_a_call_whose_result_nobody_handles_ends_when_its_context_is_closed() -> None:
    """Otherwise each query of a driver that runs for long could leave a thread behind."""
    before, called = set(threading.enumerate()), threading.Event()
    context = CoordinatorContext(1, "driver")
    context.call_async(called.set, lambda value, error: None, 1, 1)
    (thread,) = set(threading.enumerate()) - before

    def waits() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)
        return "_wait_until_handled" in {one.f_code.co_name for one, _ in traceback.walk_stack(frame)}

    wait_until(lambda: called.is_set() and waits(), "the thread to wait for the handler")
    context.close()
    thread.join(10)
    assert not thread.is_alive()


def test_tasks_that_cannot_report_are_no_error_and_can_later(
    spare: Spare, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    readers = Readers(Driver(), CoordinatorContext(1, "driver"), clock)
    readers.expect_reports()
    spare(0)
    for _ in range(3):
        assert readers.address() is None
    assert NO_MORE in (readers.reporting().impossible or "")
    assert len([m for m in caplog.messages if "Tasks cannot report" in m]) == 1
    spare(1)
    clock.advance(10_001)
    assert readers.address() is not None
    readers.close()


def test_a_member_that_has_no_thread_fails_by_name(spare: Spare, tmp_path: Path) -> None:
    """A group member without a thread raises an error.

    It could neither read the group's entries nor publish its own, and the other members would read past it.
    """
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.open()
    member = Membership(GroupLog(table, "g", 60_000, 64), entry("clicks"), ManualClock())
    spare(0)
    for _ in range(2):
        with pytest.raises(ConnectorError, match=f"'flip27-group' cannot be started: {NO_MORE}"):
            member.look()
    member.leave()


def test_rows_wait_for_a_thread_while_the_run_goes_on(
    spare: Spare, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.open()
    writer = TableWriter(table, "clicks:1")
    spare(0)
    for batch in (1, 2):
        writer.submit(batch, split_rows(batch), {})
    assert not writer.flush(30)
    spare(1)
    writer.submit(3, split_rows(3), {})
    assert writer.flush(30)
    writer.close()
    assert set(table.rows()["batch"].to_pylist()) == {1, 2, 3}
    assert [r.levelno for r in caplog.records if NO_MORE in r.message] == [logging.WARNING]


def test_offsets_that_cannot_be_committed_are_no_error(
    spare: Spare, caplog: pytest.LogCaptureFixture
) -> None:
    committer = GroupCommitter(Mock(), "lag")
    spare(0)
    for offset in (1, 2):
        committer.processed({TopicPartition("clicks", 0): offset})
    assert not committer.flush(30)
    committer.close(30)
    assert len([m for m in caplog.messages if NO_MORE in m]) == 1


@pytest.mark.parametrize("threads", [0, 1, 3, 99])
def test_calls_run_one_by_one_where_no_thread_can_start(spare: Spare, threads: int) -> None:
    spare(threads)
    assert of_each(lambda n: n * n, range(50), 8) == [n * n for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        of_each(lambda n: 1 // (n - 7), range(50), 8)


def test_a_pool_without_a_thread_fails_by_name(spare: Spare) -> None:
    pool = CallPool(8, "flip27-pulsar")
    spare(0)
    with pytest.raises(ConnectorError, match=rf"Thread 'flip27-pulsar' cannot be started: {NO_MORE}.*ulimit"):
        pool.results({"a": lambda: 1, "b": lambda: 2})
    spare(9)
    assert pool.results({"a": lambda: 1, "b": lambda: 2}) == {"a": 1, "b": 2}
    pool.close()
