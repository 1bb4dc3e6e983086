"""Measures the time of a small micro-batch beside the built-in source.

It has 100 rows in each of 4 partitions, or 10 in each of 200.

In the case "behind" the rows exist already, and ``maxOffsetsPerTrigger`` cuts them into small batches. In the case
"fed" a producer adds the rows of a batch once the batch before is done. In that case the built-in source was seen to
wait some 500 ms in each partition, one after another (less with a smaller ``fetch.max.wait.ms``), so 200 partitions
are measured only in the first and stricter way. ``python -m benchmarks.small_batches``
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from kafka import KafkaProducer

from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result, at_most
from benchmarks.support.streams import BUILTIN, OURS, drain, stream
from benchmarks.support.turns import Pairs, milliseconds, pairs

_VALUE = b"v" * 100
_WARM_UP = 2  # the first batches of a query, before caches are filled
_TRIES = 4  # a batch may be planned before all its rows have arrived; then it is measured again
_FOREVER_MS = 60_000


@dataclass(frozen=True)
class SmallBatch:
    """The size of a small batch: a number of rows in each of a number of partitions."""

    partitions: int
    rows: int

    @property
    def total(self) -> int:
        return self.partitions * self.rows

    def __str__(self) -> str:
        return f"{self.rows} rows in each of {self.partitions} partitions"


def measure(environment: Environment) -> Iterator[Result]:
    few, many = SmallBatch(4, 100), SmallBatch(environment.sizes.many, 10)
    yield _fed(environment, few, 0.95)
    yield _behind(environment, few, 0.95, environment.sizes.warm_up)
    # The built-in source spends a minute on the first batch of a query with 200 partitions.
    yield _behind(environment, many, 1.0, warm_up=0)


def _fed(environment: Environment, shape: SmallBatch, limit: float) -> Result:
    topic = environment.empty_topic(shape.partitions)
    seconds = pairs(
        partial(_feed_stream, environment, BUILTIN, topic, shape),
        partial(_feed_stream, environment, OURS, topic, shape),
        environment.sizes.pairs,
        environment.sizes.warm_up,
    )
    return _result(f"{shape}, fed", seconds, limit)


def _behind(environment: Environment, shape: SmallBatch, limit: float, warm_up: int) -> Result:
    topic = environment.empty_topic(shape.partitions)
    with closing(_producer(environment)) as producer:
        for _ in range(_WARM_UP + environment.sizes.batches):
            _feed(producer, topic, shape)
    seconds = pairs(
        partial(_catch_up, environment, BUILTIN, topic, shape),
        partial(_catch_up, environment, OURS, topic, shape),
        environment.sizes.pairs,
        warm_up,
    )
    return _result(f"{shape}, behind", seconds, limit)


def _result(work: str, seconds: Pairs, limit: float) -> Result:
    return Result(
        work,
        milliseconds(seconds.beside),
        milliseconds(seconds.ours),
        seconds.time,
        target=at_most(limit),
    )


def _feed_stream(environment: Environment, fmt: str, topic: str, shape: SmallBatch) -> float:
    """Returns the median time (s) of the batches of a query whose rows a producer writes batch by batch."""
    wanted = _WARM_UP + environment.sizes.batches
    frame = stream(environment, fmt, topic, startingOffsets="latest")
    with temporary_folder() as checkpoint, closing(_producer(environment)) as producer:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            for _ in range(wanted * _TRIES):
                _feed(producer, topic, shape)
                query.processAllAvailable()
                batches = [p for p in query.recentProgress if p.numInputRows == shape.total]
                if len(batches) >= wanted:
                    break
        finally:
            query.stop()
    if len(batches) < wanted:
        raise RuntimeError(f"{len(batches)} of {wanted} batches of {fmt} had all of their {shape.total} rows")
    return statistics.median(p.durationMs["triggerExecution"] for p in batches[_WARM_UP:]) / 1000


def _catch_up(environment: Environment, fmt: str, topic: str, shape: SmallBatch) -> float:
    """Returns the median time (s) of the batches of a query that catches up."""
    frame = stream(environment, fmt, topic, maxOffsetsPerTrigger=shape.total)
    batches = _WARM_UP + environment.sizes.batches
    seconds = drain(frame, batches * shape.total)
    if len(seconds) != batches:
        raise RuntimeError(f"{fmt} made {len(seconds)} batches, not {batches}")
    return statistics.median(seconds[_WARM_UP:])


def _producer(environment: Environment) -> KafkaProducer:
    """Returns a producer that collects rows until it is flushed, so that the rows of a batch arrive in one request."""
    return KafkaProducer(bootstrap_servers=environment.broker.bootstrap_servers, linger_ms=_FOREVER_MS)


def _feed(producer: KafkaProducer, topic: str, shape: SmallBatch) -> None:
    for _ in range(shape.rows):
        for partition in range(shape.partitions):
            producer.send(topic, _VALUE, partition=partition)
    producer.flush()


if __name__ == "__main__":
    run([measure])
