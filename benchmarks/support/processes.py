"""The processes below this one, and the CPU time that they have used. It needs Linux."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_DAEMON = "pyspark.daemon"
_TICKS = os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    """CPU time, user and system.

    Attributes:
        broker: The CPU time (s) of the Kafka broker.
        workers: The CPU time (s) of Spark's Python workers.
        jvm: The CPU time (s) of Spark's JVM.
        planner: The CPU time (s) of planning processes. Most of it is their start, once a query.
    """

    broker: float
    workers: float
    jvm: float
    planner: float

    @property
    def for_rows(self) -> float:
        """The CPU time (s) that grows with the number of rows, which is all but the planner's."""
        return sum(self) - self.planner

    def since(self, before: CpuTime) -> CpuTime:
        """Returns what was used after ``before``."""
        return CpuTime(*(now - then for now, then in zip(self, before, strict=True)))

    def per_row(self, rows: int) -> str:
        """Returns the CPU time per row as text, of the processes that used any, and in all that of the planner."""
        used = {"broker": self.broker, "workers": self.workers, "jvm": self.jvm}
        rows_of = ", ".join(f"{name} {1e6 * seconds / rows:.2f}" for name, seconds in used.items() if seconds)
        return f"{rows_of} µs" + (f"; planner {self.planner:.1f} s" if self.planner else "")


def cpu_time(broker: int | None) -> CpuTime:
    """Returns the CPU time used so far by the broker with this process id, if any, and by Spark below this process.

    The time of a process that ends passes to its parent. So it looks again if a process has ended or begun meanwhile:
    otherwise the planning process of a query that has just ended would be missed, or counted twice.
    """
    there = set(below(os.getpid()))
    while True:
        used = _cpu_time(broker)
        before, there = there, set(below(os.getpid()))
        if there == before:
            return used


def _cpu_time(broker: int | None) -> CpuTime:
    of_broker, of_workers, of_jvm, of_planner = 0.0 if broker is None else sum(_own(broker)), 0.0, 0.0, 0.0
    for pid in below(os.getpid()):
        if pid == broker or not _is_java(pid):
            continue
        of_jvm += sum(_own(pid))
        of_planner += sum(_reaped(pid))  # The daemons of workers live as long as the JVM.
        pythons = list(below(pid))
        workers = {worker for python in pythons if _is_daemon(python) for worker in (python, *below(python))}
        for python in pythons:
            used = sum((*_own(python), *_reaped(python)))
            if python in workers:
                of_workers += used
            else:
                of_planner += used
    return CpuTime(of_broker, of_workers, of_jvm, of_planner)


def below(pid: int) -> Iterator[int]:
    """Yields the processes that a process started, and those that these started."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children[int(fields[1])].append(int(entry))
    left = [pid]
    while left:
        found = children[left.pop()]
        left += found
        yield from found


def read_or_empty(path: str) -> str:
    """Returns the text of a file in ``/proc``; the empty text if the process has ended."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _is_java(pid: int) -> bool:
    return os.path.basename(read_or_empty(f"/proc/{pid}/cmdline").partition("\0")[0]) == "java"


def _is_daemon(pid: int) -> bool:
    """Returns whether a process is a daemon that forks workers, or one of these workers.

    A planning process that has just ended has no command line any more, so it cannot be told by its own.
    """
    return _DAEMON in read_or_empty(f"/proc/{pid}/cmdline")


def _own(pid: int) -> list[float]:
    return [int(ticks) / _TICKS for ticks in _stat(pid)[11:13]]


def _reaped(pid: int) -> list[float]:
    """Returns the CPU time of the children that have ended."""
    return [int(ticks) / _TICKS for ticks in _stat(pid)[13:15]]


def _stat(pid: int) -> list[str]:
    """Returns the fields of ``/proc/PID/stat`` from the state on; no fields if the process has ended."""
    return read_or_empty(f"/proc/{pid}/stat").rpartition(")")[2].split()
