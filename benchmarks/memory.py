"""Measures the peak memory of Spark's Python processes while they read a backlog in one micro-batch.

Peaks are the kernel's own high-water marks of resident memory (``VmHWM``), which are reset before each read: this
needs Linux. Workers are reused by later queries, so the memory that earlier reads did not free counts too. ``python -m
benchmarks.memory``
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from benchmarks.support.backlog import WrittenTopic
from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.processes import below, read_or_empty
from benchmarks.support.results import Result, at_most
from benchmarks.support.streams import OURS, drain, stream

if TYPE_CHECKING:
    from typing_extensions import Self

_WORKERS = "pyspark.daemon"
_PLANNER = "streaming.python_streaming_source_runner"
_INTERVAL_S = 0.05
_LARGE_BYTES = 1_000_000
_HUGE_BATCH_BYTES = 50_000_000


class PeakMemory:
    """A context manager that watches the memory of the Python processes below this one.

    ``of`` has their peaks in MB, by module and process.
    """

    def __init__(self) -> None:
        self.of: dict[str, dict[int, float]] = defaultdict(dict)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        for pid, _ in _descendants():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        for pid, module in _descendants():
            peak = _peak_mb(pid)
            if peak is not None:
                self.of[module][pid] = peak


def measure(environment: Environment) -> Iterator[Result]:
    small = WrittenTopic(environment.sizes.records)
    large = WrittenTopic(max(4, small.records // 50), value_bytes=10_000)
    backlogs = {
        "100-byte values": small,
        "100-byte values, lz4": replace(small, compression="lz4"),
        "10 kB values": large,
        "10 kB values, batches of 50 MB": replace(large, batch_bytes=_HUGE_BATCH_BYTES),
        "10 kB values, batches of 50 MB, lz4": replace(
            large, batch_bytes=_HUGE_BATCH_BYTES, compression="lz4"
        ),
        "1 MB values": WrittenTopic(max(4, small.records // 5000), value_bytes=_LARGE_BYTES),
    }
    for name, backlog in backlogs.items():
        yield from _read(environment, backlog, name, {})
    with temporary_folder() as table:
        alignment = {
            "scan.watermark.alignment.group": "memory",
            "scan.watermark.alignment.max-drift": "5 minutes",
            "scan.watermark.alignment.table": table,
        }
        yield from _read(environment, small, "100-byte values, aligned", alignment)


def _read(
    environment: Environment, backlog: WrittenTopic, name: str, options: dict[str, str]
) -> Iterator[Result]:
    environment.value_bytes(backlog)
    with PeakMemory() as peaks:
        drain(stream(environment, OURS, backlog.topic, **options), backlog.records)
    work = f"memory, {backlog.records:,} {name}"
    workers = list(peaks.of[_WORKERS].values())
    yield Result(f"{work}: largest worker", "", "", [max(workers)], "MB", at_most(300))
    yield Result(f"{work}: planner", "", "", [max(peaks.of[_PLANNER].values())], "MB", at_most(300))


def _descendants() -> Iterator[tuple[int, str]]:
    """Returns the Python processes of Spark below this one, with the module that each runs."""
    for pid in below(os.getpid()):
        command = read_or_empty(f"/proc/{pid}/cmdline")
        module = next((m for m in (_WORKERS, _PLANNER) if m in command), None)
        if module is not None:
            yield pid, module


def _peak_mb(pid: int) -> float | None:
    for line in read_or_empty(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return None


if __name__ == "__main__":
    run([measure])
