"""Clocks. Event-time code gets the time from a clock, so that tests can set it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Clock = Callable[[], int]
"""A function without arguments that returns the time in milliseconds since the epoch."""


class ManualClock:
    """A :data:`Clock` that changes only when it is advanced. It can be shared between threads.

    Args:
        start: The first time (milliseconds since the epoch).
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._lock = Lock()

    def __call__(self) -> int:
        return self._now

    def advance(self, ms: int) -> int:
        """Advances the time by ``ms`` milliseconds, back if they are negative, and returns the new time."""
        with self._lock:
            self._now += ms
            return self._now

    def __repr__(self) -> str:
        return f"ManualClock({self._now})"
