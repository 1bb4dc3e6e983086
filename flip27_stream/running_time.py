"""Time limits that count only the time in which this process ran, not the time in which it was suspended."""

from __future__ import annotations

import time
from collections.abc import Iterator

_TURN_S = 1.0


def turns(seconds: float) -> Iterator[float]:
    """Divides a time limit of ``seconds`` into waits of at most a second, and yields the length (s) of each.

    The caller waits for something as long as each yielded number says. If a wait takes longer, the process was
    suspended during it; so only the yielded time is subtracted from the time limit.
    """
    left_s = seconds
    while left_s > 0:
        turn_s, began = min(left_s, _TURN_S), time.monotonic()
        yield turn_s
        left_s -= min(time.monotonic() - began, turn_s)
