"""The layers of Kafka: fetching, the client of planning, record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.layers.pair import SHARE, compared, seconds, times
from benchmarks.support.backlog import START_MS, WrittenTopic, word_values
from benchmarks.support.coordinators import kafka_spec
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result
from benchmarks.support.turns import pairs, speeds
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.fetch_round import Wanted
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition, FetchFrom
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher
from flip27_stream.connectors.kafka.records.batch_headers import complete_batches
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.connectors.kafka.split import LATEST
from flip27_stream.connectors.kafka.split import TopicPartition as Partition
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.testing.kafka.bulk import encode_batch
from offsets import INITIAL

_SMALL_BATCH = 150
"""As many records of 100 bytes fill a Java producer's default batch."""

_LARGE_BATCH = 8192
"""The records that the test kit writes in a batch."""

_VALUE_BYTES = 100
_RESPONSE_BYTES = 16 << 20
"""The greatest size of a response, as by default (``kafka.fetch.max.bytes``)."""

_TIME_LIMIT_S = 30.0


def measure_with_broker(environment: Environment) -> Iterator[Result]:
    yield _fetching(environment)
    yield _receiving(environment)
    yield _offsets(environment)


def measure(environment: Environment) -> Iterator[Result]:
    yield _decoding(environment)
    yield _encoding(environment)


def _fetching(environment: Environment) -> Result:
    """Measures the reading of a topic into Arrow, by a task's planner and reader and by kafka-python's consumer."""
    backlog = WrittenTopic(environment.sizes.records // SHARE)
    size = environment.value_bytes(backlog)

    def ours() -> float:
        spec = kafka_spec(environment.broker.bootstrap_servers, backlog.topic, None)
        with closing(SourceCoordinator(spec)) as coordinator:
            start = dict(INITIAL)
            tasks = coordinator.tasks(start, coordinator.latest_offset(start, None))
            return seconds(
                lambda: sum(b.num_rows for t in tasks for b in read_task(spec, t)), backlog.records
            )

    def beside() -> float:
        with closing(_consumer(environment)) as consumer:
            partitions = [TopicPartition(backlog.topic, n) for n in range(backlog.partitions)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            return seconds(
                lambda: sum(b.num_rows for b in _polled(consumer, backlog.records)), backlog.records
            )

    taken = pairs(beside, ours, environment.sizes.pairs, environment.sizes.warm_up)
    return speeds("a topic into Arrow, beside KafkaConsumer", backlog.records, size, taken)


def _receiving(environment: Environment) -> Result:
    """Measures how fast the bytes of a topic are received, without decoding.

    They are received over the fetch connection of tasks, and over kafka-python's connection, which planning uses.
    """
    backlog = WrittenTopic(environment.sizes.records)
    size = environment.value_bytes(backlog)
    client = KafkaClient(ConnectionOptions(environment.broker.bootstrap_servers))
    fetcher = Fetcher(client)
    node = next(iter(client.leaders([Partition(backlog.topic, 0)]).values()))

    def raw(wanted: Wanted) -> Mapping[Partition, FetchedPartition]:
        fetcher.send(node, wanted, read_committed=False, max_bytes=_RESPONSE_BYTES)
        answer = fetcher.next_answer(_TIME_LIMIT_S)
        return (answer and answer.fetched) or {}

    def decoded(wanted: Wanted) -> Mapping[Partition, FetchedPartition]:
        return client.fetch(wanted, read_committed=False, max_bytes=_RESPONSE_BYTES)

    with closing(client), closing(fetcher):
        taken = compared(
            environment,
            backlog.records,
            lambda: _received(decoded, backlog),
            lambda: _received(raw, backlog),
        )
    return speeds("bytes of a topic, beside kafka-python's connection", backlog.records, size, taken)


def _received(fetch: Callable[[Wanted], Mapping[Partition, FetchedPartition]], backlog: WrittenTopic) -> int:
    """Fetches all records of a topic, and returns their number."""
    ends = dict.fromkeys((Partition(backlog.topic, n) for n in range(backlog.partitions)), 0)
    last = backlog.records // backlog.partitions
    while left := {tp: FetchFrom(end, _RESPONSE_BYTES) for tp, end in ends.items() if end < last}:
        for tp, fetched in fetch(left).items():
            ends[tp] = max(ends[tp], complete_batches(fetched.records, str(tp)).end)
    return sum(ends.values())


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


def _offsets(environment: Environment) -> Result:
    """Measures the requests of a plan: for the end of each partition, and for the first offset at a time."""
    topic = environment.empty_topic(environment.sizes.many)
    client = KafkaClient(ConnectionOptions(environment.broker.bootstrap_servers))
    consumer = _consumer(environment)
    wanted = [Partition(topic, n) for n in range(environment.sizes.many)]
    theirs = [TopicPartition(topic, n) for n in range(environment.sizes.many)]

    def ours() -> int:
        questions = dict.fromkeys(wanted, LATEST), dict.fromkeys(wanted, START_MS)
        return len(client.list_offsets(*questions, read_committed=False)[0])

    def beside() -> int:
        consumer.offsets_for_times(dict.fromkeys(theirs, START_MS))
        return len(consumer.end_offsets(theirs))

    with closing(client), closing(consumer):
        taken = compared(environment, len(wanted), beside, ours)
    return times(f"ends and a time of {len(wanted)} partitions, beside KafkaConsumer", taken)


def _decoding(environment: Environment) -> Result:
    """Measures the decoding of a fetch's records into columns."""
    count = environment.sizes.records // SHARE
    values = word_values(count, _VALUE_BYTES, 1)
    log = _numbered(b"".join(_batches(values, _SMALL_BATCH)))
    taken = compared(
        environment,
        count,
        lambda: sum(1 for batch in MemoryRecords(log) for _ in batch),
        lambda: len(decode(log, 0, count, source="benchmark").records),
    )
    size = values.buffers()[2].size
    return speeds(f"decoding record batches of {_SMALL_BATCH}, beside kafka-python", count, size, taken)


def _encoding(environment: Environment) -> Result:
    """Measures the encoding of the record batches that the test kit writes, without the broker."""
    count = environment.sizes.records // SHARE
    values = word_values(count, _VALUE_BYTES, 1)

    def beside() -> int:
        size = 0
        for start in range(0, count, _LARGE_BATCH):
            builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
            for number, value in enumerate(values[start : start + _LARGE_BATCH].to_pylist()):
                builder.append(number, START_MS + start + number, None, value, [])
            size += len(builder.build())
        return size

    def ours() -> int:
        return sum(map(len, _batches(values, _LARGE_BATCH)))

    taken = compared(environment, ours(), beside, ours)
    size = values.buffers()[2].size
    return speeds(f"encoding record batches of {_LARGE_BATCH:,}, beside kafka-python", count, size, taken)


def _batches(values: pa.BinaryArray, records: int) -> Iterator[bytes]:
    timestamps = START_MS + np.arange(len(values), dtype=np.int64)
    for start in range(0, len(values), records):
        yield encode_batch(timestamps[start : start + records], values[start : start + records])


def _numbered(log: bytes) -> bytes:
    """Gives each batch its base offset, which the checksum does not cover."""
    numbered, at, offset = bytearray(log), 0, 0
    while at < len(numbered):
        numbered[at : at + 8] = offset.to_bytes(8, "big")
        offset += int.from_bytes(numbered[at + 57 : at + 61], "big")
        at += 12 + int.from_bytes(numbered[at + 8 : at + 12], "big")
    return bytes(numbered)


def _consumer(environment: Environment) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=environment.broker.bootstrap_servers, enable_auto_commit=False, fetch_max_wait_ms=50
    )
