"""A driver program with all processes that it starts. It reads ``/proc``, so it needs Linux."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from flip27_stream.testing import wait_until
from flip27_stream.testing.child import Child

Role = Literal["jvm", "planner", "worker", "all"]

_PLANNER, _WORKERS = "python_streaming_source_runner", "pyspark.daemon"
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xshare:auto"
_TIME_LIMIT_S, _TICK_S = 30.0, 0.02


class DriverProgram:
    """Starts, watches and kills one driver program at a time. Its processes are found by their session.

    Args:
        arguments: The arguments of Python.
        log: The file for its output.
        scratch: A folder that is removed if this process is killed. The driver program ends then, too.
    """

    def __init__(self, arguments: Sequence[str], log: Path, scratch: Path) -> None:
        self.log = log
        self._command = ["env", f"JAVA_TOOL_OPTIONS={_QUICK_JAVA}", sys.executable, *arguments]
        self._scratch = scratch
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def start(self) -> None:
        self._child = Child(self._command, log=self.log, scratch=self._scratch)

    def kill(self) -> None:
        """Kills the driver with SIGKILL, and waits until all its processes have ended.

        These are its JVM, its planning processes and its workers.
        """
        child, self._child = self._child, None
        if child is None:
            return
        try:
            wait_until(
                lambda: not _kill(session(child.pid)), "the end of a driver's processes", _TIME_LIMIT_S
            )
        finally:
            child.kill()

    def pids(self, role: Role = "all") -> list[int]:
        """Returns the process ids of the processes with a role.

        The roles are the JVM, the planning processes, the workers that run tasks, and all processes.
        """
        pids = session(self._child.pid) if self._child is not None else []
        return sorted(pid for pid in pids if _IS[role](pid))

    def busy(self, role: Role, within_s: float) -> int | None:
        """Returns a process that has just used CPU time; ``None`` if none did within the given seconds."""
        deadline, before = time.monotonic() + within_s, self._computed(role)
        while time.monotonic() < deadline:
            time.sleep(_TICK_S)
            after = self._computed(role)
            for pid, ticks in after.items():
                if ticks > before.get(pid, ticks):
                    return pid
            before = after
        return None

    def _computed(self, role: Role) -> dict[int, int]:
        """Returns the CPU time (clock ticks) of each process."""
        stats = {pid: _stat(pid) for pid in self.pids(role)}
        return {pid: int(stat[11]) + int(stat[12]) for pid, stat in stats.items() if stat}

    def planners(self) -> dict[int, int]:
        """Returns the resident memory (bytes) of the planning processes, by process id."""
        sizes = {pid: _resident(pid) for pid in self.pids("planner")}
        return {pid: size for pid, size in sizes.items() if size}

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


_IS: Mapping[Role, Callable[[int], bool]] = {
    "jvm": lambda pid: "org.apache.spark.deploy.SparkSubmit" in _read(pid, "cmdline"),
    "planner": lambda pid: _PLANNER in _read(pid, "cmdline"),
    # The process that starts workers is left out, since Spark's pool of workers does not recover from its end.
    "worker": lambda pid: all(_WORKERS in _read(each, "cmdline") for each in (pid, _parent(pid))),
    "all": lambda pid: True,
}


def session(leader: int) -> list[int]:
    """Returns the running processes of the session that ``leader`` began. ``leader`` may have ended."""
    stats = {int(p.name): _stat(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    return [pid for pid, stat in stats.items() if stat and stat[0] != "Z" and int(stat[3]) == leader]


def _kill(pids: Sequence[int]) -> Sequence[int]:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _parent(pid: int) -> int:
    """Returns the parent of a process; 0 if the process has ended."""
    stat = _stat(pid)
    return int(stat[1]) if stat else 0


def _resident(pid: int) -> int:
    """Returns the resident memory (bytes) of a process; 0 if the process has ended."""
    fields = _read(pid, "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _stat(pid: int) -> list[str]:
    """Returns the fields of ``/proc/PID/stat`` after the name: state, parent, process group, session, ..."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text()
    except OSError:
        return ""
