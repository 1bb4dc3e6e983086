"""Parquet files that each have an hour of rows, and queries that read all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOUR = 3_600_000
START = 1_700_000_000_000 // HOUR * HOUR


def write_hour(folder: Path, hour: int, name: str, rows: int = 60) -> None:
    """Writes one file with an hour of rows, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    times = START + hour * HOUR + np.arange(rows, dtype=np.int64) * (HOUR // rows)
    columns = {
        "time": pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        "id": np.arange(hour * rows, (hour + 1) * rows),
        "name": [f"row {n}" for n in range(rows)],
    }
    pq.write_table(pa.table(columns), folder / name, row_group_size=rows // 2)


def run(
    frame: DataFrame, checkpoint: Path, each: Callable[[DataFrame, int], None] | None = None
) -> list[Any]:
    """Runs an AvailableNow query to its end, and returns the rows of all micro-batches in their order."""
    rows: list[Any] = []

    def collect(batch: DataFrame, number: int) -> None:
        rows.extend(tuple(row) for row in batch.collect())

    writer = frame.writeStream.foreachBatch(each or collect).outputMode("update")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows
