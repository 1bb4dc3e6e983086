"""The processes below this one, and the CPU time that they have used. It needs Linux."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    """CPU time, user and system.

    Attributes:
        broker: The CPU time (s) of the Kafka broker.
        python: The CPU time (s) of Spark's Python processes, which are workers and planners.
        jvm: The CPU time (s) of Spark's JVM.
    """

    broker: float
    python: float
    jvm: float

    def since(self, before: CpuTime) -> CpuTime:
        """Returns what was used after ``before``."""
        return CpuTime(*(now - then for now, then in zip(self, before, strict=True)))

    def per_row(self, rows: int) -> str:
        """Returns the CPU time per row as text, of the processes that used any."""
        used = {name: 1e6 * seconds / rows for name, seconds in self._asdict().items() if seconds}
        return ", ".join(f"{name} {microseconds:.2f}" for name, microseconds in used.items()) + " µs"


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
    of_broker, of_python, of_jvm = 0.0 if broker is None else sum(_own(broker)), 0.0, 0.0
    for pid in below(os.getpid()):
        if pid == broker or not _is_java(pid):
            continue
        of_jvm += sum(_own(pid))
        of_python += sum(_reaped(pid))
        for worker in below(pid):
            of_python += sum((*_own(worker), *_reaped(worker)))
    return CpuTime(of_broker, of_python, of_jvm)


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


def _own(pid: int) -> list[float]:
    return [int(ticks) / _TICKS for ticks in _stat(pid)[11:13]]


def _reaped(pid: int) -> list[float]:
    """Returns the CPU time of the children that have ended."""
    return [int(ticks) / _TICKS for ticks in _stat(pid)[13:15]]


def _stat(pid: int) -> list[str]:
    """Returns the fields of ``/proc/PID/stat`` from the state on; no fields if the process has ended."""
    return read_or_empty(f"/proc/{pid}/stat").rpartition(")")[2].split()
