"""Registration of readers whose tasks live for one batch, and the assignment of splits to readers. No JVM.

The page docs/readers.md describes both. Scenarios CO-* and TR-* are those of Flink's SourceCoordinator and
SplitAssignmentTracker, adapted.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from flip27_stream.api import (
    ReaderInfo,
    ReadLimits,
    SplitsAssignment,
)
from flip27_stream.spark.execution import task as task_module
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import TaskReport
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemorySplit, MemoryWorld
from tests.spark.support.talking_query import LOGS, Diary, enumerator_of, said, talking

# ---- registration ---------------------------------------------------------------------------------------------------


def test_co_22_readers_are_registered_once_each_after_the_start() -> None:
    """CO-22: each reader is registered once, after the start of the enumerator and before any other call about the
    reader.
    """
    query = talking(parallelism=3)
    query.step()
    query.step()
    assert said(query, "start", "reader", "event", "request")[:4] == [
        "start",
        "reader 0",
        "reader 1",
        "reader 2",
    ]


def test_co_04_readers_are_not_restored_but_registered_anew() -> None:
    """CO-04, CO-25: after a restart readers are registered anew, as many as the new run has. The splits come from the
    offset.
    """
    query = talking(parallelism=7)
    query.step()
    query.parallelism = 3
    query.restart()
    query.step()
    assert said(query, "reader")[-3:] == ["reader 0", "reader 1", "reader 2"]
    assert sorted(query.coordinator._context.splits) == sorted(LOGS)
    assert len(query.coordinator._context.registered_readers()) == 3


def test_a_reader_is_where_its_last_task_ran() -> None:
    query = talking()
    query.step()
    query.step()
    assert query.coordinator._context.registered_readers()[0] == ReaderInfo(0, socket.gethostname())


def test_a_task_that_has_nothing_new_to_say_sends_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without alignment, a task without events and requests reports only if its host is not the known location of its
    slot. Other tests have events and requests.
    """
    sent: list[TaskReport] = []

    def send(address: ReportAddress, report: TaskReport) -> bool:
        sent.append(report)
        return send_report(address, report)

    monkeypatch.setattr(task_module, "send_report", send)
    query = DrivenQuery(MemoryWorld({"a": [1]}), None, parallelism=1)
    context = query.coordinator._context
    for batch in range(4):
        query.world.logs["a"].append(batch)
        if batch == 2:
            context.set_location(0, "elsewhere")
        query.step()
    assert [report.batch for report in sent] == [0, 2]
    assert query.coordinator._readers._check is None, "no report is missed"
    assert query.step() is None
    assert context.registered_readers()[0].location == socket.gethostname()


def test_tasks_beyond_the_slots_run_as_those_again() -> None:
    """A batch can have more tasks than readers, if it is cut into more pieces than can run at the same time."""
    query = talking({"a": [1, 2, 3, 4, 5]})
    query.source.limits = ReadLimits(max_rows_per_task=1)
    start = query.offset
    query.step()
    tasks = query.coordinator.tasks(start, query.offset)
    assert [(task.number, task.subtask) for task in tasks] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]


# ---- assignment -----------------------------------------------------------------------------------------------------


def test_co_14_a_reader_must_be_registered() -> None:
    context = CoordinatorContext(2, "host")
    with pytest.raises(
        ValueError, match=r"Cannot assign splits to reader 2: only readers 0 to 1 are registered"
    ):
        context.assign_split(MemorySplit("a"), 2)
    assert not context.splits


def test_tr_01_assignments_add_up() -> None:
    """TR-01: an assignment to any reader adds splits to those that were assigned before."""
    context = CoordinatorContext(3, "host")
    context.assign_splits(SplitsAssignment({0: [MemorySplit("0")], 1: [MemorySplit("1"), MemorySplit("2")]}))
    context.assign_splits(SplitsAssignment({0: [MemorySplit("6")], 1: [MemorySplit("7")]}))
    assert list(context.splits) == ["0", "1", "2", "6", "7"]


def test_co_13_splits_may_be_assigned_from_another_thread() -> None:
    """CO-13: another thread may assign splits with ``run_in_coordinator_thread``. The splits are planned with the
    next batch.
    """
    query = talking({"a": [1]})
    query.step()
    query.world.logs["b"] = [2]
    thread = threading.Thread(target=query.discover)
    thread.start()
    thread.join()
    assert query.step() == [("b", 2)]


def test_co_16_no_more_splits_is_said_to_each_reader() -> None:
    """CO-16: "no more splits" holds for each reader that was told so, and for the source after all readers were
    told.
    """
    context = CoordinatorContext(3, "host")
    context.signal_no_more_splits(0)
    context.signal_no_more_splits(1)
    assert [context.has_no_more_splits(i) for i in range(3)] == [True, True, False]
    assert not context.has_all_splits
    with pytest.raises(ValueError, match=r"readers \[1\]: signal_no_more_splits\(\) was called for them"):
        context.assign_split(MemorySplit("a"), 1)
    context.signal_no_more_splits(2)
    assert context.has_all_splits


# ---- life cycle of the enumerator -----------------------------------------------------------------------------------


def test_co_03_close_with_and_without_a_start() -> None:
    query = talking()
    query.coordinator.close()
    assert said(query, "close") == []
    query.restart()
    query.step()
    query.coordinator.close()
    assert said(query, "close") == ["close"]


class BoomError(Exception):
    """An error that a source raises."""


@pytest.mark.parametrize("place", ["creation", "start", "handler", "runnable"])
def test_co_09_co_18_co_20_errors_of_the_enumerator_fail_the_query(place: str) -> None:
    """CO-09, CO-18, CO-20: an error that the enumerator raises fails the query, as the same object."""
    boom = BoomError(place)

    def throw(*_: object) -> None:
        raise boom

    class Throws(Diary):
        def __init__(self, *arguments: Any) -> None:
            if place == "creation":
                throw()
            super().__init__(*arguments)

        def start(self) -> None:
            if place == "start":
                throw()
            if place == "handler":
                self.context.call_async(lambda: 1, throw)
            if place == "runnable":
                self.context.run_in_coordinator_thread(throw)

    with pytest.raises(BoomError) as caught:
        talking(enumerator=Throws).step()
    assert caught.value is boom


def test_co_10_close_does_not_wait_for_a_stuck_callable() -> None:
    """CO-10: closing a coordinator does not wait for a callable that is stuck. The callable returns only at the end
    of this test.
    """
    query = talking()
    query.step()
    begun, stuck = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        stuck.wait()

    try:
        query.coordinator._context.call_async(hang, lambda value, error: None, initial_delay_ms=1)
        assert begun.wait(60)
        query.coordinator.close()
        assert said(query, "close") == ["close"]
    finally:
        stuck.set()


@pytest.mark.parametrize("fails", [False, True])
def test_co_21_a_handler_gets_a_value_or_an_error(fails: bool) -> None:
    """CO-21: a handler of ``call_async`` gets a value or an error, and not both."""
    context = CoordinatorContext(1, "host")
    boom = BoomError("no")
    got: list[tuple[Any, Any]] = []

    def call() -> int:
        if fails:
            raise boom
        return 1234

    context.call_async(call, lambda value, error: got.append((value, error)))
    context.run_due()
    assert got == [(None, boom) if fails else (1234, None)]


def test_co_02_state_comes_in_through_the_offset_only() -> None:
    """CO-02 adapted: a coordinator that has planned keeps its enumerator for the next plans."""
    query = talking({"a": [1]})
    query.step()
    first = enumerator_of(query)
    query.world.logs["a"].append(2)
    assert query.step() == [("a", 2)]
    assert enumerator_of(query) is first
