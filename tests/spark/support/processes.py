"""Other processes: whether they live, and who started whom. Reads ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""A JVM that lives for seconds is best off without the optimising compiler; without it the code cache would be too
small for Spark, which would be compiled again and again."""

QUICK_START = {"JAVA_TOOL_OPTIONS": QUICK_JAVA}
"""For the environment of a process that starts such a JVM."""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    return _state(pid) not in (None, "Z")


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    parents = {int(p.name): parent(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    found = [child for child, by in parents.items() if by == pid]
    return found + [further for child in found for further in descendants(child)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _state(pid: int) -> str | None:
    return fields[0] if (fields := _stat(pid)) else None


def parent(pid: int) -> int:
    """Who started a process; 0 if it is gone."""
    return int(fields[1]) if (fields := _stat(pid)) else 0


def _stat(pid: int) -> list[str]:
    """What follows the name, which may hold anything: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def planners() -> list[int]:
    """The planning processes of this Python process's Spark queries."""
    return [pid for pid in descendants(os.getpid()) if "python_streaming_source_runner" in command(pid)]


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
