"""Queries over ``flip27_pulsar`` on a real Spark and a real server: killed processes, a group with Kafka, and a
history in Delta.
"""

from __future__ import annotations

import itertools
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
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.records.columns import PUBLISH_TIME, SCHEMA
from flip27_stream.spark.data_source import register
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.pulsar import skip_reason
from tests.connectors.pulsar.support.kit import QUICK, numbers
from tests.spark.support.group_with_kafka import check_group_with_kafka
from tests.spark.support.kafka_queries import KafkaQueries
from tests.spark.support.killed_connector import kill_at_nine_moments

pytestmark = pytest.mark.jvm

PARTITIONS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[PulsarServer]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with PulsarServer() as running:
        yield running


class TopicWriter:
    """Writes numbered messages to all partitions of a topic of its own, in single entries and in batches."""

    _numbers = itertools.count(1)

    def __init__(self, server: PulsarServer) -> None:
        self._server, self.topic, self.count = server, f"clicks-{next(self._numbers)}", 0
        server.create_topic(self.topic, PARTITIONS)

    def put(self, count: int = 20) -> None:
        """Writes a number of messages to each partition."""
        for number in range(PARTITIONS):
            batch = 1 if number else 4
            self._server.put(f"{self.topic}-partition-{number}", numbers(self.count, count), batch=batch)
            self.count += count


def options_of(server: PulsarServer, topic: str, **more: str) -> dict[str, str]:
    return {**server.options, **QUICK, "topic": topic, **more}


def stream_of(queries: KafkaQueries, options: Mapping[str, str]) -> DataFrame:
    return queries.spark.readStream.format("flip27_pulsar").options(**options).load()


def test_nine_kills_with_unloads_between_lose_no_message(queries: KafkaQueries, server: PulsarServer) -> None:
    """SX-08: a query that is killed at nine moments loses and doubles nothing. Partitions move to new ledgers between
    the kills.
    """
    writer, output = TopicWriter(server), queries.output()
    options = options_of(server, writer.topic, **queries.aligned("1 hour"))

    def before(number: int) -> None:
        writer.put()
        server.unload(f"{writer.topic}-partition-{number % PARTITIONS}")
        writer.put(8)

    kill_at_nine_moments(queries, server, "flip27_pulsar", options | {"maxRecordsPerTrigger": "25"}, before)
    queries.run(stream_of(queries, options | {"maxRecordsPerTrigger": "300"}))
    assert Counter(row["value"] for row in output.rows()) == Counter(numbers(0, writer.count))
    assert all(after["batch"] == before["batch"] + 1 for before, after in pairwise(output.offsets()))


def test_kafka_and_pulsar_are_aligned_in_one_group(
    queries: KafkaQueries, server: PulsarServer, topic: Callable[..., str]
) -> None:
    """PU-09: a Pulsar topic of one partition is paused while a Kafka topic of its group is behind, and is read
    afterwards.
    """
    server.create_topic("single", 1)
    values = numbers(0, 120)
    server.put("single-partition-0", values, batch=7)

    def stream(options: Mapping[str, str]) -> DataFrame:
        found = stream_of(queries, options_of(server, "single", **options))
        return found.selectExpr("value AS data", "__publishTime AS at")

    check_group_with_kafka(queries, topic(1), "pulsar", stream, values)


def test_a_delta_table_and_then_the_topic_have_each_message_once(
    queries: KafkaQueries, server: PulsarServer
) -> None:
    """A hybrid source reads a whole Delta table, and then the topic from the time at which the table ends. Each row
    is read once, across restarts.
    """
    writer = TopicWriter(server)
    history, hour_ago = str(queries.folder / "history"), time.time_ns() // 1000 - 3_600_000_000
    rows: list[dict[str, Any]] = [
        {"value": b"h%d" % i, "__topic": writer.topic, PUBLISH_TIME: hour_ago + i * 1000} for i in range(50)
    ]
    write_deltalake(history, pa.Table.from_pylist(rows, SCHEMA))
    options = options_of(server, writer.topic, maxRecordsPerTrigger="15")
    del options["startingOffsets"]

    def live(switch: SourceSwitchContext) -> Source[Any, Any]:
        return PulsarSource({**options, "startingTime": str(switch.start_time_ms)})

    table = FileSource({"path": history, "files.format": "delta"}, bounded=True)
    chain = HybridSource.builder(table, event_time=PUBLISH_TIME).add_source(live).build()
    register(queries.spark, chain, "history_then_pulsar")
    writer.put(10)
    aligned = queries.aligned("1 day", event_time=PUBLISH_TIME)
    for _ in range(2):
        stream = queries.spark.readStream.format("history_then_pulsar").options(**aligned).load()
        queries.run(stream)
        writer.put(4)
    queries.run(queries.spark.readStream.format("history_then_pulsar").options(**aligned).load())
    found = Counter(row["value"] for row in queries.output().rows())
    assert found == Counter([*(b"h%d" % i for i in range(50)), *numbers(0, writer.count)])


def test_a_batch_read_has_all_messages(queries: KafkaQueries, server: PulsarServer) -> None:
    writer = TopicWriter(server)
    writer.put(10)
    options = {**server.options, "topic": writer.topic}
    frame = queries.spark.read.format("flip27_pulsar").options(**options).load()
    assert Counter(row["value"] for row in frame.collect()) == Counter(numbers(0, writer.count))
