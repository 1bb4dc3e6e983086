"""Which fetcher reads which splits: the threading models of FLIP-27."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic

from flip27_stream.api.split import SplitT
from flip27_stream.errors import ConnectorError, Flip27Error
from flip27_stream.reader.fetcher import SplitFetcher
from flip27_stream.reader.hand_over import HandOverQueue
from flip27_stream.reader.records import RecordsWithSplitIds
from flip27_stream.reader.split_reader import SplitReader

log = logging.getLogger(__name__)

_NAMED_SPLITS = 5


class SplitFetcherManager(ABC, Generic[SplitT]):
    """Starts fetchers, ends them when they are idle, and keeps their errors (Flink ``SplitFetcherManager``).

    Args:
        make_split_reader: called once for each fetcher.
        queue_capacity: so many fetches may wait to be emitted; then fetchers wait.
    """

    def __init__(self, make_split_reader: Callable[[], SplitReader[SplitT]], queue_capacity: int = 2) -> None:
        self._make_split_reader = make_split_reader
        self.queue: HandOverQueue[RecordsWithSplitIds] = HandOverQueue(queue_capacity)
        """What was fetched."""
        self._lock = threading.Lock()
        self._fetchers: list[SplitFetcher[SplitT]] = []
        self._error: tuple[BaseException, str] | None = None
        self._lacks_threads = False

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Fetch from further splits."""

    def remove_splits(self, split_ids: Collection[str]) -> None:
        """Stop fetching from splits; a fetch that names them as finished follows."""
        for fetcher in self._running():
            fetcher.remove_splits(split_ids)

    def pause_or_resume_splits(self, to_pause: Collection[str], to_resume: Collection[str]) -> None:
        """FLIP-217; what is fetched already still comes."""
        for fetcher in self._running():
            fetcher.pause_or_resume_splits(to_pause, to_resume)

    def shut_down_idle(self) -> bool:
        """End the fetchers without splits; whether there is no fetcher any more."""
        running = self._running()
        for fetcher in running:
            if fetcher.is_idle():
                fetcher.shut_down()
        return not running

    def check_errors(self) -> None:
        """Raise the first error of a fetcher.

        Raises:
            Flip27Error: the very error.
            ConnectorError: any other error, with it as its cause.
        """
        if self._error is None:
            return
        error, splits = self._error
        if isinstance(error, Flip27Error):
            raise error
        raise ConnectorError(f"Fetching {splits} failed: {type(error).__name__}: {error}") from error

    def close(self, timeout_s: float) -> None:
        """End all fetchers, and wait for them up to ``timeout_s`` seconds altogether."""
        deadline = time.monotonic() + timeout_s
        running = self._running()
        for fetcher in running:
            fetcher.shut_down()
        self.queue.close()
        stuck = [f for f in running if not f.join(max(deadline - time.monotonic(), 0))]
        if stuck:
            log.warning(
                "%d fetcher(s) did not end within %g s and are left behind: %s",
                len(stuck),
                timeout_s,
                "; ".join(_named(f.splits) for f in stuck),
            )

    def open_fetchers(self) -> list[SplitFetcher[SplitT]]:
        """The fetchers that can be given splits."""
        return [fetcher for fetcher in self._running() if fetcher.is_open()]

    def start_fetcher(self, splits: Sequence[SplitT]) -> None:
        """Start a fetcher with its first splits; without a thread for it, another one gets them.

        Raises:
            ConnectorError: there is no other.
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
            log.warning("%s Meanwhile fewer fetchers read the splits.", error)
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
    """One fetcher for all splits, which its split reader reads one after another or multiplexed."""

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        fetchers = self.open_fetchers()
        if fetchers:
            fetchers[0].add_splits(splits)
        else:
            self.start_fetcher(splits)


class FetcherPerSplitManager(SplitFetcherManager[SplitT]):
    """A fetcher for each split; once there are ``max_fetchers``, further splits go to those with the fewest."""

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
    """Some of the splits by name, for an error's text."""
    named = ", ".join(split_ids[:_NAMED_SPLITS]) or "no split"
    further = len(split_ids) - _NAMED_SPLITS
    return f"{named} and {further} more" if further > 0 else named
