"""Measures the layers that this project writes by hand, each beside the library that would take its place.

Spark does not run. The first two pairs need a broker. ``python -m benchmarks.layers``
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Client, Listener

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.record import MemoryRecords

from benchmarks.support.backlog import START_MS, Backlog, json_values, word_values
from benchmarks.support.command import run
from benchmarks.support.coordinators import kafka_spec
from benchmarks.support.marks import Result
from benchmarks.support.stage import Stage
from benchmarks.support.turns import milliseconds, pairs, speeds
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.connectors.kafka.split import LATEST
from flip27_stream.connectors.kafka.split import TopicPartition as Partition
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.testing.kafka.bulk import encode_batch
from offsets import INITIAL

_SHARE = 10
"""kafka-python makes an object of each record, so it gets a tenth of the records that Spark gets."""

_REPORT = TaskReport(0, 0, 0, "worker", (SplitReport("a", 0, 9, 9, START_MS),))
_REPORTS = 50
_FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("page", pa.string()),
        ("country", pa.string()),
        ("cents", pa.int64()),
        ("share", pa.float64()),
    ]
)


def measure(stage: Stage) -> Iterator[Result]:
    yield _fetching(stage)
    yield _offsets(stage)
    yield _records(stage)
    yield _json(stage)
    yield _reports(stage)


def _fetching(stage: Stage) -> Result:
    """Measures the reading of a topic into Arrow, by a task's planner and reader and by kafka-python's consumer."""
    backlog = Backlog(stage.sizes.records // _SHARE)
    size = stage.value_bytes(backlog)

    def ours() -> float:
        spec = kafka_spec(stage.broker.bootstrap_servers, backlog.topic, None)
        with closing(SourceCoordinator(spec)) as coordinator:
            start = dict(INITIAL)
            tasks = coordinator.tasks(start, coordinator.latest_offset(start, None))
            return _seconds(
                lambda: sum(b.num_rows for t in tasks for b in read_task(spec, t)), backlog.records
            )

    def beside() -> float:
        with closing(_consumer(stage)) as consumer:
            partitions = [TopicPartition(backlog.topic, n) for n in range(backlog.partitions)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            return _seconds(
                lambda: sum(b.num_rows for b in _polled(consumer, backlog.records)), backlog.records
            )

    taken = pairs(beside, ours, stage.sizes.pairs, stage.sizes.warm_up)
    return speeds("a topic into Arrow, beside KafkaConsumer", backlog.records, size, taken)


def _polled(consumer: KafkaConsumer, count: int) -> Iterator[pa.RecordBatch]:
    while count > 0:
        records = [each for of in consumer.poll(1000, max_records=5000).values() for each in of]
        count -= len(records)
        yield pa.RecordBatch.from_pydict(
            {
                "key": pa.array([each.key for each in records], pa.binary()),
                "value": pa.array([each.value for each in records], pa.binary()),
                "topic": pa.array([each.topic for each in records], pa.string()),
                "partition": pa.array([each.partition for each in records], pa.int32()),
                "offset": pa.array([each.offset for each in records], pa.int64()),
                "timestamp": pa.array([each.timestamp for each in records], pa.timestamp("ms")),
            }
        )


def _offsets(stage: Stage) -> Result:
    """Measures the requests of a plan: for the end of each partition, and for the first offset at a time."""
    topic = stage.empty_topic(stage.sizes.many)
    client = KafkaClient(ConnectionOptions(stage.broker.bootstrap_servers))
    consumer = _consumer(stage)
    wanted = [Partition(topic, n) for n in range(stage.sizes.many)]
    theirs = [TopicPartition(topic, n) for n in range(stage.sizes.many)]

    def ours() -> float:
        questions = dict.fromkeys(wanted, LATEST), dict.fromkeys(wanted, START_MS)
        return _seconds(lambda: len(client.list_offsets(*questions, read_committed=False)[0]), len(wanted))

    def beside() -> float:
        def ask() -> int:
            consumer.offsets_for_times(dict.fromkeys(theirs, START_MS))
            return len(consumer.end_offsets(theirs))

        return _seconds(ask, len(theirs))

    with closing(client), closing(consumer):
        taken = pairs(beside, ours, stage.sizes.pairs, stage.sizes.warm_up)
    return Result(
        f"ends and a time of {len(wanted)} partitions, beside KafkaConsumer",
        milliseconds(taken.beside),
        milliseconds(taken.ours),
        taken.speed,
    )


def _records(stage: Stage) -> Result:
    """Measures the decoding of a fetch's records into columns, without a broker."""
    count = stage.sizes.records // _SHARE
    values = word_values(count, 100, 1)
    times = pa.array(range(START_MS, START_MS + count)).to_numpy()
    log = b"".join(encode_batch(times[at : at + 150], values[at : at + 150]) for at in range(0, count, 150))
    log = _numbered(log)
    taken = pairs(
        lambda: _seconds(lambda: sum(1 for batch in MemoryRecords(log) for _ in batch), count),
        lambda: _seconds(lambda: len(decode(log, 0, count, source="benchmark").records), count),
        stage.sizes.pairs,
        stage.sizes.warm_up,
    )
    size = values.buffers()[2].size
    return speeds("decoding record batches of 150, beside kafka-python", count, size, taken)


def _numbered(log: bytes) -> bytes:
    """Gives each batch its base offset, which the checksum does not cover."""
    numbered, at, offset = bytearray(log), 0, 0
    while at < len(numbered):
        numbered[at : at + 8] = offset.to_bytes(8, "big")
        offset += int.from_bytes(numbered[at + 57 : at + 61], "big")
        at += 12 + int.from_bytes(numbered[at + 8 : at + 12], "big")
    return bytes(numbered)


def _json(stage: Stage) -> Result:
    """Measures the decoding of JSON objects of six fields into columns."""
    count = stage.sizes.records // _SHARE
    values = json_values(count, 1)
    decoder = JsonColumns(_FIELDS)

    def beside() -> int:
        return len(pa.array([json.loads(value) for value in values.to_pylist()], pa.struct(_FIELDS)))

    taken = pairs(
        lambda: _seconds(beside, count),
        lambda: _seconds(lambda: len(decoder.decode(values).columns[0]), count),
        stage.sizes.pairs,
        stage.sizes.warm_up,
    )
    size = values.buffers()[2].size
    return speeds("JSON of six fields into columns, beside Python's json", count, size, taken)


def _reports(stage: Stage) -> Result:
    """Measures authenticated reports of tasks, each over a connection of its own."""
    with (
        closing(ReportListener("127.0.0.1", "127.0.0.1")) as channel,
        Listener(("127.0.0.1", 0), authkey=b"key", backlog=16) as listener,
    ):
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()

        def beside() -> int:
            for _ in range(_REPORTS):
                with Client(listener.address, authkey=b"key") as connection:
                    connection.send(_REPORT)
                    connection.recv()
            return _REPORTS

        def ours() -> int:
            return sum(send_report(channel.address, _REPORT) for _ in range(_REPORTS))

        taken = pairs(
            lambda: _seconds(beside, _REPORTS),
            lambda: _seconds(ours, _REPORTS),
            stage.sizes.pairs,
            stage.sizes.warm_up,
        )
    return Result(
        f"{_REPORTS} reports of tasks, beside multiprocessing",
        milliseconds(taken.beside),
        milliseconds(taken.ours),
        taken.speed,
    )


def _accept(listener: Listener) -> None:
    with contextlib.suppress(OSError):  # raised when the listener is closed
        while True:
            with listener.accept() as connection:
                connection.send(connection.recv() is not None)


def _consumer(stage: Stage) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=stage.broker.bootstrap_servers, enable_auto_commit=False, fetch_max_wait_ms=50
    )


def _seconds(work: Callable[[], int], expected: int) -> float:
    began = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    if found != expected:
        raise AssertionError(f"The measured work found {found} records; there are {expected}.")
    return seconds


if __name__ == "__main__":
    run((measure,))
