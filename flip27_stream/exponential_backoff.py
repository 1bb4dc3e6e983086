"""The pauses between tries that fail in a row (Java's ``ExponentialBackoff``)."""

from __future__ import annotations

import random
from typing import Final

_JITTER: Final = 0.2
_MOST_DOUBLINGS: Final = 30


def doubled_pause(least: float, most: float, failures: int) -> float:
    """Returns a pause, or a time limit, that doubles with each failure in a row.

    Args:
        least: The value without a failure before, in any unit of time; the result has the same unit.
        most: The greatest value. If it is less than ``least``, ``least`` takes its place.
        failures: The number of failures in a row before this one.
    """
    return min(least * 2.0 ** min(failures, _MOST_DOUBLINGS), max(least, most))


def exponential_backoff(least: float, most: float, failures: int) -> float:
    """Returns a :func:`doubled_pause`, varied at random by 20 %.

    The arguments are those of that function. The variation may exceed ``most``.
    """
    return doubled_pause(least, most, failures) * random.uniform(1 - _JITTER, 1 + _JITTER)
