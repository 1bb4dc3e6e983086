"""A thread that calls a split reader."""

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
    """Fetches while it has splits that are not paused, and hands over what comes (Flink ``SplitFetcher``).

    Changes wait in line until the running fetch returns, which is woken up. The thread is a daemon: one that is stuck
    delays nothing and nobody.
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
        self._paused: set[str] = set()
        self._told: set[str] = set()
        self._fetching = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"split-fetcher-{id(self):x}", daemon=True)

    # ---- called by the reader -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.

        Raises:
            ConnectorError: the system has no more threads; the split reader is closed.
        """
        try:
            start(self._thread)
        except ConnectorError:
            self._split_reader.close()
            raise

    @property
    def splits(self) -> tuple[str, ...]:
        """Ids of the splits it has, finished ones excepted."""
        with self._work:
            return tuple(self._splits)

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        with self._work:
            self._splits.update({split.split_id: split for split in splits})
            self._changes.append(SplitsAddition(splits))
        self._wake_up()

    def remove_splits(self, split_ids: Collection[str]) -> None:
        """Stop fetching from splits; then they are handed over as finished."""
        with self._work:
            mine = [split for name, split in self._splits.items() if name in split_ids]
            if not mine:
                return
            self._changes.append(SplitsRemoval(mine))
        self._wake_up()

    def pause_or_resume_splits(self, to_pause: Collection[str], to_resume: Collection[str]) -> None:
        with self._work:
            wanted = (self._paused | set(to_pause) & self._splits.keys()) - set(to_resume)
            if wanted == self._paused:
                return
            self._paused = wanted
        self._wake_up()

    def is_idle(self) -> bool:
        """Whether it has no splits, and none on their way. A paused fetcher is not idle."""
        with self._work:
            return not self._splits and not self._changes

    def is_open(self) -> bool:
        with self._work:
            return not self._closed

    def shut_down(self) -> None:
        """Make the thread end as soon as the running fetch returns; doesn't wait for it."""
        with self._work:
            self._closed = True
        self._wake_up()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end; whether it did."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _wake_up(self) -> None:
        with self._work:
            self._work.notify_all()
            fetching = self._fetching
        if fetching:
            try:
                self._split_reader.wake_up()
            except Exception as e:  # noqa: BLE001  as good as an error of the fetch
                self._on_error(self, e)

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as e:  # noqa: BLE001  it surfaces in the reader
            self._on_error(self, e)
        finally:
            try:
                self._split_reader.close()
            except BaseException as e:  # noqa: BLE001
                self._on_error(self, e)
            self._on_exit(self)

    def _step(self) -> bool:
        """Take in changes, or fetch once; ``False`` when it is to end."""
        with self._work:
            self._work.wait_for(lambda: self._closed or self._changes or self._splits.keys() - self._paused)
            if self._closed:
                return False
            changes = list(self._changes)
            self._changes.clear()
            paused = set(self._paused)
            self._fetching = not changes
        if changes:
            for change in changes:
                self._apply(change)
            return True
        self._tell(paused)
        fetched = self._split_reader.fetch()
        if not isinstance(fetched, RecordsWithSplitIds):
            raise ContractError(
                f"{type(self._split_reader).__name__}.fetch() returned {shortened(repr(fetched))}; it must return "
                "RecordsWithSplitIds, empty ones where there is nothing."
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
            return  # they were finished meanwhile
        self._split_reader.handle_splits_changes(change)
        if isinstance(change, SplitsRemoval):
            self._hand_over(RecordsWithSplitIds(finished=[split.split_id for split in change.splits]))

    def _tell(self, paused: set[str]) -> None:
        """Tell the split reader of paused splits; only now, since a fetcher that is paused as a whole need not."""
        if paused != self._told:
            self._split_reader.pause_or_resume_splits(
                sorted(paused - self._told), sorted(self._told - paused)
            )
            self._told = paused

    def _hand_over(self, fetched: RecordsWithSplitIds) -> None:
        """Hand over, waiting for room; finished splits leave."""
        self._queue.put(fetched)
        with self._work:
            for split_id in fetched.finished:
                self._splits.pop(split_id, None)
                self._told.discard(split_id)
            self._paused &= self._splits.keys()
        if self.is_idle():
            self._queue.notify_available()
