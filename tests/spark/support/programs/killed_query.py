"""Kills queries (SIGKILL): all their Python processes in this Spark, or a separate driver program.

The code of this project runs in Python processes of a query: the planning process and Spark's workers. It takes a
second to kill those and start the query again. A driver program takes much longer. It is killed only in tests of
Spark's side.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from benchmarks.support.processes import below
from flip27_stream.testing import wait_until
from tests.spark.support.kafka_queries import TIME_LIMIT_S, Output
from tests.spark.support.processes import alive, command, parent, planners, quick_start

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PYTHON = "-m pyspark."
_LOOK_S = 0.01  # leaves the processor to the processes that are to be killed

Moment = Callable[[], bool]
Victims = Callable[[], list[int]]
"""Returns the process ids of those to be killed."""


def logged(output: Output, kind: str, more: int = 1) -> Moment:
    """Returns a condition: ``more`` new entries in a log of the checkpoint."""
    wanted = len(output.logged(kind)) + more
    return lambda: len(output.logged(kind)) >= wanted


def written(folder: Path, pattern: str, more: int = 1) -> Moment:
    """Returns a condition: ``more`` new files."""
    before = set(folder.glob(pattern))
    return lambda: len(set(folder.glob(pattern)) - before) >= more


def workers() -> list[int]:
    """Returns the processes that run tasks. Their parent is not among them, since Spark's pool of workers needs it."""
    return [pid for pid in below(os.getpid()) if all(_PYTHON in command(p) for p in (pid, parent(pid)))]


def python_processes() -> list[int]:
    """Returns the planning processes and those that run tasks."""
    return [*planners(), *workers()]


def kill_python_when(
    query: StreamingQuery, moment: Moment, delay_s: float = 0, whom: Victims = python_processes
) -> None:
    """Kills Python processes of ``query`` from ``delay_s`` after ``moment`` on, until the query has failed.

    There must be no other query.
    """
    try:
        deadline = time.monotonic() + TIME_LIMIT_S
        while not moment():
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, "the moment to kill never came"
            time.sleep(_LOOK_S)
        time.sleep(delay_s)
        while query.isActive:
            for pid in whom():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
    finally:
        with suppress(StreamingQueryException):
            query.stop()
    assert query.exception() is not None, "it ended before it was killed"


@contextmanager
def driver(module: str, argument: str, log: Path) -> Iterator[Callable[[Moment, str], None]]:
    """Starts a driver program. Yields a function that kills it at a moment, which the caller also describes in words.

    It kills the program and its JVM, so that the batch that runs at that moment is not committed. At the end all
    processes that the driver has started are ended.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", module, argument], stdout=sink, stderr=sink, env=os.environ | quick_start()
        )
    family: list[int] = []

    def kill_when(moment: Moment, what: str) -> None:
        deadline = time.monotonic() + TIME_LIMIT_S
        while not moment():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"It never came to {what}:\n{log.read_text()[-4000:]}")
            time.sleep(_LOOK_S)
        family.extend(below(process.pid))
        for pid in [*(child for child in family if "java" in command(child).partition(" ")[0]), process.pid]:
            os.kill(pid, signal.SIGKILL)

    try:
        yield kill_when
    finally:
        family.extend(below(process.pid))
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(alive, family)), "the end of the JVM and the planner", TIME_LIMIT_S)
