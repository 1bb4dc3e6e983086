"""Runs contenders in turns, so that a machine that slows down slows all of them. The ratio of each round counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.support.results import Result, Target

Contender = Callable[[], float]
"""A function that does the work once, and returns the time (s) that counts."""


@dataclass(frozen=True)
class Pairs:
    """The times (s) of the yardstick and of this project, one pair for each round."""

    beside: Sequence[float]
    ours: Sequence[float]

    @property
    def speed(self) -> list[float]:
        """For each pair, how many times as fast as the yardstick this project is."""
        return [theirs / own for theirs, own in zip(self.beside, self.ours, strict=True)]

    @property
    def time(self) -> list[float]:
        """For each pair, how many times as long as the yardstick this project takes."""
        return [1 / ratio for ratio in self.speed]


def take_turns(contenders: Mapping[str, Contender], rounds: int, warm_up: int) -> dict[str, list[float]]:
    """Returns the times (s) of each contender, by name and round, after ``warm_up`` rounds that do not count.

    The order is reversed in every round, so that no contender always runs after the same other one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warm_up + rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            taken = contenders[name]()
            if number >= warm_up:
                seconds[name].append(taken)
    return seconds


def pairs(beside: Contender, ours: Contender, rounds: int, warm_up: int) -> Pairs:
    """Returns the times of two contenders."""
    seconds = take_turns({"beside": beside, "ours": ours}, rounds, warm_up)
    return Pairs(seconds["beside"], seconds["ours"])


def throughput(seconds: Sequence[float], rows: int, value_bytes: int) -> str:
    """Returns the median rows per second and megabytes of values per second, as text."""
    median = statistics.median(seconds)
    return f"{rows / median / 1e6:.2f} M rows/s {value_bytes / median / 1e6:5.0f} MB/s"


def speeds(
    work: str,
    rows: int,
    value_bytes: int,
    seconds: Pairs,
    target: Target | None = None,
    *,
    percent: bool = False,
) -> Result:
    """Returns the speeds of both contenders, and how many times as fast ours was.

    Args:
        work: What was measured.
        rows: The number of rows that each contender read.
        value_bytes: The size (bytes) of their values.
        seconds: The times (s) of both contenders.
        target: The limit that the median has to meet.
        percent: Whether the figures are a percentage of the yardstick's speed.
    """
    beside, ours = throughput(seconds.beside, rows, value_bytes), throughput(seconds.ours, rows, value_bytes)
    if percent:
        return Result(work, beside, ours, [100 * share for share in seconds.speed], "%", target)
    return Result(work, beside, ours, seconds.speed, target=target)


def milliseconds(seconds: Sequence[float]) -> str:
    """Returns the median time (ms), as text."""
    return f"{1000 * statistics.median(seconds):.0f} ms"
