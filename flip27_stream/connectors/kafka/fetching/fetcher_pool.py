"""A pool of fetchers, with their connections, that are kept from task to task, because Spark reuses Python workers."""

from __future__ import annotations

import atexit
import threading
import time

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher

_IDLE_S = 300.0  # The default of spark.kafka.consumer.cache.timeout, the timeout of Spark's pool.


class FetcherPool:
    """A pool of idle fetchers, by their connection options.

    A fetcher that was idle for five minutes is closed, or for ``connections.max.idle.ms`` if that is less. This is
    checked whenever a fetcher is borrowed or given back; there is no thread for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[ConnectionOptions, list[tuple[float, Fetcher]]] = {}

    def borrow(self, options: ConnectionOptions) -> Fetcher:
        """Returns the fetcher that was used last, or a new one. Broken connections are opened again on use."""
        self._close_unused_for(_IDLE_S)
        with self._lock:
            idle = self._idle.get(options)
            return idle.pop()[1] if idle else Fetcher(KafkaClient(options))

    def give_back(self, fetcher: Fetcher) -> None:
        """Returns a fetcher to the pool."""
        fetcher.give_up()
        with self._lock:
            self._idle.setdefault(fetcher.client.options, []).append((time.monotonic(), fetcher))
        self._close_unused_for(_IDLE_S)

    def close(self) -> None:
        """Closes all idle fetchers."""
        self._close_unused_for(-1.0)

    def _close_unused_for(self, seconds: float) -> None:
        now = time.monotonic()
        expired: list[Fetcher] = []
        with self._lock:
            for options, idle in list(self._idle.items()):
                oldest = now - min(seconds, options.connections_max_idle_ms / 1000)
                expired += [fetcher for used, fetcher in idle if used < oldest]
                self._idle[options] = [entry for entry in idle if entry[0] >= oldest]
                if not self._idle[options]:
                    del self._idle[options]
        for fetcher in expired:
            fetcher.close()


FETCHERS = FetcherPool()
"""The pool of this process."""
atexit.register(FETCHERS.close)
