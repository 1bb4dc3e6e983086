"""The context of the enumerator of one of the sources."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
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
from flip27_stream.connectors.hybrid.overlap import Intervals
from flip27_stream.connectors.hybrid.source_list import ActiveSource
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, split_id

Handler = Callable[[Any, BaseException | None], None]


class ChildContext(SplitEnumeratorContext[Any]):
    """Wraps the splits of one source, and keeps its signals from being taken for those of the whole.

    Args:
        context: of the hybrid enumerator.
        active: the source.
        known: positions whose rows the source before had, by split.
        at_once: what is to run in :meth:`SplitEnumerator.start` runs in :meth:`run_queued`, for the plan in which the
            source is switched to goes on with what it finds.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSourceSplit],
        active: ActiveSource,
        known: Mapping[str, Intervals],
        *,
        at_once: bool,
    ) -> None:
        self._context = context
        self._active = active
        self._queue: deque[Callable[[], None]] | None = deque() if at_once else None
        self._to_come = 0
        self._told: set[int] = set()
        self._closed = False
        self.known = dict(known)

    @property
    def is_discovered(self) -> bool:
        """Whether no split can come any more, but for those that are pending."""
        return self._to_come == 0 or self._told >= self._context.registered_readers().keys()

    def run_queued(self) -> None:
        """Run what the enumerator has called for, and what follows from that, until nothing is left."""
        while self._queue:
            self._queue.popleft()()
        self._queue = None

    def close(self) -> None:
        """What the source still has under way comes to nothing, and its splits are forgotten."""
        self._closed = True
        self.retire_splits(list(self._assigned()))

    def positions(self, processed: Mapping[str, int]) -> dict[SourceSplit, int | None]:
        """Where each assigned split stands, for the enumerator."""
        return {split.split: processed.get(name) for name, split in self._assigned().items()}

    def metric_group(self) -> MetricGroup:
        return self._context.metric_group()

    def current_parallelism(self) -> int:
        return self._context.current_parallelism()

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return self._context.registered_readers()

    def assign_splits(self, assignment: SplitsAssignment[Any]) -> None:
        check_assignment(assignment)
        wrapped = {
            subtask: [self._wrapped(split) for split in splits]
            for subtask, splits in assignment.assignment.items()
        }
        self._context.assign_splits(SplitsAssignment(wrapped))

    def assigned_splits(self) -> Mapping[str, SourceSplit]:
        return {name: split.split for name, split in self._assigned().items()}

    def retire_splits(self, split_ids: Collection[str]) -> None:
        check_ids("retire_splits", split_ids)
        self._context.retire_splits([split_id(self._active.index, name) for name in split_ids])

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Only the last source's signal is one for the whole (HY-12)."""
        self._told.add(subtask_id)
        if self._active.is_last:
            self._context.signal_no_more_splits(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._context.send_event_to_source_reader(subtask_id, tagged(event, self._active.index))

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Handler,
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        check_call(callable, handler, initial_delay_ms, period_ms)
        self._to_come += 1
        once = period_ms is None

        def handle(value: Any, error: BaseException | None) -> None:
            self._to_come -= once
            if not self._closed:
                handler(value, error)

        if self._queue is not None and once and not initial_delay_ms:
            self._queue.append(lambda: handle(*_outcome(callable)))
        else:
            self._context.call_async(
                lambda: None if self._closed else callable(), handle, initial_delay_ms, period_ms
            )

    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        check_callable("run_in_coordinator_thread", "runnable", runnable)
        self._to_come += 1

        def run() -> None:
            self._to_come -= 1
            if not self._closed:
                runnable()

        if self._queue is not None:
            self._queue.append(run)
        else:
            self._context.run_in_coordinator_thread(run)

    def _assigned(self) -> dict[str, HybridSourceSplit]:
        """By their ids in the source."""
        splits = self._context.assigned_splits().values()
        return {split.stored.id: split for split in splits if split.index == self._active.index}

    def _wrapped(self, split: SourceSplit) -> HybridSourceSplit:
        return HybridSourceSplit.of(self._active, split, self.known.get(split.split_id, ()))


def _outcome(callable: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return callable(), None
    except Exception as error:  # noqa: BLE001 - the handler decides what an error means
        return None, error


def tagged(event: SourceEvent, index: int) -> SourceEvent:
    """``event`` with the index of its source, for it may arrive after the switch to another."""
    return SourceEvent(f"{index}:{event.name}", event.payload)


def untagged(event: SourceEvent, index: int) -> SourceEvent | None:
    """The event of the source at ``index``; ``None`` if it is another's."""
    tag, _, name = event.name.partition(":")
    return SourceEvent(name, event.payload) if tag == str(index) else None
