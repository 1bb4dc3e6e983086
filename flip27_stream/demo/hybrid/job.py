"""The job: one hybrid source, counted in windows, into a Delta table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import flip27_stream
from flip27_stream import FileSource, HybridSource, KafkaSource
from flip27_stream.connectors.hybrid import SourceSwitchContext
from flip27_stream.demo.backlog import DELAY, MINUTE, WINDOW
from flip27_stream.demo.hybrid.clicks import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MAX_DRIFT = 5 * MINUTE
FORMAT = "clicks"


def clicks_source(table: str, bootstrap_servers: str, topic: str, rows_per_batch: int) -> HybridSource:
    """The table, then the topic from the first event time that the table has not."""

    def live(switch: SourceSwitchContext) -> KafkaSource:
        return KafkaSource(
            {
                "kafka.bootstrap.servers": bootstrap_servers,
                "subscribe": topic,
                "startingTimestamp": str(switch.start_time_ms),
                "startingOffsetsByTimestampStrategy": "latest",
                "maxOffsetsPerTrigger": str(rows_per_batch),
            }
        )

    def as_in_the_table(records: pa.RecordBatch) -> pa.RecordBatch:
        return records.select(COLUMNS.names)

    history = FileSource({"path": table, "files.format": "delta"}, bounded=True)
    return HybridSource.builder(history).add_source(live, converter=as_in_the_table).build()


@dataclass(frozen=True)
class Batch:
    """A micro-batch that read rows.

    Attributes:
        index: the source it read: 0 is the table, 1 the topic.
        rows: how many.
        least: their least event time (ms).
        greatest: their greatest event time (ms).
        watermark: Spark's, when it ran (ms).
        positions: in the topic, after it, by partition; empty for a batch of the table.
        seam: what the offset says of where the table ends (ms).
    """

    index: int
    rows: int
    least: int
    greatest: int
    watermark: int
    positions: dict[int, int]
    seam: int | None


@dataclass(frozen=True)
class ClicksPerWindow:
    """The job's parameters; ``directory`` is where its tables and its checkpoint go."""

    source: HybridSource
    directory: Path

    def start(self, spark: SparkSession) -> StreamingQuery:
        from pyspark.sql.functions import window

        spark.dataSource.register(flip27_stream.data_source(self.source, FORMAT))
        options = {
            "scan.watermark.alignment.group": "demo",
            "scan.watermark.alignment.max-drift": f"{MAX_DRIFT} ms",
            "scan.watermark.alignment.table": str(self.directory / "split_watermarks"),
        }
        counts = (
            spark.readStream.format(FORMAT)
            .options(**options)
            .load()
            .withWatermark("timestamp", f"{DELAY} milliseconds")
            .groupBy(window("timestamp", f"{WINDOW} milliseconds"), "partition")
            .count()
        )
        return (
            counts.writeStream.format("delta")
            .outputMode("append")
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .start(self._result)
        )

    def counts(self, spark: SparkSession) -> Counter[tuple[int, int]]:
        """What the query counted: rows by partition and start of the window (ms)."""
        rows = spark.read.format("delta").load(self._result)
        counted: Counter[tuple[int, int]] = Counter()
        for row in rows.selectExpr("partition", "unix_millis(window.start) AS start", "count").collect():
            counted[row["partition"], row["start"]] += row["count"]
        return counted

    @property
    def _result(self) -> str:
        return str(self.directory / "counts")


def batches(query: StreamingQuery) -> list[Batch]:
    """What the query has done so far."""
    return [_batch(progress) for progress in query.recentProgress if progress.numInputRows]


def _batch(progress: StreamingQueryProgress) -> Batch:
    offset = json.loads(progress.sources[0].endOffset)
    state, splits = offset["enumerator"][1], offset["splits"]
    times = {name: _ms(text) for name, text in progress.eventTime.items()}
    return Batch(
        index=state["index"],
        rows=progress.numInputRows,
        least=times["min"],
        greatest=times["max"],
        watermark=times["watermark"],
        positions={int(s.rpartition("-")[2]): entry[0] for s, entry in splits.items() if s.startswith("1:")},
        seam=state.get("end"),
    )


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
