"""Measures ``flip27_pulsar`` beside a plain reader loop of pulsar-client on the same server.

``python -m benchmarks.pulsar`` runs it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.support.count import Count, read_without_spark
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.source_query import SourceQuery

TOPIC = "benchmark"
_BATCH = 500


def plain_loop(server: PulsarServer, partitions: int) -> tuple[int, float]:
    """Returns the messages and the time (s) of a loop that reads one partition after the other and makes rows."""
    import pulsar

    began, rows = time.perf_counter(), []
    for number in range(partitions):
        reader = server.client.create_reader(
            f"persistent://public/default/{TOPIC}-partition-{number}", pulsar.MessageId.earliest
        )
        while reader.has_message_available():
            m = reader.read_next()
            rows.append(
                (
                    m.data(),
                    m.partition_key(),
                    m.topic_name(),
                    m.message_id().serialize(),
                    m.publish_timestamp(),
                    m.event_timestamp(),
                    m.properties(),
                )
            )
        reader.close()
    return len(rows), time.perf_counter() - began


def readers(server: PulsarServer) -> tuple[int, float]:
    """Returns the number of messages and the time (s) of planning and readers, in one process without Spark."""
    options = {**server.options, "topic": TOPIC, "startingOffsets": "earliest"}
    return read_without_spark(PulsarSource(options))


def at_once(server: PulsarServer, tasks: int) -> tuple[int, float]:
    """Returns the messages and the time (s) of all ranges of one plan, read by ``tasks`` processes at once.

    Spark's workers read them in the same way.
    """
    source = PulsarSource({**server.options, "topic": TOPIC, "startingOffsets": "earliest"})
    with (
        SourceQuery(source, parallelism=tasks) as query,
        ProcessPoolExecutor(tasks, get_context("spawn"), import_module, ("pulsar",)) as processes,
    ):
        ranges = query.tasks(*query.wait_for_batch())
        # Each process starts before the clock does.
        for _ in [*processes.map(_nothing, range(tasks))]:
            pass
        began = time.perf_counter()
        rows = sum(processes.map(_read, [source] * len(ranges), ranges))
        return rows, time.perf_counter() - began


def _nothing(number: int) -> None:
    time.sleep(0.5)


def _read(source: PulsarSource, ranges: Sequence[PlannedRange]) -> int:
    with SourceQuery(source) as query:
        output = Count()
        for _ in query.poll(ranges, output):  # type: ignore[arg-type]
            pass
    return output.rows


def run(arguments: Sequence[str] | None = None) -> Table:
    """Runs the measurements and returns the table.

    The fastest of several rounds counts, since others may use the machine.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pulsar",
        description="Measures flip27_pulsar beside a plain reader loop of pulsar-client on the same server.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--partitions", type=int, default=2, help="partitions of the topic")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the topic")
    parser.add_argument("--bytes", type=int, default=200, help="size of a record")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the fastest counts")
    given = parser.parse_args(arguments)
    table = Table(
        "what", "records", "seconds", "rows/s", "beside the loop", "CPU seconds here", "beside the loop"
    )
    with PulsarServer() as server:
        server.create_topic(TOPIC, given.partitions)
        values = [b"x" * given.bytes] * (given.records // given.partitions)
        for number in range(given.partitions):
            server.put(f"{TOPIC}-partition-{number}", values, batch=_BATCH)
        contenders = {
            "plain loop of pulsar-client": lambda: plain_loop(server, given.partitions),
            "planning and readers": lambda: readers(server),
        }
        rounds = [
            {name: _measured(contender) for name, contender in contenders.items()}
            for _ in range(given.rounds)
        ]
        loop: _MeasuredTopic | None = None
        for name in contenders:
            found = [measured[name] for measured in rounds]
            best = _MeasuredTopic(found[0].rows, min(m.seconds for m in found), min(m.cpu for m in found))
            loop = loop or best
            table.add_row(name, *best.cells(loop))
        for tasks in sorted({1, given.partitions}):
            rows, took = min(
                (at_once(server, tasks) for _ in range(given.rounds)), key=lambda found: found[1]
            )
            table.add_row(f"readers in {tasks} processes", f"{rows:,}", f"{took:.2f}", f"{rows / took:,.0f}")
    return table


class _MeasuredTopic(NamedTuple):
    rows: int
    seconds: float
    cpu: float

    def cells(self, loop: _MeasuredTopic) -> Sequence[str]:
        return (
            f"{self.rows:,}",
            f"{self.seconds:.2f}",
            f"{self.rows / self.seconds:,.0f}",
            f"{loop.seconds / self.seconds:.2f}",
            f"{self.cpu:.2f}",
            f"{loop.cpu / self.cpu:.2f}",
        )


def _measured(contender: Callable[[], tuple[int, float]]) -> _MeasuredTopic:
    cpu = time.process_time()
    rows, seconds = contender()
    return _MeasuredTopic(rows, seconds, time.process_time() - cpu)


if __name__ == "__main__":
    Console(width=120).print(run())
