"""Fetcher managers: they decide which fetcher reads which splits (the threading models of FLIP-27)."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic

from flip27_stream.api.split import SplitT
from flip27_stream.errors import ConnectorError, Flip27Error, some_of
from flip27_stream.reader.fetcher import SplitFetcher
from flip27_stream.reader.hand_over import HandOverQueue
from flip27_stream.reader.records import RecordsWithSplitIds
from flip27_stream.reader.split_reader import SplitReader

log = logging.getLogger(__name__)


class SplitFetcherManager(ABC, Generic[SplitT]):
    """Starts fetchers, ends idle ones, and stores their errors (Flink ``SplitFetcherManager``).

    Args:
        make_split_reader: Returns a new split reader; called once for each fetcher.
        queue_capacity: How many fetches may wait to be emitted before fetchers wait.
    """

    def __init__(self, make_split_reader: Callable[[], SplitReader[SplitT]], queue_capacity: int = 2) -> None:
        self._make_split_reader = make_split_reader
        self.queue: HandOverQueue[RecordsWithSplitIds] = HandOverQueue(queue_capacity)
        """The queue of fetched records."""
        self._lock = threading.Lock()
        self._fetchers: list[SplitFetcher[SplitT]] = []
        self._error: tuple[BaseException, str] | None = None
        self._lacks_threads = False

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Adds splits to fetch from."""

    def remove_splits(self, split_ids: Collection[str]) -> None:
        """Stops fetching from splits; the queue then gets their ids as finished."""
        for fetcher in self._running():
            fetcher.remove_splits(split_ids)

    def shut_down_idle(self) -> bool:
        """Ends the fetchers without splits; returns whether no fetcher runs any more."""
        running = self._running()
        for fetcher in running:
            if fetcher.is_idle():
                fetcher.shut_down()
        return not running

    def check_errors(self) -> None:
        """Raises the first error of a fetcher, if there was one.

        Raises:
            Flip27Error: The error itself, if it is a Flip27Error.
            ConnectorError: For any other error, which is its cause.
        """
        if self._error is None:
            return
        error, splits = self._error
        if isinstance(error, Flip27Error):
            raise error
        raise ConnectorError(f"Fetching {splits} failed: {type(error).__name__}: {error}") from error

    def close(self, timeout_s: float) -> None:
        """Ends all fetchers, and waits for them, ``timeout_s`` seconds at most in all."""
        deadline = time.monotonic() + timeout_s
        running = self._running()
        for fetcher in running:
            fetcher.shut_down()
        self.queue.close()
        stuck = [f for f in running if not f.join(max(deadline - time.monotonic(), 0))]
        if stuck:
            log.warning(
                "%d fetcher(s) did not end within %g s and are left running: %s",
                len(stuck),
                timeout_s,
                "; ".join(_named(f.splits) for f in stuck),
            )

    def open_fetchers(self) -> list[SplitFetcher[SplitT]]:
        """Returns the fetchers that accept splits."""
        return [fetcher for fetcher in self._running() if fetcher.is_open()]

    def start_fetcher(self, splits: Sequence[SplitT]) -> None:
        """Starts a fetcher with its first splits. If no thread can be started, another fetcher gets the splits.

        Raises:
            ConnectorError: No thread can be started, and there is no other fetcher.
        """
        fetcher = SplitFetcher(self._make_split_reader(), self.queue, self._failed, self._exited)
        fetcher.add_splits(splits)
        with self._lock:
            self._fetchers.append(fetcher)
        try:
            fetcher.start()
        except ConnectorError as e:
            with self._lock:
                self._fetchers.remove(fetcher)
            self._give_to_others(splits, e)

    def _give_to_others(self, splits: Sequence[SplitT], error: ConnectorError) -> None:
        others = self.open_fetchers()
        if not others:
            raise error
        if not self._lacks_threads:
            log.warning("%s Fewer fetchers than planned read the splits.", error)
        self._lacks_threads = True
        min(others, key=lambda f: len(f.splits)).add_splits(splits)

    def _running(self) -> list[SplitFetcher[SplitT]]:
        with self._lock:
            return list(self._fetchers)

    def _failed(self, fetcher: SplitFetcher[SplitT], error: BaseException) -> None:
        with self._lock:
            first = self._error is None
            if first:
                self._error = error, _named(fetcher.splits)
        if not first:
            log.warning("A further error of a fetcher:", exc_info=error)
        self.queue.notify_available()

    def _exited(self, fetcher: SplitFetcher[SplitT]) -> None:
        with self._lock:
            self._fetchers.remove(fetcher)
        self.queue.notify_available()


class SingleThreadFetcherManager(SplitFetcherManager[SplitT]):
    """One fetcher for all splits. Its split reader reads them one after another or multiplexed."""

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        fetchers = self.open_fetchers()
        if fetchers:
            fetchers[0].add_splits(splits)
        else:
            self.start_fetcher(splits)


class FetcherPerSplitManager(SplitFetcherManager[SplitT]):
    """A fetcher for each split, up to ``max_fetchers``; further splits go to the fetchers with the fewest splits.

    Args:
        make_split_reader: Returns a new split reader; called once for each fetcher.
        queue_capacity: How many fetches may wait to be emitted before fetchers wait.
        max_fetchers: The greatest number of fetchers.

    Raises:
        ValueError: ``max_fetchers`` is less than 1.
    """

    def __init__(
        self,
        make_split_reader: Callable[[], SplitReader[SplitT]],
        queue_capacity: int = 2,
        max_fetchers: int = 16,
    ) -> None:
        super().__init__(make_split_reader, queue_capacity)
        if max_fetchers < 1:
            raise ValueError(f"max_fetchers must be at least 1: {max_fetchers}")
        self._max_fetchers = max_fetchers

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        for split in splits:
            fetchers = self.open_fetchers()
            if len(fetchers) < self._max_fetchers:
                self.start_fetcher([split])
            else:
                min(fetchers, key=lambda f: len(f.splits)).add_splits([split])


def _named(split_ids: Sequence[str]) -> str:
    """Returns the ids of some of the splits as text, for an error message."""
    return some_of(split_ids) or "no split"
