"""The thread that calls a split reader."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Generic

from flip27_stream.api.split import SplitT
from flip27_stream.errors import ConnectorError, ContractError, shortened
from flip27_stream.reader.hand_over import HandOverQueue
from flip27_stream.reader.records import RecordsWithSplitIds
from flip27_stream.reader.split_reader import SplitReader, SplitsAddition, SplitsChange, SplitsRemoval
from flip27_stream.threads import start


class SplitFetcher(Generic[SplitT]):
    """A thread that fetches while it has splits, and puts the records into a queue (Flink ``SplitFetcher``).

    A change of the splits wakes up the running fetch and waits until it returns. The thread is a daemon, so a fetch
    that never returns does not delay the end of the process.

    Args:
        split_reader: The client that the thread calls.
        queue: Receives the fetched records.
        on_error: Called in the thread with an error of the split reader.
        on_exit: Called in the thread at its end.
    """

    def __init__(
        self,
        split_reader: SplitReader[SplitT],
        queue: HandOverQueue[RecordsWithSplitIds],
        on_error: Callable[[SplitFetcher[SplitT], BaseException], None],
        on_exit: Callable[[SplitFetcher[SplitT]], None],
    ) -> None:
        self._split_reader = split_reader
        self._queue = queue
        self._on_error = on_error
        self._on_exit = on_exit
        self._work = threading.Condition()
        self._changes: deque[SplitsChange[SplitT]] = deque()
        self._splits: dict[str, SplitT] = {}
        self._fetching = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"split-fetcher-{id(self):x}", daemon=True)

    # ---- called by the reader -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread.

        Raises:
            ConnectorError: The system has no more threads. The split reader is closed then.
        """
        try:
            start(self._thread)
        except ConnectorError:
            self._split_reader.close()
            raise

    @property
    def splits(self) -> tuple[str, ...]:
        """The ids of the splits that are not finished."""
        with self._work:
            return tuple(self._splits)

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Adds splits to fetch from."""
        with self._work:
            self._splits.update({split.split_id: split for split in splits})
            self._changes.append(SplitsAddition(splits))
        self._wake_up()

    def remove_splits(self, split_ids: Collection[str]) -> None:
        """Stops fetching from splits; the queue then gets their ids as finished."""
        with self._work:
            mine = [split for name, split in self._splits.items() if name in split_ids]
            if not mine:
                return
            self._changes.append(SplitsRemoval(mine))
        self._wake_up()

    def is_idle(self) -> bool:
        """Returns whether the fetcher has no splits, and no changes of its splits wait."""
        with self._work:
            return not self._splits and not self._changes

    def is_open(self) -> bool:
        """Returns whether the fetcher accepts splits."""
        with self._work:
            return not self._closed

    def shut_down(self) -> None:
        """Makes the thread end when the running fetch returns; does not wait for that."""
        with self._work:
            self._closed = True
        self._wake_up()

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread to end, ``timeout_s`` seconds at most; returns whether it did."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _wake_up(self) -> None:
        with self._work:
            self._work.notify_all()
            fetching = self._fetching
        if fetching:
            try:
                self._split_reader.wake_up()
            except Exception as e:  # noqa: BLE001  reported like an error of the fetch
                self._on_error(self, e)

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as e:  # noqa: BLE001  the reader raises it
            self._on_error(self, e)
        finally:
            try:
                self._split_reader.close()
            except BaseException as e:  # noqa: BLE001
                self._on_error(self, e)
            self._on_exit(self)

    def _step(self) -> bool:
        """Applies the waiting changes, or fetches once; returns false when the thread must end."""
        with self._work:
            self._work.wait_for(lambda: self._closed or self._changes or self._splits)
            if self._closed:
                return False
            changes = list(self._changes)
            self._changes.clear()
            self._fetching = not changes
        if changes:
            for change in changes:
                self._apply(change)
            return True
        fetched = self._split_reader.fetch()
        if not isinstance(fetched, RecordsWithSplitIds):
            raise ContractError(
                f"{type(self._split_reader).__name__}.fetch() returned {shortened(repr(fetched))}; it must return "
                "RecordsWithSplitIds, empty if it fetched nothing."
            )
        with self._work:
            self._fetching = False
        if fetched:
            self._hand_over(fetched)
        return True

    def _apply(self, change: SplitsChange[SplitT]) -> None:
        if isinstance(change, SplitsRemoval):
            change = SplitsRemoval([split for split in change.splits if split.split_id in self._splits])
        if not change.splits:
            return  # All splits of the change have finished meanwhile.
        self._split_reader.handle_splits_changes(change)
        if isinstance(change, SplitsRemoval):
            self._hand_over(RecordsWithSplitIds(finished=[split.split_id for split in change.splits]))

    def _hand_over(self, fetched: RecordsWithSplitIds) -> None:
        """Puts ``fetched`` into the queue, waits for room there, and removes the finished splits."""
        self._queue.put(fetched)
        with self._work:
            for split_id in fetched.finished:
                self._splits.pop(split_id, None)
        if self.is_idle():
            self._queue.notify_available()
