"""The count of two demos: rows by partition and window of their event time, in a Delta table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.event_time import MINUTE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WINDOW = 5 * MINUTE
DELAY = 10 * MINUTE
"""The delay of ``withWatermark``."""

Counts = Counter[tuple[int, int]]
"""The number of rows by partition and start of the window (ms)."""


def writer(resources: DemoResources, records: DataFrame, name: str) -> DataStreamWriter:
    """Returns the query. It is not started."""
    from pyspark.sql.functions import window

    windows = records.withWatermark("timestamp", f"{DELAY} milliseconds").groupBy(
        window("timestamp", f"{WINDOW} milliseconds"), "partition"
    )
    query = windows.count().writeStream.format("delta").outputMode("append")
    checkpoint = str(resources.folder / "checkpoints" / name)
    return query.option("checkpointLocation", checkpoint).option("path", _table(resources, name))


def counted(resources: DemoResources, name: str) -> Counts:
    """Returns the result of the query."""
    rows = resources.spark.read.format("delta").load(_table(resources, name))
    counts: Counts = Counter()
    for row in rows.selectExpr("partition", "unix_millis(window.start) AS start", "count").collect():
        counts[row["partition"], row["start"]] += row["count"]
    return counts


def _table(resources: DemoResources, name: str) -> str:
    return str(resources.folder / "counts" / name)


def right_counts(event_times: Sequence[NDArray[np.int64]]) -> Counts:
    """Returns the correct result for event times by partition."""
    right: Counts = Counter()
    for partition, times in enumerate(event_times):
        for start, rows in zip(*np.unique(times // WINDOW * WINDOW, return_counts=True), strict=True):
            right[partition, int(start)] = int(rows)
    return right
