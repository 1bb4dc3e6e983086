"""The clock of a query, which does not follow steps of the machine's clock."""

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
    """A clock (ms since the epoch): the machine's time at the start, plus the time in which the process ran.

    Because it ignores later changes of the machine's clock, these cannot make a split idle; times in an offset can
    still be compared across restarts. Time in which the process did not run does not count either. On Linux the
    monotonic clock excludes the time of a suspended machine, but it can jump after a virtual machine or a container
    was paused. If the clock is watched, a thread reads it every second, and a gap of more than 5 s between two reads
    does not count.

    Args:
        watched: Whether a thread detects such gaps.
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
        """Stops the thread that watches the clock."""
        self._closed.set()

    def _watch(self) -> bool:
        try:
            start(threading.Thread(target=self._tick, name="flip27-clock", daemon=True))
        except ConnectorError as e:
            log.warning("%s Without it, a pause of this machine can make a split idle.", e)
            return False
        return True

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_S):
            self()
