"""Queries over ``flip27_kinesis`` on a real Spark: killed processes, enhanced fan-out, a group with Kafka, and a
history in Delta.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from flip27_stream.api import Source
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.records.columns import ARRIVAL, schema_of
from flip27_stream.spark.data_source import register
from flip27_stream.testing import KinesisServer
from flip27_stream.testing.kinesis import skip_reason
from tests.connectors.kinesis.support.kit import QUICK, numbered
from tests.spark.support.group_with_kafka import check_group_with_kafka
from tests.spark.support.kafka_queries import KafkaQueries, Output
from tests.spark.support.killed_connector import kill_at_nine_moments

pytestmark = pytest.mark.jvm

STREAM = "clicks"
SHARDS = 3


@pytest.fixture
def server() -> Iterator[KinesisServer]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with KinesisServer() as running:
        running.create_stream(STREAM, SHARDS)
        yield running


def stream_of(queries: KafkaQueries, server: KinesisServer, **more: str) -> DataFrame:
    options = {**server.options, **QUICK, "streamName": STREAM, **more}
    return queries.spark.readStream.format("flip27_kinesis").options(**options).load()


class StreamWriter:
    """Writes numbered records in several steps, so that their arrival times differ."""

    def __init__(self, server: KinesisServer) -> None:
        self._server, self.count = server, 0

    def put(self, count: int = 60) -> None:
        shards = len(self._server.open_shards(STREAM))
        for first in range(0, count, 12):
            self._server.put(STREAM, numbered(self.count + first, min(12, count - first), shards))
            time.sleep(0.005)
        self.count += count


def check(output: Output, count: int) -> None:
    """Checks that each record was read once, in one lineage without a gap."""
    assert Counter(row["data"] for row in output.rows()) == Counter(b"%d" % i for i in range(count))
    offsets = output.offsets()
    assert all(after["batch"] == before["batch"] + 1 for before, after in pairwise(offsets))


def test_nine_kills_with_resharding_between_lose_no_record(
    queries: KafkaQueries, server: KinesisServer
) -> None:
    """SX-08: a query that is killed at nine moments loses and doubles nothing. Shards are split and merged between the
    kills.
    """
    writer = StreamWriter(server)
    options = {**server.options, **QUICK, **queries.aligned("1 hour"), "streamName": STREAM}
    changes: list[Callable[[], None]] = [
        lambda: server.split(STREAM, 0),
        lambda: None,
        lambda: server.merge(STREAM, 1),
    ]

    def before(number: int) -> None:
        writer.put()
        changes[number % len(changes)]()
        writer.put(24)

    kill_at_nine_moments(queries, server, "flip27_kinesis", options | {"maxRecordsPerTrigger": "25"}, before)
    queries.run(stream_of(queries, server, **options | {"maxRecordsPerTrigger": "300"}))
    check(queries.output(), writer.count)
    rows = queries.split_watermark_rows()
    assert set(Counter((row["batch"], row["split"]) for row in rows).values()) == {1}
    assert {row["start_position"].isdigit() for row in rows} == {True}


def test_enhanced_fan_out_reads_each_record_once(queries: KafkaQueries, server: KinesisServer) -> None:
    """With enhanced fan-out the driver registers one consumer, and tasks subscribe. Each record is read once, across
    a restart and a split of a shard.
    """
    writer = StreamWriter(server)
    options = {"consumerMode": "efo", "consumerName": "spark", "maxRecordsPerTrigger": "40"}
    for splits in (False, True):
        writer.put()
        if splits:
            server.split(STREAM, 0)
        writer.put(24)
        queries.run(stream_of(queries, server, **options))
        check(queries.output(), writer.count)
    summary = server.client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    listed = server.client.list_stream_consumers(StreamARN=summary["StreamARN"])["Consumers"]
    assert [consumer["ConsumerName"] for consumer in listed] == ["flip27_spark"]


def test_kafka_and_kinesis_are_aligned_in_one_group(
    queries: KafkaQueries, server: KinesisServer, topic: Callable[..., str]
) -> None:
    """A Kafka topic and a Kinesis stream are aligned with each other in one query, by the timestamps of their
    records.
    """
    writer = StreamWriter(server)
    writer.put(120)

    def stream(options: Mapping[str, str]) -> DataFrame:
        found = stream_of(queries, server, **options)
        return found.selectExpr("data", "approximateArrivalTimestamp AS at")

    check_group_with_kafka(queries, topic(1), "kinesis", stream, [b"%d" % i for i in range(120)])


def test_a_delta_table_and_then_the_stream_have_each_record_once(
    queries: KafkaQueries, server: KinesisServer
) -> None:
    """A hybrid source reads a whole Delta table, and then the stream from the time at which the table ends. Each row
    is read once, across restarts.
    """
    writer = StreamWriter(server)
    history, hour_ago = str(queries.folder / "history"), time.time_ns() // 1000 - 3_600_000_000
    rows = [
        {
            "partitionKey": "key",
            "data": b"h%d" % i,
            "stream": STREAM,
            "shardId": "shardId-000000000000",
            "sequenceNumber": str(i),
            ARRIVAL: hour_ago + i * 1000,
        }
        for i in range(50)
    ]
    write_deltalake(history, pa.Table.from_pylist(rows, schema_of(sub_sequence_number=False)))

    options = {**server.options, **QUICK, "streamName": STREAM, "maxRecordsPerTrigger": "15"}

    def live(switch: SourceSwitchContext) -> Source[Any, Any]:
        return KinesisSource({**options, "initialPosition": f'{{"at_timestamp": {switch.start_time_ms}}}'})

    table = FileSource({"path": history, "files.format": "delta"}, bounded=True)
    chain = HybridSource.builder(table, event_time=ARRIVAL).add_source(live).build()
    register(queries.spark, chain, "history_then_kinesis")
    writer.put(40)
    aligned = queries.aligned("1 day", event_time=ARRIVAL)
    for _ in range(3):
        stream = queries.spark.readStream.format("history_then_kinesis").options(**aligned).load()
        queries.run(stream)
        writer.put(10)
    found = Counter(row["data"] for row in queries.output().rows())
    assert found == Counter([b"h%d" % i for i in range(50)] + [b"%d" % i for i in range(60)])


def test_a_batch_read_and_a_sql_view_have_all_records(queries: KafkaQueries, server: KinesisServer) -> None:
    writer = StreamWriter(server)
    writer.put(30)
    options = {**server.options, "streamName": STREAM}
    frame = queries.spark.read.format("flip27_kinesis").options(**options).load()
    assert frame.count() == 30
    assert sorted(int(row["data"]) for row in frame.collect()) == list(range(30))
