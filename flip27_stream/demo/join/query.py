"""The query: orders joined with their payments, written to a table in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flip27_stream.demo import event_time
from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.comparison import ComparedRun
from flip27_stream.demo.event_time import MINUTE
from flip27_stream.demo.join.shop import ORDERS, PAID_WITHIN, PAYMENTS, PLACED
from flip27_stream.demo.run import Positions, count_of_batches, positions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MAX_DRIFT = 30 * MINUTE
DELAY = 35 * MINUTE
"""The delay of ``withWatermark``, on both sides."""

_METRIC = "joined"


@dataclass(frozen=True)
class JoinBatch:
    """A micro-batch.

    Attributes:
        positions: The end positions in both topics.
        watermark: Spark's watermark in this batch (ms); ``None`` before there was one.
        joined: The number of rows in the output.
        dropped: The number of rows that Spark dropped as late.
        state_rows: The number of rows in the state store afterwards.
        state_bytes: The memory of the state store, as Spark reports it (bytes).
        milliseconds: The duration of the batch (ms).
    """

    positions: Positions
    watermark: int | None
    joined: int
    dropped: int
    state_rows: int
    state_bytes: int
    milliseconds: int


@dataclass
class JoinRun(ComparedRun[JoinBatch]):
    """The run of the query with one source on both sides.

    Attributes:
        joined: The number of rows in the result, once it has ended.
        distinct: The number of orders in the result.
    """

    joined: int = 0
    distinct: int = 0

    @property
    def dropped(self) -> int:
        return sum(batch.dropped for batch in self.batches)

    @property
    def so_far(self) -> str:
        return count_of_batches(self.batches)

    def batch(self, progress: StreamingQueryProgress) -> JoinBatch | None:
        if "addBatch" not in progress.durationMs:
            return None
        watermark = event_time.parse(progress.eventTime["watermark"])
        positions: dict[str, int] = {}
        for source in progress.sources:
            positions |= positions_of(json.loads(source.endOffset))
        (join,) = progress.stateOperators
        joined = progress.observedMetrics.get(_METRIC)
        return JoinBatch(
            positions=positions,
            watermark=watermark if watermark > 0 else None,
            joined=joined["rows"] if joined is not None else 0,
            dropped=join.numRowsDroppedByWatermark,
            state_rows=join.numRowsTotal,
            state_bytes=join.memoryUsedBytes,
            milliseconds=progress.batchDuration,
        )

    def start(self, resources: DemoResources) -> StreamingQuery:
        from pyspark.sql.functions import count, expr, lit

        orders = (
            self._topic(resources, ORDERS)
            .where(f"CAST(value AS STRING) = '{PLACED}'")
            .selectExpr("CAST(CAST(key AS STRING) AS LONG) AS placed_order", "timestamp AS placed_at")
            .withWatermark("placed_at", f"{DELAY} milliseconds")
        )
        payments = (
            self._topic(resources, PAYMENTS)
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
            .queryName(f"paid_orders_{self.format}")
            .option("checkpointLocation", str(resources.folder / "checkpoints" / self.format))
            .trigger(availableNow=True)
            .start()
        )

    def count(self, resources: DemoResources) -> None:
        from pyspark.sql.functions import count, count_distinct

        joined = resources.spark.table(f"paid_orders_{self.format}")
        result = joined.agg(count("placed_order"), count_distinct("placed_order"))
        ((self.joined, self.distinct),) = result.collect()

    def _topic(self, resources: DemoResources, topic: str) -> DataFrame:
        return self.records(resources, topic, "shop", MAX_DRIFT, source_id=topic)
