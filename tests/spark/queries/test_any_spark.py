"""What every supported pair of Spark and Python must do. The queries write Parquet, since Delta is not available for
every Spark.

``make compat`` runs these tests with the facts and with Spark Connect: see ``tests/compat``.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flip27_stream.testing import KafkaBroker, wait_until
from tests.spark.support.kafka_queries import HOUR, MINUTE, T0, KafkaQueries, finish, records
from tests.spark.support.processes import planners

pytestmark = pytest.mark.jvm

TIME_LIMIT_S = 180.0
PARTITIONS = 3
TROUBLESHOOTING = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
WITHOUT_PLANNER = ("terminated with exception:  SQLSTATE", "Broken pipe", "Connection reset")
"""What Spark says when a planning process was killed. The first has no reason in it."""
RECORDS = 60
"""The number of records that are written to each partition at a time."""


class ParquetSink:
    """A folder of Parquet files that queries write one after the other, from one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def start(self, stream: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = stream.writeStream.format("parquet").option(
            "checkpointLocation", f"{self._folder}-checkpoint"
        )
        return writer.trigger(**trigger).start(str(self._folder))

    def finish(self, stream: DataFrame) -> None:
        finish(self.start(stream, availableNow=True))

    def counts(self, *columns: str) -> Counter[tuple[Any, ...]]:
        """Returns how often each combination of values occurs. Files of failed batches do not count."""
        if not (self._folder / "_spark_metadata").is_dir():
            return Counter()
        rows = self._spark.read.schema("partition int, offset long, id long").parquet(str(self._folder))
        return Counter(tuple(row) for row in rows.select(*columns).collect())


@pytest.fixture
def sink(registered: SparkSession, tmp_path: Path) -> ParquetSink:
    return ParquetSink(registered, tmp_path / "sink")


def write(broker: KafkaBroker, topic: str, hours: int = 0) -> None:
    """Writes records of an hour to each partition. Each partition is an hour ahead of the one before."""
    for p in range(PARTITIONS):
        first = T0 + (hours + p) * HOUR
        broker.write(topic, records(p, [first + n * MINUTE for n in range(RECORDS)]))


def exactly(rounds: int) -> Counter[tuple[Any, ...]]:
    return Counter((p, n) for p in range(PARTITIONS) for n in range(rounds * RECORDS))


def test_a_batch_read_of_kafka(queries: KafkaQueries, topic: Callable[..., str]) -> None:
    name = topic(partitions=PARTITIONS)
    write(queries.broker, name)

    rows = queries.batch(name).select("partition", "offset").collect()

    assert Counter(tuple(row) for row in rows) == exactly(1)


def test_available_now_goes_on_where_it_was(
    queries: KafkaQueries, topic: Callable[..., str], sink: ParquetSink
) -> None:
    name = topic(partitions=PARTITIONS)
    for rounds in (1, 2):
        write(queries.broker, name, hours=rounds)
        sink.finish(queries.stream(name, {"maxOffsetsPerTrigger": "100"}))
        assert sink.counts("partition", "offset") == exactly(rounds)


def test_a_killed_planner_neither_loses_nor_doubles(
    queries: KafkaQueries, topic: Callable[..., str], sink: ParquetSink
) -> None:
    name = topic(partitions=PARTITIONS)
    write(queries.broker, name)
    query = sink.start(queries.stream(name, {"maxOffsetsPerTrigger": "50"}), processingTime="0 seconds")
    try:
        wait_until(lambda: bool(sink.counts("partition")), "the first rows", TIME_LIMIT_S)
        for pid in planners():
            os.kill(pid, signal.SIGKILL)
        write(queries.broker, name, hours=1)
        wait_until(lambda: not query.isActive, "the query to fail without its planner", TIME_LIMIT_S)
        said, page = str(query.exception()), TROUBLESHOOTING.read_text()
        assert [words for words in WITHOUT_PLANNER if words in said and words in page], said
    finally:
        query.stop()

    sink.finish(queries.stream(name))

    assert sink.counts("partition", "offset") == exactly(2)


def test_alignment_keeps_partitions_together(
    queries: KafkaQueries, topic: Callable[..., str], sink: ParquetSink
) -> None:
    """I3: partitions that begin hours apart are read one after the other. At the end of each batch the drift is
    within max-drift.
    """
    name = topic(partitions=PARTITIONS)
    write(queries.broker, name)

    sink.finish(queries.stream(name, {**queries.aligned("10 minutes"), "maxOffsetsPerTrigger": "40"}))

    assert sink.counts("partition", "offset") == exactly(1)
    rows = queries.split_watermark_rows()
    assert sum(row["rows"] for row in rows) == PARTITIONS * RECORDS
    read = [row["split"] for row in sorted(rows, key=lambda row: row["batch"]) if row["rows"]]
    first = [read.index(f"{name}-{p}") for p in range(PARTITIONS)]
    assert first == sorted(first)
    drifts = [row["drift_ms"] for row in rows if row["drift_ms"] is not None]
    assert drifts
    assert max(drifts) <= 10 * MINUTE


def test_files_are_read_once(registered: SparkSession, tmp_path: Path, sink: ParquetSink) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for number in range(4):
        ids = pa.array(range(number * RECORDS, (number + 1) * RECORDS), pa.int64())
        pq.write_table(pa.table({"id": ids}), landing / f"{number}.parquet")
        if number % 2:
            reader = registered.readStream.format("flip27_files").option("maxFilesPerTrigger", "1")
            sink.finish(reader.load(str(landing)))
            assert sink.counts("id") == Counter((n,) for n in range((number + 1) * RECORDS))
