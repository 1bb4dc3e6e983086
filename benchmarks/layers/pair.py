"""A pair of a library and a layer of this project, which do the same work."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.support.environment import Environment
from benchmarks.support.results import Result
from benchmarks.support.turns import Pairs, milliseconds, pairs

SHARE = 10
"""Libraries make an object of each record, so these pairs read a tenth of the records that the benchmarks with Spark
read.
"""


def compared(
    environment: Environment, expected: int, beside: Callable[[], int], ours: Callable[[], int]
) -> Pairs:
    """Returns the times of two functions that take turns.

    Args:
        environment: The environment, whose sizes have the number of rounds.
        expected: What both functions must return: the number of things that they found.
        beside: Does the work with the library.
        ours: Does the work with the layer of this project.
    """
    return pairs(
        lambda: seconds(beside, expected),
        lambda: seconds(ours, expected),
        environment.sizes.pairs,
        environment.sizes.warm_up,
    )


def times(work: str, taken: Pairs) -> Result:
    """Returns the times of both, and how many times as fast ours was."""
    return Result(work, milliseconds(taken.beside), milliseconds(taken.ours), taken.speed)


def seconds(work: Callable[[], int], expected: int) -> float:
    """Returns the time (s) of ``work``, which must find ``expected`` things."""
    began = time.perf_counter()
    found = work()
    taken = time.perf_counter() - began
    if found != expected:
        raise AssertionError(f"The measured work found {found} things; there are {expected}.")
    return taken
