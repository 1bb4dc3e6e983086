"""The context that a hybrid source gives to the enumerator of one of its sources."""

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
from flip27_stream.connectors.hybrid.seam.overlap import Intervals
from flip27_stream.connectors.hybrid.source_list import ActiveSource
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, split_id

Handler = Callable[[Any, BaseException | None], None]


class ChildContext(SplitEnumeratorContext[Any]):
    """A context that turns calls of one source's enumerator into calls on the context of the hybrid enumerator.

    It wraps the splits, and passes a signal for the whole hybrid source on only if the source is the last one.

    Args:
        context: The context of the hybrid enumerator.
        active: The source that is being read.
        known: By split id, the positions of this source whose rows the previous source has.
        at_once: Whether to queue the asynchronous calls of :meth:`SplitEnumerator.start` and to run them in
            :meth:`run_queued`. The plan that switches to this source needs their results.
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
        """Whether the enumerator will find no more splits. Splits that it has found may still be pending."""
        return self._to_come == 0 or self._told >= self._context.registered_readers().keys()

    @property
    def has_splits(self) -> bool:
        """Whether a split of the source is assigned."""
        return any(split.index == self._active.index for split in self._context.assigned_splits().values())

    def run_queued(self) -> None:
        """Runs the queued calls, and the calls that these queue, until the queue is empty."""
        while self._queue:
            self._queue.popleft()()
        self._queue = None

    def close(self) -> None:
        """Drops the results of calls that are still running, and retires all splits of the source."""
        self._closed = True
        self.retire_splits(list(self._assigned()))

    def positions(self, processed: Mapping[str, int]) -> dict[SourceSplit, int | None]:
        """Returns the position of each assigned split of the source; ``None`` if it was not read yet."""
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
        """Passes the signal on only if the source is the last one (HY-12)."""
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
        """Returns the assigned splits of the source, by their ids in that source."""
        splits = self._context.assigned_splits().values()
        return {split.serialized.id: split for split in splits if split.index == self._active.index}

    def _wrapped(self, split: SourceSplit) -> HybridSourceSplit:
        return HybridSourceSplit.of(self._active, split, self.known.get(split.split_id, ()))


def _outcome(callable: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return callable(), None
    except Exception as error:  # noqa: BLE001 - the handler decides what an error means
        return None, error


def tagged(event: SourceEvent, index: int) -> SourceEvent:
    """Returns ``event`` with the index of its source in its name.

    The event may arrive after the switch to another source.
    """
    return SourceEvent(f"{index}:{event.name}", event.payload)


def untagged(event: SourceEvent, index: int) -> SourceEvent | None:
    """Returns the original event of the source at ``index``, or ``None`` if the event is from another source."""
    tag, _, name = event.name.partition(":")
    return SourceEvent(name, event.payload) if tag == str(index) else None
