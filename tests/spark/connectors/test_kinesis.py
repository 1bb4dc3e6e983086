"""``flip27_kinesis`` on a real Spark: kill -9 at many moments, a group with Kafka, a history in Delta."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
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
from flip27_stream.testing import KinesisServer, wait_until
from flip27_stream.testing.kinesis import skip_reason
from tests.connectors.kinesis.support.kit import QUICK, numbered
from tests.spark.support.kafka_queries import PATIENCE_S, KafkaQueries, Output, arrived
from tests.spark.support.programs.killed_query import kill_python_when, logged, written

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


class Writer:
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


@pytest.mark.timeout(500)
def test_killed_at_ten_moments_with_resharding_between(queries: KafkaQueries, server: KinesisServer) -> None:
    """SX-08: planner and workers die; shards are split, merged and doubled meanwhile. Nothing is lost or doubled."""
    writer, output = Writer(server), queries.output()
    options = queries.aligned("1 hour") | {"maxRecordsPerTrigger": "25"}
    moments: list[tuple[Callable[[], Callable[[], bool]], float]] = [
        (lambda: logged(output, "offsets", 1), 0),
        (lambda: logged(output, "commits", 1), 0),
        (lambda: logged(output, "offsets", 2), 0),
        (lambda: logged(output, "offsets", 2), 0.1),
        (lambda: logged(output, "offsets", 2), 0.4),
        (lambda: logged(output, "commits", 2), 0.05),
        (lambda: written(queries.folder, "out/*.parquet", 2), 0),
        (lambda: written(queries.folder, "split_watermarks/*.parquet", 1), 0),
        (lambda: logged(output, "offsets", 3), 0.02),
        (lambda: logged(output, "commits", 2), 0),
    ]
    changes: list[Callable[[], None]] = [
        lambda: server.split(STREAM, 0),
        lambda: None,
        lambda: server.merge(STREAM, 1),
        lambda: None,
        lambda: server.split(STREAM, 1),
    ]
    for number, (moment, delay_s) in enumerate(moments):
        writer.put()
        changes[number % len(changes)]()
        writer.put(20)
        kill_python_when(queries.start(stream_of(queries, server, **options)), moment(), delay_s)
    queries.run(stream_of(queries, server, **options | {"maxRecordsPerTrigger": "300"}))
    check(output, writer.count)
    rows = queries.split_watermark_rows()
    assert all(row["rows"] >= 0 for row in rows)
    assert {row["start_position"].isdigit() for row in rows} == {True}


def test_one_group_of_kafka_and_kinesis(
    queries: KafkaQueries, server: KinesisServer, topic: Callable[..., str]
) -> None:
    """A topic and a stream are aligned with each other, in one query, by the records' times."""
    name, writer = topic(1), Writer(server)
    writer.put(120)
    now = time.time_ns() // 1_000_000
    queries.broker.write(name, [(0, now - 3_600_000 + i * 60_000, None, b"k%d" % i) for i in range(60)])
    aligned = queries.aligned("30 minutes", idle_timeout="1 s")
    kafka = queries.stream(name, aligned | {"scan.source.id": "kafka", "maxOffsetsPerTrigger": "10"})
    kinesis = stream_of(queries, server, **aligned, **{"scan.source.id": "kinesis"})
    both = kafka.selectExpr("value AS data", "timestamp AS at").unionAll(
        kinesis.selectExpr("data", "approximateArrivalTimestamp AS at")
    )
    query, output = queries.start(both), queries.output()
    try:
        wait_until(lambda: arrived(query, output, 180), "all rows of both", PATIENCE_S)
    finally:
        query.stop()
    assert Counter(row["data"] for row in output.rows()) == Counter(
        [b"%d" % i for i in range(120)] + [b"k%d" % i for i in range(60)]
    )
    rows = queries.split_watermark_rows()
    assert {row["source"] for row in rows} == {"kafka", "kinesis"}
    first = min((r for r in rows if r["source"] == "kinesis" and r["rows"]), key=lambda r: r["recorded_at"])
    read_before = [
        row["max_event_time"]
        for row in rows
        if row["source"] == "kafka" and row["rows"] and row["recorded_at"] <= first["recorded_at"]
    ]
    assert read_before, "the stream was read though the topic is an hour behind"


def test_a_history_in_delta_then_the_stream(queries: KafkaQueries, server: KinesisServer) -> None:
    """A hybrid source: all of a table, then the stream from the time at which the table ends; over restarts."""
    writer = Writer(server)
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


def test_batch_read_and_sql(queries: KafkaQueries, server: KinesisServer) -> None:
    writer = Writer(server)
    writer.put(30)
    options = {**server.options, "streamName": STREAM}
    frame = queries.spark.read.format("flip27_kinesis").options(**options).load()
    assert frame.count() == 30
    assert sorted(int(row["data"]) for row in frame.collect()) == list(range(30))
