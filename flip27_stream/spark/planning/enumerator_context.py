"""The context that the coordinator offers to its enumerator."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
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
from flip27_stream.errors import ConnectorError
from flip27_stream.spark.source_contract import check_split
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 0.5
_WARN_AFTER_S = 60.0


class CoordinatorContext(SplitEnumeratorContext[Any]):
    """Stores the assigned splits and runs the enumerator's asynchronous calls (Flink ``SourceCoordinatorContext``).

    Each callable runs in a daemon thread, so one that never returns delays neither planning nor the end of the process.
    Its handler runs in the planning thread, in :meth:`run_due`.

    Args:
        parallelism: The number of reader slots.
        location: The host name of the driver, which is the location of a slot until a task has reported.
    """

    def __init__(self, parallelism: int, location: str) -> None:
        self._readers = {i: ReaderInfo(i, location) for i in range(parallelism)}
        self._metrics = MetricGroup()
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._calls = threading.Condition()
        self._running = 0
        self._awaited = 0
        self._handled: dict[int, int] = {}
        self._numbers = itertools.count()
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

        A plan goes through many mappings of splits; where all have one order, it reads memory from front to back. The
        splits are ordered here, and not as each is assigned, since an enumerator may assign them one by one.
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
        told = sorted(
            i for i, splits in assignment.assignment.items() if splits and i in self._no_more_splits
        )
        if told:
            raise ValueError(
                f"Cannot assign splits to readers {told}: signal_no_more_splits() was called for them"
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
        self._due.put(runnable)

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        check_call(callable, handler, initial_delay_ms, period_ms)
        once_now = period_ms is None and not initial_delay_ms
        self._awaited += once_now
        number, handled = next(self._numbers), threading.Event()
        self._handled[number] = 0

        def handle(value: Any, error: BaseException | None) -> None:
            self._awaited -= once_now
            handled.set()
            self._handled[number] += 1
            if period_ms is None:
                del self._handled[number]
            handler(value, error)

        def call() -> None:
            with self._calls:
                if self._closed.is_set():
                    return
                self._running += 1
            try:
                value, error = callable(), None
            except BaseException as e:  # noqa: BLE001 - the handler gets the error
                value, error = None, e
            finally:
                with self._calls:
                    self._running -= 1
                    self._calls.notify_all()
            handled.clear()
            self._due.put(lambda: handle(value, error))

        def run() -> None:
            if self._closed.wait((initial_delay_ms or 0) / 1000):
                return
            call()
            while period_ms is not None and not self._closed.wait(period_ms / 1000):
                handled.wait()  # so that results do not pile up while Spark plans no batch
                call()

        try:
            start(threading.Thread(target=run, name="flip27-call-async", daemon=True))
        except ConnectorError:
            self._awaited -= once_now
            del self._handled[number]
            raise

    def handled_calls(self) -> dict[int, int]:
        """Returns how often the handler of each unfinished call of ``call_async`` was run, by the call's number."""
        return dict(self._handled)

    def run_due(self) -> None:
        """Runs the handlers that are due; waits for one-time calls without a delay.

        Raises:
            Exception: Any error of a handler.
        """
        while self._awaited or not self._due.empty():
            try:
                handle = self._due.get(timeout=_WARN_AFTER_S)
            except queue.Empty:
                log.warning("Planning waits for %d calls of call_async that have not returned", self._awaited)
                continue
            handle()

    def _check_reader(self, what: str, subtask_id: int) -> None:
        if subtask_id not in self._readers:
            raise ValueError(
                f"Cannot {what} reader {subtask_id!r}: only readers 0 to {len(self._readers) - 1} are registered"
            )

    def close(self) -> None:
        """Starts no further calls, and waits 0.5 s at most for those that run, before what they use is closed."""
        self._closed.set()
        with self._calls:
            self._calls.wait_for(lambda: not self._running, _CLOSE_TIMEOUT_S)
