"""The job: orders joined with their payments, into a table in memory. The same for both sources."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flip27_stream.demo.backlog import MINUTE
from flip27_stream.demo.job import ALIGNED
from flip27_stream.demo.join.shop import ORDERS, PAID_WITHIN, PAYMENTS, PLACED, Positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MAX_DRIFT = 30 * MINUTE
DELAY = 35 * MINUTE
"""The delay of ``withWatermark``, on both sides."""

_POLL_S = 0.2
_METRIC = "joined"


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        positions: where it ended, in both topics.
        watermark: Spark's, when it ran (ms); ``None`` before there was one.
        joined: rows that came out.
        dropped: rows that Spark dropped as late.
        state_rows: rows in the state store afterwards.
        state_bytes: memory of the state store, as Spark says.
        milliseconds: how long it took.
    """

    positions: Positions
    watermark: int | None
    joined: int
    dropped: int
    state_rows: int
    state_bytes: int
    milliseconds: int


@dataclass
class Run:
    """One source's run of the job, as far as it has come.

    Attributes:
        format: the source, on both sides.
        joined: rows in the result, once it has ended.
        distinct: how many orders they are of.
    """

    format: str
    batches: Sequence[Batch] = ()
    started: float | None = None
    seconds: float = 0.0
    finished: bool = False
    joined: int = 0
    distinct: int = 0

    @property
    def dropped(self) -> int:
        return sum(batch.dropped for batch in self.batches)

    @property
    def peak_state_rows(self) -> int:
        return max((batch.state_rows for batch in self.batches), default=0)

    @property
    def peak_state_bytes(self) -> int:
        return max((batch.state_bytes for batch in self.batches), default=0)

    def follow(self, query: StreamingQuery) -> bool:
        """Take in what the query has done since; true once it has ended.

        Raises:
            StreamingQueryException: it failed.
        """
        self.started = self.started or time.monotonic()
        time.sleep(_POLL_S)
        self.finished = not query.isActive
        if self.finished:
            query.awaitTermination()
        self.seconds = time.monotonic() - self.started
        self.batches = [_batch(p) for p in query.recentProgress if "addBatch" in p.durationMs]
        return self.finished


@dataclass(frozen=True)
class PaidOrders:
    """The job's parameters; ``directory`` is where its checkpoints and the split-watermark table go."""

    bootstrap_servers: str
    rows_per_batch: int
    directory: Path

    def start(self, spark: SparkSession, source: str) -> StreamingQuery:
        """Start the query with one of the two sources on both sides; it ends when all has been read."""
        from pyspark.sql.functions import count, expr, lit

        orders = (
            self._records(spark, source, ORDERS)
            .where(f"CAST(value AS STRING) = '{PLACED}'")
            .selectExpr("CAST(CAST(key AS STRING) AS LONG) AS placed_order", "timestamp AS placed_at")
            .withWatermark("placed_at", f"{DELAY} milliseconds")
        )
        payments = (
            self._records(spark, source, PAYMENTS)
            .selectExpr("CAST(CAST(key AS STRING) AS LONG) AS paid_order", "timestamp AS paid_at")
            .withWatermark("paid_at", f"{DELAY} milliseconds")
        )
        belong_together = expr(
            "placed_order = paid_order AND "
            f"paid_at BETWEEN placed_at AND placed_at + INTERVAL {PAID_WITHIN // MINUTE} MINUTES"
        )
        return (
            orders.join(payments, belong_together)
            .observe(_METRIC, count(lit(1)).alias("rows"))
            .writeStream.format("memory")
            .queryName(f"paid_orders_{source}")
            .option("checkpointLocation", str(self.directory / "checkpoints" / source))
            .trigger(availableNow=True)
            .start()
        )

    def count(self, spark: SparkSession, run: Run) -> None:
        """Count what the query of ``run`` joined."""
        from pyspark.sql.functions import count, count_distinct

        joined = spark.table(f"paid_orders_{run.format}")
        ((run.joined, run.distinct),) = joined.agg(
            count("placed_order"), count_distinct("placed_order")
        ).collect()

    def _records(self, spark: SparkSession, source: str, topic: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.rows_per_batch),
        }
        if source == ALIGNED:
            options |= {
                "scan.watermark.alignment.group": "shop",
                "scan.watermark.alignment.max-drift": f"{MAX_DRIFT} ms",
                "scan.watermark.alignment.table": str(self.directory / "split_watermarks"),
                "scan.source.id": topic,
            }
        return spark.readStream.format(source).options(**options).load()


def _batch(progress: StreamingQueryProgress) -> Batch:
    watermark = datetime.fromisoformat(progress.eventTime["watermark"].replace("Z", "+00:00"))
    milliseconds = int(watermark.timestamp() * 1000)
    positions: dict[str, int] = {}
    for source in progress.sources:
        positions |= positions_of(json.loads(source.endOffset))
    (join,) = progress.stateOperators
    joined = progress.observedMetrics.get(_METRIC)
    return Batch(
        positions=positions,
        watermark=milliseconds if milliseconds > 0 else None,
        joined=joined["rows"] if joined is not None else 0,
        dropped=join.numRowsDroppedByWatermark,
        state_rows=join.numRowsTotal,
        state_bytes=join.memoryUsedBytes,
        milliseconds=progress.batchDuration,
    )


def positions_of(offset: dict[str, Any]) -> dict[str, int]:
    """From the offset of either source: ``{topic: {partition: position}}``, or an offset document of ours."""
    if "splits" in offset:
        return {split: state[0] for split, state in offset["splits"].items()}
    return {f"{topic}-{p}": position for topic, by_p in offset.items() for p, position in by_p.items()}
