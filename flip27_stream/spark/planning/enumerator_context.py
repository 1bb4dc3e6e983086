"""The context that the coordinator offers to its enumerator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from flip27_stream.api import (
    MetricGroup,
    ReaderInfo,
    SourceEvent,
    SourceSplit,
    SplitEnumeratorContext,
    SplitsAssignment,
)
from flip27_stream.api.arguments import check_assignment, check_call, check_callable, check_ids
from flip27_stream.api.contract import size_of_event
from flip27_stream.spark.planning.async_calls import AsyncCalls
from flip27_stream.spark.source_contract import check_split


class CoordinatorContext(SplitEnumeratorContext[Any]):
    """The context of an enumerator: it stores assigned splits and runs asynchronous calls (``call_async``).

    Args:
        parallelism: The number of reader slots.
        location: The host name of the driver, which is the location of a slot until a task has reported.
    """

    def __init__(self, parallelism: int, location: str) -> None:
        self._readers = {i: ReaderInfo(i, location) for i in range(parallelism)}
        self._metrics = MetricGroup()
        self._calls = AsyncCalls()
        self._splits: dict[str, SourceSplit] = {}
        self._is_ordered = True
        self.events: dict[int, list[SourceEvent]] = {}
        """The events to send with the next micro-batch, by subtask."""
        self.retired: dict[str, SourceSplit] = {}
        """The splits that are no longer assigned but are still in the last offset, by id."""
        self._given_back: set[str] = set()
        self._no_more_splits: set[int] = set()

    @property
    def splits(self) -> dict[str, SourceSplit]:
        """The assigned splits, by id, in the order of their ids, as in offsets.

        All mappings of splits have this order, because a plan goes through many mappings and is faster if it reads
        memory in order. The splits are sorted here, and not at each assignment, because an enumerator may assign them
        one by one.
        """
        if not self._is_ordered:
            ordered = sorted(self._splits.items(), key=itemgetter(0))
            self._splits.clear()
            self._splits.update(ordered)
            self._is_ordered = True
        return self._splits

    def restore(self, splits: Mapping[str, SourceSplit]) -> None:
        """Adds the splits that an offset has as assigned."""
        self.splits.update(splits)

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def current_parallelism(self) -> int:
        return len(self._readers)

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return dict(self._readers)

    def assigned_splits(self) -> Mapping[str, SourceSplit]:
        return dict(self.splits)

    def assign_splits(self, assignment: SplitsAssignment[Any]) -> None:
        check_assignment(assignment)
        for subtask_id, splits in assignment.assignment.items():
            self._check_reader("assign splits to", subtask_id)
            for split in splits:
                check_split(split)
        closed = sorted(
            i for i, splits in assignment.assignment.items() if splits and i in self._no_more_splits
        )
        if closed:
            raise ValueError(
                f"Cannot assign splits to readers {closed}: signal_no_more_splits() was called for them"
            )
        all_new = [split for splits in assignment.assignment.values() for split in splits]
        new = {split.split_id: split for split in all_new}
        if len(new) < len(all_new):
            raise ValueError(
                f"Cannot assign {len(all_new)} splits: they have only {len(new)} different ids: {sorted(new)}"
            )
        again = new.keys() & self._given_back
        twice = sorted((new.keys() - again) & self._splits.keys())
        if twice:
            raise ValueError(f"Cannot assign splits {twice}: they are assigned already")
        retired = sorted(new.keys() & self.retired.keys())
        if retired:
            raise ValueError(f"Cannot assign splits {retired}: they were retired")
        self._given_back -= again
        self._splits.update({name: split for name, split in new.items() if name not in again})
        self._is_ordered = False

    def give_back(self, splits: Sequence[SourceSplit]) -> None:
        """Marks splits of a failed reader: they stay assigned, and may be assigned again."""
        self._given_back.update(split.split_id for split in splits)

    def set_location(self, subtask_id: int, host: str) -> None:
        """Records that a task of the reader ran on ``host``."""
        if subtask_id in self._readers:
            self._readers[subtask_id] = ReaderInfo(subtask_id, host)

    def retire_splits(self, split_ids: Collection[str]) -> None:
        check_ids("retire_splits", split_ids)
        unknown = sorted(set(split_ids) - set(self.splits))
        if unknown:
            raise ValueError(f"Cannot retire splits {unknown}: they are not assigned")
        self.retired.update({split_id: self.splits.pop(split_id) for split_id in split_ids})
        self._given_back -= self.retired.keys()

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self._check_reader("signal no more splits to", subtask_id)
        self._no_more_splits.add(subtask_id)

    def has_no_more_splits(self, subtask_id: int) -> bool:
        """Returns whether the enumerator has told the reader that no more splits will come."""
        return subtask_id in self._no_more_splits

    @property
    def has_all_splits(self) -> bool:
        """Whether the enumerator has told all readers that no more splits will come."""
        return self._no_more_splits >= self._readers.keys()

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._check_reader("send an event to", subtask_id)
        size_of_event(event)
        self.events.setdefault(subtask_id, []).append(event)

    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        check_callable("run_in_coordinator_thread", "runnable", runnable)
        self._calls.add_due(runnable)

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        check_call(callable, handler, initial_delay_ms, period_ms)
        self._calls.start(
            callable,
            handler,
            delay_s=(initial_delay_ms or 0) / 1000,
            period_s=None if period_ms is None else period_ms / 1000,
        )

    def handled_calls(self) -> dict[int, int]:
        """Returns how often the handler of each unfinished call of ``call_async`` was run, by the call's number."""
        return self._calls.handled()

    def run_due(self) -> None:
        """Runs the handlers that are due; see :meth:`AsyncCalls.run_due`."""
        self._calls.run_due()

    def _check_reader(self, what: str, subtask_id: int) -> None:
        if subtask_id not in self._readers:
            raise ValueError(
                f"Cannot {what} reader {subtask_id!r}: only readers 0 to {len(self._readers) - 1} are registered"
            )

    def close(self) -> None:
        """Starts no further calls; see :meth:`AsyncCalls.close`."""
        self._calls.close()
