"""A windowed count as users write it, run to the end, and what it counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.functions import col, count, window

from tests.spark.support.kafka_queries import AVAILABLE_NOW, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Counted:
    """Rows counted by window and partition, and how many micro-batches it took."""

    rows: dict[tuple[datetime, int], int] = field(default_factory=dict)
    batches: int = 0

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    def take_in(self, batch: DataFrame, number: int) -> None:
        """Update mode: a later count of a window replaces the one before."""
        self.rows.update({(row["start"], row["partition"]): row["rows"] for row in batch.collect()})
        self.batches = number + 1


def count_windows(stream: DataFrame, delay_ms: int, checkpoint: Path, window_ms: int = 1000) -> Counted:
    """Count rows in short windows of ``timestamp``, with a watermark of ``delay_ms``.

    The sum of counts is short by the input rows that were dropped as late, which Spark's own metric is not.
    """
    counted = Counted()
    counts = (
        stream.withWatermark("timestamp", f"{delay_ms} milliseconds")
        .groupBy(window("timestamp", f"{window_ms} milliseconds"), "partition")
        .agg(count("*").alias("rows"))
        .select(col("window.start").alias("start"), "partition", "rows")
    )
    writer = counts.writeStream.outputMode("update").foreachBatch(counted.take_in)
    finish(writer.option("checkpointLocation", str(checkpoint)).trigger(**AVAILABLE_NOW).start())
    return counted
