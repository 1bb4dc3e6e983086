"""Measures the planning of aligned batches on a real broker.

It counts rounds of ListOffsets, our own CPU time, and the time that the broker takes to answer.

Spark does not run: the coordinator is driven as Spark drives it, in a stream that keeps up, and in one that catches
up under a read limit. ``python -m benchmarks.planning.with_broker``
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from benchmarks.support.backlog import START_MS
from benchmarks.support.command import run
from benchmarks.support.coordinators import kafka_coordinator
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result, at_most
from flip27_stream.connectors.kafka.client.client import KafkaClient
from offsets import INITIAL

_ROWS = 10
_WARM_UP = 2


@dataclass
class Requests:
    """Counts rounds of requests, and adds up the time spent waiting for answers."""

    list_offsets: int = 0
    fetch: int = 0
    waited: float = 0.0

    def counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.waited += time.perf_counter() - began - (time.thread_time() - cpu)
                setattr(self, method.__name__, getattr(self, method.__name__) + 1)

        return call


@dataclass
class Costs:
    """The measured costs, with one entry for each plan."""

    list_offsets: list[int] = field(default_factory=list)
    fetches: list[int] = field(default_factory=list)
    own_cpu: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    offset_bytes: int = 0

    def __str__(self) -> str:
        cpu, waited = (1000 * statistics.median(s) for s in (self.own_cpu, self.waited))
        return f"{statistics.median(self.fetches):.0f} fetches, {cpu:.0f} ms CPU, {waited:.0f} ms wait"


def measure(environment: Environment) -> Iterator[Result]:
    many = environment.sizes.many
    batches = _WARM_UP + environment.sizes.batches
    steady = _plans(environment, many, batches, limit=None)
    work = f"planning {many} aligned partitions"
    yield Result(f"{work}, keeping up", "", str(steady), steady.list_offsets, "rounds", at_most(4))
    behind = _plans(environment, many, batches, limit=many * _ROWS)
    yield Result(f"{work}, behind", "", str(behind), behind.list_offsets, "rounds", at_most(4))
    kilobytes = behind.offset_bytes / 1000
    yield Result(f"offset of {many} aligned partitions", "", "", [kilobytes], "kB")


def _plans(environment: Environment, partitions: int, batches: int, limit: int | None) -> Costs:
    """Plans batch after batch.

    With a limit all records exist from the start, otherwise those of each batch are written before it.
    """
    topic = environment.empty_topic(partitions)
    requests, costs = Requests(), Costs()
    if limit is not None:
        for batch in range(batches + 1):
            _write(environment, topic, partitions, batch)
    with (
        temporary_folder() as table,
        patch.object(KafkaClient, "list_offsets", requests.counted(KafkaClient.list_offsets)),
        patch.object(KafkaClient, "fetch", requests.counted(KafkaClient.fetch)),
    ):
        coordinator = kafka_coordinator(environment.broker.bootstrap_servers, topic, table)
        offset: dict[str, Any] = dict(INITIAL)
        for batch in range(batches):
            if limit is None:
                _write(environment, topic, partitions, batch)
            requests.list_offsets, requests.fetch, requests.waited = 0, 0, 0.0
            cpu = time.thread_time()
            offset = coordinator.latest_offset(offset, limit)
            if batch >= _WARM_UP:
                costs.own_cpu.append(time.thread_time() - cpu)
                costs.list_offsets.append(requests.list_offsets)
                costs.fetches.append(requests.fetch)
                costs.waited.append(requests.waited)
        coordinator.close()
    costs.offset_bytes = len(json.dumps(offset))
    return costs


def _write(environment: Environment, topic: str, partitions: int, batch: int) -> None:
    """Writes ten seconds of event time to each partition."""
    begin = START_MS + batch * 10_000
    rows = range(0, 10_000, 10_000 // _ROWS)
    environment.broker.write(
        topic, [(p, begin + row + p % 1000, None, b"v" * 100) for p in range(partitions) for row in rows]
    )


if __name__ == "__main__":
    run([measure])
