"""Clocks: event-time code asks one for the time, so that tests can decide what time it is."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Clock = Callable[[], int]
"""Called without arguments it returns the time in milliseconds since the epoch."""


class ManualClock:
    """A :data:`Clock` that stands still until it is advanced; safe to share between threads.

    ``start`` is in milliseconds since the epoch.
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._lock = Lock()

    def __call__(self) -> int:
        return self._now

    def advance(self, ms: int) -> int:
        """Move on by ``ms`` milliseconds (negative: a clock that steps back) and return the new time."""
        with self._lock:
            self._now += ms
            return self._now

    def __repr__(self) -> str:
        return f"ManualClock({self._now})"
