"""Measures ``latestOffset`` of a running query on 1,000 partitions of a real broker, beside the built-in source.

The partitions are those of 10 topics. A producer adds a row to one of them when the batch before is done, so that the
time of a batch is mostly that of its plan. The figure is Spark's ``durationMs.latestOffset``.
``python -m benchmarks.planning.latest_offset``
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from kafka import KafkaProducer

from benchmarks.support.command import run
from benchmarks.support.coordinators import alignment_options
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result
from benchmarks.support.streams import BUILTIN, OURS, stream
from benchmarks.support.turns import milliseconds, pairs

_TOPICS = 10
_WARM_UP = 2


def measure(environment: Environment) -> Iterator[Result]:
    each = max(1, environment.sizes.many // 2)
    topics = [environment.empty_topic(each) for _ in range(_TOPICS)]
    for name, aligned in (("unaligned", False), ("aligned", True)):
        seconds = pairs(
            partial(_latest_offset, environment, BUILTIN, topics, aligned=False),
            partial(_latest_offset, environment, OURS, topics, aligned=aligned),
            environment.sizes.pairs,
            warm_up=min(1, environment.sizes.warm_up),
        )
        yield Result(
            f"latestOffset of {_TOPICS * each:,} partitions, {name}",
            milliseconds(seconds.beside),
            milliseconds(seconds.ours),
            seconds.time,
        )


def _latest_offset(environment: Environment, fmt: str, topics: list[str], *, aligned: bool) -> float:
    """Returns the median time (s) of ``latestOffset`` in the batches of a query."""
    wanted = _WARM_UP + environment.sizes.batches
    with temporary_folder() as folder, closing(_producer(environment)) as producer:
        alignment = alignment_options(f"{folder}/table") if aligned else {}
        frame = stream(environment, fmt, ",".join(topics), startingOffsets="latest", **alignment)
        query = frame.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
        try:
            query.processAllAvailable()
            for _ in range(wanted):
                producer.send(topics[0], b"v", partition=0).get()
                query.processAllAvailable()
            batches = [p.durationMs["latestOffset"] for p in query.recentProgress if p.numInputRows]
        finally:
            query.stop()
    if len(batches) != wanted:
        raise RuntimeError(f"{fmt} made {len(batches)} batches, not {wanted}")
    return statistics.median(batches[_WARM_UP:]) / 1000


def _producer(environment: Environment) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=environment.broker.bootstrap_servers)


if __name__ == "__main__":
    run([measure])
