"""Two sources of one query on a real Spark, while a batch of one of them takes long."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.support.kafka_queries import HOUR, MINUTE, T0

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

SOURCE_TIMEOUT_S, LONG_S = 4, 10


def write(folder: Path, times: list[int]) -> str:
    """Writes a file for each hour."""
    folder.mkdir()
    for hour in sorted({t // HOUR for t in times}):
        column = pa.array(np.array([t for t in times if t // HOUR == hour]), pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table({"time": column.cast(pa.timestamp("us", "UTC"))}), folder / f"{hour}.parquet")
    return str(folder)


def test_a_long_batch_of_one_source_is_no_silence_of_it(registered: SparkSession, tmp_path: Path) -> None:
    """Rule 8, I4: in an AvailableNow run a source that is held back by the other source of its query does not go on
    without it, although a batch takes longer than the source timeout.
    """
    early = write(tmp_path / "early", [T0 + m * MINUTE for m in range(120)])
    late = write(tmp_path / "late", [T0 + HOUR + m * MINUTE for m in range(60)])
    options = {
        "scan.watermark.alignment.group": "g",
        "scan.watermark.alignment.max-drift": "10 minutes",
        "scan.watermark.alignment.table": str(tmp_path / "split-watermarks"),
        "scan.watermark.alignment.source-timeout": f"{SOURCE_TIMEOUT_S} s",
        "scan.watermark.alignment.update-interval": "100 ms",
        "scan.watermark.event-time": "time",
        "maxRowsPerTrigger": "30",
    }
    reading = registered.readStream.format("flip27_files").options(**options)
    sources = [
        reading.load(path).selectExpr(f"'{name}' AS name", "unix_millis(time) AS at")
        for name, path in (("late", late), ("early", early))
    ]
    batches: list[dict[str, list[int]]] = []

    def take(batch: DataFrame, _: int) -> None:
        read: dict[str, list[int]] = {}
        for row in batch.collect():
            read.setdefault(row["name"], []).append(row["at"])
        batches.append(read)
        if sum(map(bool, batches)) == 1 and read:
            time.sleep(LONG_S)

    writer = sources[0].union(sources[1]).writeStream.foreachBatch(take)
    query = (
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(120)
    assert sum(len(times) for read in batches for times in read.values()) == 180
    reached = 0
    for read in batches:
        for at in read.get("late", []):
            assert at <= max(reached, T0) + 11 * MINUTE
        reached = max([reached, *read.get("early", [])])
