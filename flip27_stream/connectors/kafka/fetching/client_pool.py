"""Connections that outlive a task: Python workers are used again, so the next task finds them open."""

from __future__ import annotations

import atexit
import threading
import time

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher

_IDLE_S = 300.0  # spark.kafka.consumer.cache.timeout of Spark's own pool


class FetcherPool:
    """Fetchers nobody uses at the moment, by their options.

    Those that were not used for five minutes are closed, or for ``connections.max.idle.ms`` if that is less.

    There is no thread that does so: they are looked at whenever one is borrowed or given back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[ConnectionOptions, list[tuple[float, Fetcher]]] = {}

    def borrow(self, options: ConnectionOptions) -> Fetcher:
        """The fetcher that was used last, or a new one; a connection that died meanwhile is made again when used."""
        self._close_unused_for(_IDLE_S)
        with self._lock:
            idle = self._idle.get(options)
            return idle.pop()[1] if idle else Fetcher(KafkaClient(options))

    def give_back(self, fetcher: Fetcher) -> None:
        """Keep a fetcher for the next task."""
        fetcher.give_up()
        with self._lock:
            self._idle.setdefault(fetcher.client.options, []).append((time.monotonic(), fetcher))
        self._close_unused_for(_IDLE_S)

    def close(self) -> None:
        """Close all idle fetchers."""
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
