"""Waits that count only the time in which this process ran: it may be suspended, as with SIGSTOP or by its host."""

from __future__ import annotations

import time
from collections.abc import Iterator

_TURN_S = 1.0


def turns(seconds: float) -> Iterator[float]:
    """Yields how long (s) to wait for something, until ``seconds`` have passed in all; a second at most at a time.

    A turn that takes longer counts as a turn: the process was suspended meanwhile, and what it waits for had no chance.
    """
    left_s = seconds
    while left_s > 0:
        turn_s, began = min(left_s, _TURN_S), time.monotonic()
        yield turn_s
        left_s -= min(time.monotonic() - began, turn_s)
