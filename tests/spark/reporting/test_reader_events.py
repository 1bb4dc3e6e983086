"""Messages between the enumerator and the readers: events in both directions, and requests for splits. No JVM."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from flip27_stream.api import (
    SourceEvent,
    SplitRange,
)
from flip27_stream.spark.execution.task import read_task
from tests.spark.support.sources.memory_source import MemorySplit
from tests.spark.support.talking_query import Diary, said, talking


def test_events_reach_readers_and_the_enumerator() -> None:
    """CO-22: an event reaches a reader with a task of the next batch, and the enumerator with a report. A request for
    a split names the host.
    """
    query = talking()
    query.step()
    query.step()
    assert said(query, "event", "request") == [
        f"request of {slot} at {socket.gethostname()}" if kind == "request" else f"event got of {slot}: []"
        for slot in (0, 1)
        for kind in ("request", "event")
    ]
    context = query.coordinator._context
    context.send_event_to_source_reader(1, SourceEvent("one"))
    context.send_event_to_source_reader(1, SourceEvent("two"))
    assert query.step() is None, "events wait for a batch that has tasks"
    for name in "ab":
        query.world.logs[name].append(9)
    query.step()
    query.step()
    assert said(query, "event") == ["event got of 0: []", "event got of 1: ['one', 'two']"]


def test_one_task_stands_for_all_readers_of_a_small_batch() -> None:
    query = talking({"a": [1]}, parallelism=3)
    query.step()
    query.step()
    context = query.coordinator._context
    for reader in (2, 0, 1):
        context.send_event_to_source_reader(reader, SourceEvent(f"to {reader}"))
    query.world.logs["a"].append(2)
    query.step()
    query.step()
    assert said(query, "event")[-1] == "event got of 0: ['to 0', 'to 1', 'to 2']"


def test_events_of_a_repeated_task_are_handled_once() -> None:
    """AL-11: events and requests of a task that runs again reach the enumerator once. Tasks run again when they are
    retried or speculative, with two actions in foreachBatch, and in self-unions.
    """
    query = talking({"a": [1]})
    start = query.offset
    query.step()
    again = query.coordinator.tasks(start, query.offset)
    assert query.run(start, query.offset) == [("a", 1)]
    query.step()
    assert len(said(query, "event")) == len(said(query, "request")) == 1
    assert again == query.coordinator.tasks(start, query.offset)


def test_a_batch_that_is_asked_for_twice_has_the_same_events() -> None:
    query = talking({"a": [1]})
    enumerator_before = query.coordinator
    start = query.offset
    end = enumerator_before.latest_offset(start, None)
    enumerator_before._context.send_event_to_source_reader(0, SourceEvent("hello"))
    first, second = (enumerator_before.tasks(start, end) for _ in range(2))
    assert first == second
    assert first[0].events == (SourceEvent("hello"),)


def test_events_of_an_old_batch_are_ignored() -> None:
    """Events and requests in a report of a batch that is long done do not reach the enumerator. Spark did not wait
    for this task; another attempt of it was counted.
    """
    query = talking({"a": [1]})
    start = query.offset
    query.step()
    (zombie,) = query.coordinator.tasks(start, query.offset)
    query.world.logs["a"].append(2)
    query.step()
    query.step()
    said(query, "event", "request")
    assert list(read_task(query.spec, zombie))
    query.world.logs["a"].append(3)
    query.step()
    assert said(query, "event", "request") == []


class Lazy(Diary):
    """Assigns one split for each request, as Flink's file source does, and signals when there are no more splits."""

    def start(self) -> None:
        self.world.calls.append("start")

    def add_reader(self, subtask_id: int) -> None:
        self.handle_split_request(subtask_id, None)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        super().handle_split_request(subtask_id, requester_hostname)
        if self.assigned < len(self.world.logs):
            self.context.assign_split(MemorySplit(list(self.world.logs)[self.assigned]), subtask_id)
            self.assigned += 1
        else:
            self.context.signal_no_more_splits(subtask_id)

    def split_ranges(self, positions: Mapping[MemorySplit, int | None]) -> Mapping[str, SplitRange]:
        self.world.finished.update(split.name for split in positions)
        return super().split_ranges(positions)


def test_co_08_co_12_readers_get_splits_on_request() -> None:
    """CO-08: requests get splits, and after the last split the signal that there are no more. CO-12: further requests
    are ignored until a restart.
    """
    query = talking({"a": [1, 2], "b": [3], "c": [4]}, parallelism=1, enumerator=Lazy)
    while query.step() is not None:
        pass
    assert query.batches == [[("a", 1), ("a", 2)], [("b", 3)], [("c", 4)]]
    # The fourth request came with the report of "c", and was answered that there are no more splits.
    assert len(said(query, "request")) == 4
    query.restart()
    assert query.step() is None
    assert len(said(query, "request")) == 1, "no-more is forgotten with the readers, and said again"


def test_a_source_is_finished_when_all_were_told_and_all_is_read() -> None:
    """A bounded source is finished when all readers were told that there are no more splits and all rows are read.
    From then on the enumerator is not called.
    """
    query = talking({"a": [1, 2], "b": [3]}, parallelism=2, enumerator=Lazy)
    while query.step() is not None:
        pass
    said(query, "split_ranges")
    query.world.logs["c"] = [9]
    assert query.step() is None
    assert said(query, "split_ranges") == []
