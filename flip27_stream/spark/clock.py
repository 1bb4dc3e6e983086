"""The clock of a query."""

from __future__ import annotations

import time


class QueryClock:
    """Milliseconds since the epoch, read off the machine's clock once and then counted monotonically.

    So a step of the machine's clock makes nothing idle; what is stored in an offset still compares across restarts.
    """

    def __init__(self) -> None:
        self._start = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return (self._start + time.monotonic_ns()) // 1_000_000


def wall_clock() -> int:
    """Milliseconds since the epoch by the machine's clock, which may step."""
    return time.time_ns() // 1_000_000
