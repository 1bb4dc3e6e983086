"""The clock of a query."""

from __future__ import annotations

import logging
import threading
import time

from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_TICK_S = 1.0
_LONGEST_STRETCH_S = 5.0


class QueryClock:
    """Milliseconds since the epoch: read off the machine's clock once, then the time is added in which the process ran.

    So a step of the machine's clock makes nothing idle; what is stored in an offset still compares across restarts.
    Nor does time count in which the process stood still: Linux leaves the time of a suspended machine out of its
    monotonic clock; of a virtual machine or a container that was paused the clock may jump. Where it is watched, a
    thread reads the clock every second, and what lies between two readings counts for nothing if it is longer than 5 s.

    Args:
        watched: whether to look for such jumps.
    """

    def __init__(self, *, watched: bool = False) -> None:
        self._lock = threading.Lock()
        self._now_ns, self._read_ns = time.time_ns(), time.monotonic_ns()
        self._closed = threading.Event()
        self._is_watched = watched and self._watch()

    def __call__(self) -> int:
        with self._lock:
            read_ns = time.monotonic_ns()
            passed, self._read_ns = read_ns - self._read_ns, read_ns
            if not self._is_watched or passed <= _LONGEST_STRETCH_S * 1e9:
                self._now_ns += passed
            return self._now_ns // 1_000_000

    def close(self) -> None:
        """It is watched no more."""
        self._closed.set()

    def _watch(self) -> bool:
        try:
            start(threading.Thread(target=self._tick, name="flip27-clock", daemon=True))
        except ConnectorError as e:
            log.warning("%s Until then a split may be taken for idle because this machine was paused.", e)
            return False
        return True

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_S):
            self()


def wall_clock() -> int:
    """Milliseconds since the epoch by the machine's clock, which may step."""
    return time.time_ns() // 1_000_000
