"""delta-spark reads the split-watermark table while it is written and maintained, and may write it too."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table.maintenance import ROW_RETENTION, Maintenance
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter

pytestmark = pytest.mark.jvm

READS = 5


def test_columns_have_the_documented_types(spark: SparkSession, tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 7, split_rows(7), {})
    read = spark.read.format("delta").load(table.uri)
    assert read.dtypes == [
        ("group", "string"),
        ("source", "string"),
        ("split", "string"),
        ("batch", "bigint"),
        ("start_position", "string"),
        ("end_position", "string"),
        ("rows", "bigint"),
        ("watermark", "timestamp"),
        ("max_event_time", "timestamp"),
        ("status", "string"),
        ("drift_ms", "bigint"),
        ("recorded_at", "timestamp"),
    ]
    row = read.where("split = 'clicks-1'").selectExpr("*", "unix_millis(watermark) AS ms").first()
    assert row is not None
    assert row.ms == START_MS + 7000 - 1001
    assert row.recorded_at.astimezone(timezone.utc) == datetime.fromtimestamp(
        START_MS / 1000 + 7, tz=timezone.utc
    )


def test_read_while_it_is_written_and_maintained(spark: SparkSession, tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.open()
    writer = TableWriter(
        table, "clicks/1", maintenance=Maintenance(table, round_every=20, clock=lambda: START_MS)
    )
    enough = threading.Event()

    def write() -> None:
        batch = 0
        while not enough.is_set():
            writer.submit(batch, split_rows(batch), {})
            writer.flush(10)
            batch += 1

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    try:
        for _ in range(READS):
            read = spark.read.format("delta").load(table.uri).groupBy("batch").count().collect()
            assert sorted((row.batch, row["count"]) for row in read) == [(b, 4) for b in range(len(read))]
            seen.append(len(read))
    finally:
        enough.set()
        thread.join()
        writer.close()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    left = spark.read.format("delta").load(table.uri)
    assert left.count() == table.rows().num_rows
    assert any("zstd" in file for file in left.inputFiles()), "a compacted file has been read"


def test_delta_rs_and_spark_write_one_table(spark: SparkSession, tmp_path: Path) -> None:
    """Both delta-rs and Spark write one table: a session writes where delta-rs cannot reach it, and its owner may run
    OPTIMIZE.
    """
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    spark.read.format("delta").load(table.uri).selectExpr(
        "* EXCEPT (source, recorded_at)", "'spark' AS source", "recorded_at"
    ).write.format("delta").mode("append").save(table.uri)
    spark.sql(f"OPTIMIZE delta.`{table.uri}`")
    assert table.append("clicks/1", 1, split_rows(1), {})
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert table.rows(source="spark").num_rows == 4
    assert table.rows(source="spark")["watermark"] == table.rows()["watermark"].slice(0, 4)
    assert spark.read.format("delta").load(table.uri).count() == 12


def test_rows_are_kept_for_the_retention_property_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    for batch in (0, 60):
        table.append("clicks/1", batch, split_rows(batch), {})
    spark.sql(f"ALTER TABLE delta.`{table.uri}` SET TBLPROPERTIES ('{ROW_RETENTION}' = 'interval 1 minute')")
    assert Maintenance(table, clock=lambda: START_MS + 100_000).run()
    assert set(table.rows()["batch"].to_pylist()) == {60}
