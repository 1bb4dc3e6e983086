"""The pauses between tries that fail in a row (Java's ``ExponentialBackoff``)."""

from __future__ import annotations

import random
from typing import Final

_JITTER: Final = 0.2
_MOST_DOUBLINGS: Final = 30


def exponential_backoff(least: float, most: float, failures: int) -> float:
    """Returns a pause, or a time limit, that doubles with each failure in a row and varies at random by 20 %.

    Args:
        least: The value without a failure before, in any unit of time; the result has the same unit.
        most: The greatest value before the random variation. If it is less than ``least``, ``least`` takes its place.
        failures: The number of failures in a row before this one.
    """
    grown = min(least * 2.0 ** min(failures, _MOST_DOUBLINGS), max(least, most))
    return grown * random.uniform(1 - _JITTER, 1 + _JITTER)
