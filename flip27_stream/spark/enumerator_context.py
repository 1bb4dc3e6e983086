"""The enumerator's view of the coordinator."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from flip27_stream.api import (
    MetricGroup,
    ReaderInfo,
    SourceEvent,
    SourceSplit,
    SplitEnumeratorContext,
    SplitsAssignment,
)


class CoordinatorContext(SplitEnumeratorContext[Any]):
    """Keeps what the enumerator assigned and runs its asynchronous calls (Flink ``SourceCoordinatorContext``).

    Callables run in daemon threads, so a stuck one delays neither planning nor the end of the process; their
    handlers run in the planning thread, in :meth:`run_due`.
    """

    def __init__(self, parallelism: int, location: str) -> None:
        self._readers = {i: ReaderInfo(i, location) for i in range(parallelism)}
        self._metrics = MetricGroup()
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._awaited = 0
        self.splits: dict[str, SourceSplit] = {}
        """All assigned splits, by id."""
        self.events: dict[int, list[SourceEvent]] = {}
        """Events to send with the next micro-batch, by subtask."""
        self._no_more_splits: set[int] = set()

    def restore(self, splits: Mapping[str, SourceSplit]) -> None:
        """Take over the splits that an offset says were assigned."""
        self.splits.update(splits)

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def current_parallelism(self) -> int:
        return len(self._readers)

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return dict(self._readers)

    def assign_splits(self, assignment: SplitsAssignment[Any]) -> None:
        unknown = sorted(set(assignment.assignment) - set(self._readers))
        if unknown:
            raise ValueError(
                f"Cannot assign splits to readers {unknown}: registered are 0 to {len(self._readers) - 1}"
            )
        new = [split for splits in assignment.assignment.values() for split in splits]
        twice = sorted({s.split_id for s in new} & set(self.splits))
        if twice:
            raise ValueError(f"Cannot assign splits {twice}: they are assigned already")
        self.splits.update({split.split_id: split for split in new})

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self._no_more_splits.add(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self.events.setdefault(subtask_id, []).append(event)

    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        self._due.put(runnable)

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        once_now = period_ms is None and not initial_delay_ms
        self._awaited += once_now

        handled = threading.Event()

        def call() -> None:
            try:
                value, error = callable(), None
            except BaseException as e:  # noqa: BLE001 - the handler decides what an error means
                value, error = None, e
            handled.clear()
            self._due.put(lambda: self._handle(handler, value, error, once_now, handled))

        def run() -> None:
            if self._closed.wait((initial_delay_ms or 0) / 1000):
                return
            call()
            while period_ms is not None and not self._closed.wait(period_ms / 1000):
                handled.wait()  # so results never pile up behind a long batch, or one that Spark never plans again
                call()

        threading.Thread(target=run, name="flip27-call-async", daemon=True).start()

    def _handle(
        self,
        handler: Callable[[Any, BaseException | None], None],
        value: Any,
        error: Any,
        once: bool,
        handled: threading.Event,
    ) -> None:
        self._awaited -= once
        handled.set()
        handler(value, error)

    def run_due(self) -> None:
        """Run what is due in the planning thread; waits for one-time calls that were to start at once.

        Raises:
            Exception: whatever a handler raises.
        """
        while self._awaited or not self._due.empty():
            self._due.get()()

    def close(self) -> None:
        """Start no further calls."""
        self._closed.set()
