"""A windowed count as users write it. It runs to its end and returns its result."""

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
class WindowedCounts:
    """The number of rows by window and partition, and the number of micro-batches."""

    rows: dict[tuple[datetime, int], int] = field(default_factory=dict)
    batches: int = 0

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    def take_in(self, batch: DataFrame, number: int) -> None:
        """Adds a batch in update mode, where a later count of a window replaces the one before."""
        self.rows.update({(row["start"], row["partition"]): row["rows"] for row in batch.collect()})
        self.batches = number + 1


def count_windows(
    stream: DataFrame, delay_ms: int, checkpoint: Path, window_ms: int = 1000
) -> WindowedCounts:
    """Counts rows in short windows of ``timestamp``, with a watermark of ``delay_ms``.

    The sum of the counts lacks exactly the input rows that were dropped as late. Spark's own metric does not count
    those.
    """
    counted = WindowedCounts()
    counts = (
        stream.withWatermark("timestamp", f"{delay_ms} milliseconds")
        .groupBy(window("timestamp", f"{window_ms} milliseconds"), "partition")
        .agg(count("*").alias("rows"))
        .select(col("window.start").alias("start"), "partition", "rows")
    )
    writer = counts.writeStream.outputMode("update").foreachBatch(counted.take_in)
    finish(writer.option("checkpointLocation", str(checkpoint)).trigger(**AVAILABLE_NOW).start())
    return counted
