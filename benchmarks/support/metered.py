"""Contenders whose CPU time is measured, since processes share the cores and wall time alone misleads."""

from __future__ import annotations

from benchmarks.support.processes import CpuTime, cpu_time
from benchmarks.support.results import Result
from benchmarks.support.turns import Contender


class Metered:
    """A contender whose CPU time is measured in each round.

    Args:
        work: The contender.
        broker: The process id of the Kafka broker; ``None`` if the work uses none.
    """

    def __init__(self, work: Contender, broker: int | None = None) -> None:
        self._work = work
        self._broker = broker
        self._used: list[CpuTime] = []

    def __call__(self) -> float:
        before = cpu_time(self._broker)
        seconds = self._work()
        self._used.append(cpu_time(self._broker).since(before))
        return seconds

    def median(self, rounds: int) -> CpuTime:
        """Returns the median of the last ``rounds`` rounds, by the CPU time for rows."""
        return sorted(self._used[-rounds:], key=lambda used: used.for_rows)[rounds // 2]


def cpu_a_row(work: str, rows: int, beside: Metered, ours: Metered, rounds: int) -> Result:
    """Returns the CPU time per row of both contenders, and how many times as much the other one took for its rows.

    Args:
        work: What was measured.
        rows: The number of rows that each contender read in a round.
        beside: The yardstick.
        ours: The contender of this project.
        rounds: The number of rounds that count, which are the last ones.
    """
    theirs, own = beside.median(rounds), ours.median(rounds)
    return Result(
        f"{work}: CPU a row", theirs.per_row(rows), own.per_row(rows), [theirs.for_rows / own.for_rows]
    )
