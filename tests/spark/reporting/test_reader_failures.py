"""Failures of readers whose tasks live for one batch, and batches that are logged before readers run. No JVM.

The page docs/readers.md describes both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flip27_stream.api import (
    InputStatus,
    ReaderOutput,
    SourceEvent,
    SourceReaderContext,
    SplitsAssignment,
)
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import ConnectorError
from flip27_stream.spark.execution import task as task_module
from flip27_stream.spark.execution.task import SplitTask, read_task
from tests.spark.support.sources.memory_source import MemoryReader, MemorySplit, MemoryWorld
from tests.spark.support.talking_query import Diary, TalkingReader, said, talking

# ---- failures -------------------------------------------------------------------------------------------------------


class FailsOnce(TalkingReader):
    """A reader that fails at its first poll of split "a"."""

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if "failed" not in self._world.calls and any(s.name == "a" for s in self._splits):
            self._world.calls.append("failed")
            raise OSError("the disk is gone")
        return super().poll_next(output)


def test_a_task_that_fails_gives_its_splits_back_and_is_run_again() -> None:
    """CO-06, TR-04 adapted: a task that fails gives its splits back to the enumerator. They stay assigned with their
    positions, and the next attempt reads the same ranges.
    """
    query = talking({"a": [1, 2], "b": [3]}, parallelism=1)
    query.source.reader = FailsOnce
    start, end = query.offset, query.coordinator.latest_offset(query.offset, None)
    (task,) = query.coordinator.tasks(start, end)
    with pytest.raises(OSError, match="disk"):
        list(read_task(query.spec, task))
    rows = [row["event_time"] for batch in read_task(query.spec, task) for row in batch.to_pylist()]
    assert rows == [1, 2, 3]
    query.offset = end
    assert query.step() is None
    assert said(query, "back", "event") == ["back ['a', 'b'] from 0", "event got of 0: []"]


def test_co_06_a_batch_that_was_not_committed_gives_its_splits_back() -> None:
    """CO-05, CO-06 adapted: a batch that was not committed gives its splits back to the enumerator of the next
    process. That process runs the batch again from the two offsets, with other readers.
    """
    query = talking(parallelism=2)
    start = query.offset
    end = query.coordinator.latest_offset(start, None)
    planned = [task.ranges for task in query.coordinator.tasks(start, end)]
    query.restart()
    assert [task.ranges for task in query.coordinator.tasks(start, end)] == planned
    query.offset = end
    assert query.step() is None
    told = said(query, "start", "back", "reader", "complete")
    assert told[told.index("start", 1) :] == [
        "start",
        *(f"back {[s.split_id for s, _, _ in ranges]} from {i}" for i, ranges in enumerate(planned)),
        "reader 0",
        "reader 1",
        "complete {'a': 2, 'b': 1, 'c': 2, 'd': 1}",
    ]


def test_co_07_a_committed_batch_gives_nothing_back() -> None:
    """CO-07, TR-03: splits that the query has processed are not given back."""
    query = talking()
    query.step()
    query.step()
    query.restart()
    query.step()
    assert said(query, "back") == []


class TakesBack(Diary):
    """An enumerator that assigns splits that come back to the last reader, as Flink's enumerators do."""

    def add_splits_back(self, splits: Sequence[MemorySplit], subtask_id: int) -> None:
        super().add_splits_back(splits, subtask_id)
        last = self.context.current_parallelism() - 1
        self.context.assign_splits(SplitsAssignment({last: splits}))


def test_splits_that_came_back_may_be_assigned_again() -> None:
    """TR-04: the enumerator may assign splits that came back. They go on at their positions, and cannot be assigned
    another time.
    """
    query = talking({"a": [1, 2]}, enumerator=TakesBack)
    start = query.offset
    end = query.coordinator.latest_offset(start, None)
    query.restart()
    assert query.run(start, end) == [("a", 1), ("a", 2)]
    query.offset = end
    query.world.logs["a"].append(3)
    assert query.step() == [("a", 3)]
    assert said(query, "back") == ["back ['a'] from 0"]
    with pytest.raises(ValueError, match="assigned already"):
        query.coordinator._context.assign_split(MemorySplit("a"), 0)


def test_a_reader_without_records_names_the_splits_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose reader gets no records fails. The error names the split, its range, and the last position that was
    read.
    """

    class Stuck(MemoryReader):
        def __init__(self, world: MemoryWorld, context: SourceReaderContext) -> None:
            super().__init__(world)

        def poll_next(self, output: ReaderOutput) -> InputStatus:
            return super().poll_next(output) if self._splits else InputStatus.NOTHING_AVAILABLE

        def is_available(self) -> Any:
            from concurrent.futures import Future

            return Future()

    monkeypatch.setattr(task_module, "AVAILABILITY_TIMEOUT_S", 0.05)
    query = talking()
    query.source.reader = Stuck
    task = SplitTask(0, 0, [PlannedRange(MemorySplit("c"), 0, 2)])
    with pytest.raises(
        ConnectorError, match=r"split c from position 0 to 2 \(2 rows came, the last at position 1\)"
    ):
        list(read_task(query.spec, task))


# ---- the log as write-ahead log -------------------------------------------------------------------------------------


def ranges_of(tasks: Sequence[SplitTask]) -> set[tuple[str, int, int]]:
    return {(split.split_id, start, end) for task in tasks for split, start, end in task.ranges}


def test_a_planned_batch_is_fixed_whatever_happens_meanwhile() -> None:
    """PY-14: a planned batch is fixed, even if rows are written meanwhile or the next process has fewer readers."""
    query = talking(parallelism=4)
    start = query.offset
    end = query.coordinator.latest_offset(start, None)
    planned = ranges_of(query.coordinator.tasks(start, end))
    for log in query.world.logs.values():
        log.append(99)
    query.parallelism = 1
    query.restart()
    tasks = query.coordinator.tasks(start, end)
    assert len(tasks) == 1
    assert ranges_of(tasks) == planned == {("a", 0, 2), ("b", 0, 1), ("c", 0, 2), ("d", 0, 1)}


def test_a_failed_coordinator_loses_events_on_their_way_and_nothing_else() -> None:
    query = talking({"a": [1]})
    query.step()
    query.coordinator._context.send_event_to_source_reader(0, SourceEvent("lost"))
    query.restart()
    query.world.logs["a"].append(2)
    assert query.step() == [("a", 2)]
    query.step()
    assert said(query, "event") == ["event got of 0: []"]
