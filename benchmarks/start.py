"""Measures the time from ``start()`` of a query until its first batch is in the sink, beside the built-in source.

Each query is new: its planning process starts and imports what it needs, it connects, plans and reads. Spark's JVM
and its pool of Python workers are warm, as in a session in which queries have run before. ``python -m
benchmarks.start``
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result
from benchmarks.support.streams import BUILTIN, OURS, stream
from benchmarks.support.turns import milliseconds, pairs

_PARTITIONS, _ROWS = 4, 100
_LOOK_S = 0.002
_TIME_LIMIT_S = 120


def measure(environment: Environment) -> Iterator[Result]:
    topic = environment.empty_topic(_PARTITIONS)
    rows = [
        (partition, 1 + row, None, b"v" * 100) for partition in range(_PARTITIONS) for row in range(_ROWS)
    ]
    environment.broker.write(topic, rows)
    seconds = pairs(
        partial(_first_rows, environment, BUILTIN, topic),
        partial(_first_rows, environment, OURS, topic),
        environment.sizes.pairs,
        environment.sizes.warm_up,
    )
    yield Result(
        "from start() to the first rows",
        milliseconds(seconds.beside),
        milliseconds(seconds.ours),
        seconds.time,
    )


def _first_rows(environment: Environment, fmt: str, topic: str) -> float:
    """Returns the seconds from ``start()`` until a batch with all the rows has run."""
    frame = stream(environment, fmt, topic)
    with temporary_folder() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        began = time.perf_counter()
        query = writer.start()
        try:
            while not any(batch.numInputRows for batch in query.recentProgress):
                if query.exception() or time.perf_counter() - began > _TIME_LIMIT_S:
                    raise RuntimeError(f"{fmt} read no row: {query.exception()}")
                time.sleep(_LOOK_S)
            return time.perf_counter() - began
        finally:
            query.stop()


if __name__ == "__main__":
    run([measure])
