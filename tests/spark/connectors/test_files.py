"""Queries over ``flip27_files`` on a real Spark: compared with Spark's own sources, aligned, over Delta tables, and
across restarts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import count, window

from tests.spark.connectors.support.hourly_files import run, write_hour

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

pytestmark = pytest.mark.jvm


@pytest.fixture
def shuffled(tmp_path: Path) -> Path:
    """Writes a day of hourly files, whose names and modification times are in another order than their event times."""
    folder = tmp_path / "shuffled"
    for number in range(24):
        write_hour(folder, number * 7 % 24, f"{number:02}.parquet")
    return folder


def test_parquet_is_read_as_by_spark_in_batch_and_in_parts(
    registered: SparkSession, shuffled: Path, tmp_path: Path
) -> None:
    """Parquet files have the same schema and rows as with Spark's own reader. A second run of a stream reads the
    files that came meanwhile, and no row twice.
    """
    builtin = registered.read.parquet(str(shuffled))
    batch = registered.read.format("flip27_files").load(str(shuffled))
    assert batch.schema == builtin.schema
    assert sorted(batch.collect()) == sorted(builtin.collect())
    stream = registered.readStream.format("flip27_files").option("maxRowsPerTrigger", 800)
    first = run(stream.load(str(shuffled)), tmp_path / "checkpoint")
    write_hour(shuffled, 24, "new.parquet")
    second = run(stream.load(str(shuffled)), tmp_path / "checkpoint")
    assert len(first) == 24 * 60
    assert {row[1] for row in second} == set(range(24 * 60, 25 * 60))
    assert sorted(row[1] for row in first) == list(range(24 * 60))


def counted(stream: DataFrame, checkpoint: Path) -> tuple[int, int]:
    """Returns the number of rows that hourly windows count with a delay of 90 minutes, and the greatest number of
    rows of state.
    """
    counts: dict[Any, int] = {}
    windows = stream.withWatermark("time", "90 minutes").groupBy(window("time", "1 hour")).agg(count("*"))

    def take_in(batch: DataFrame, number: int) -> None:
        counts.update({row[0]: row[1] for row in batch.collect()})

    writer = windows.writeStream.outputMode("update").foreachBatch(take_in)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    state = max(p.stateOperators[0].numRowsTotal for p in query.recentProgress if p.stateOperators)
    return sum(counts.values()), state


def test_a_shuffled_backlog_in_event_time_order_loses_nothing(
    registered: SparkSession, shuffled: Path, tmp_path: Path
) -> None:
    """I4: a shuffled backlog loses no row with a max-drift of 30 minutes and a delay of 90 minutes, where a row group
    spans 30 minutes. Spark's own source loses rows.
    """
    schema = registered.read.parquet(str(shuffled)).schema
    builtin = registered.readStream.schema(schema).option("maxFilesPerTrigger", 4).parquet(str(shuffled))
    ours = (
        registered.readStream.format("flip27_files")
        .option("maxFilesPerTrigger", 4)
        .option("scan.watermark.alignment.group", "history")
        .option("scan.watermark.alignment.max-drift", "30 minutes")
        .option("scan.watermark.alignment.table", str(tmp_path / "watermarks"))
        .option("scan.watermark.event-time", "time")
        .load(str(shuffled))
    )
    lost, _ = counted(builtin, tmp_path / "builtin")
    kept, state = counted(ours, tmp_path / "ours")
    assert lost < 24 * 60
    assert kept == 24 * 60
    assert state <= 8


def test_a_delta_table_is_followed(registered: SparkSession, shuffled: Path, tmp_path: Path) -> None:
    """A stream reads the snapshot of a Delta table with a partition column, and then the rows that Spark appends to
    it.
    """
    table = tmp_path / "table"
    rows = registered.read.parquet(str(shuffled)).selectExpr("*", "id % 3 as part")
    rows.where("id < 1000").write.format("delta").partitionBy("part").save(str(table))
    stream = registered.readStream.format("flip27_files").option("files.format", "delta").load(str(table))
    first = run(stream, tmp_path / "checkpoint")
    rows.where("id >= 1000").write.format("delta").mode("append").save(str(table))
    second = run(stream, tmp_path / "checkpoint")
    assert stream.schema == registered.read.format("delta").load(str(table)).schema
    expected = [tuple(row) for row in rows.collect()]
    assert sorted(first) == sorted(row for row in expected if row[1] < 1000)
    assert sorted(second) == sorted(row for row in expected if row[1] >= 1000)


def test_a_query_follows_changed_columns_of_a_delta_table(registered: SparkSession, tmp_path: Path) -> None:
    """When a column is added to a Delta table, a query of an older DataFrame fails, whether it runs or is started
    later. A newer DataFrame reads the column. A DataFrame with a schema of the user is not affected.
    """
    table = str(tmp_path / "table")
    registered.range(10).write.format("delta").save(table)

    def stream() -> DataStreamReader:
        return registered.readStream.format("flip27_files").option("files.format", "delta")

    before, named = stream().load(table), stream().schema("id long").load(table)
    running = (
        before.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )
    try:
        running.processAllAvailable()
        wider = registered.range(10, 20).selectExpr("id", "cast(id as string) as name").write.format("delta")
        wider.option("mergeSchema", "true").mode("append").save(table)
        with pytest.raises(StreamingQueryException, match=r"SchemaChangedError.*column 'name'"):
            running.awaitTermination(120)
    finally:
        running.stop()
    with pytest.raises(StreamingQueryException, match=r"SchemaChangedError.*load\(\)"):
        run(before, tmp_path / "checkpoint")
    assert sorted(run(stream().load(table), tmp_path / "checkpoint")) == [(n, str(n)) for n in range(10, 20)]
    assert sorted(run(named, tmp_path / "named")) == [(n,) for n in range(20)]


def test_deletion_vectors_and_renamed_columns_are_applied(registered: SparkSession, tmp_path: Path) -> None:
    """A Delta table with deletion vectors and a renamed column is read in batch, and as a stream across a restart.
    Splits bring the column names of the data files to the tasks.
    """
    table = str(tmp_path / "table")
    rows = registered.range(10).coalesce(1).write.format("delta")
    rows.option("delta.enableDeletionVectors", "true").option("delta.columnMapping.mode", "name").save(table)
    reader = registered.read.format("flip27_files").option("files.format", "delta")
    stream = registered.readStream.format("flip27_files").option("files.format", "delta")
    left = [(n,) for n in range(10) if n != 3]
    registered.sql(f"DELETE FROM delta.`{table}` WHERE id = 3")
    registered.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN id TO number")
    assert sorted(tuple(row) for row in reader.load(table).collect()) == left
    frame = stream.option("maxRowsPerTrigger", 4).load(table)
    assert frame.columns == ["number"]
    assert sorted(run(frame, tmp_path / "checkpoint")) == left
    registered.sql(f"INSERT INTO delta.`{table}` VALUES 10")
    assert run(frame, tmp_path / "checkpoint") == [(10,)]


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_other_formats_are_read_as_by_spark(registered: SparkSession, tmp_path: Path, format_: str) -> None:
    rows = registered.range(5000).selectExpr("id", "cast(id as string) as name", "id / 2 as half")
    folder = str(tmp_path / format_)
    rows.repartition(3).write.format(format_).save(folder)
    builtin = registered.read.format(format_).schema(rows.schema).load(folder)
    ours = registered.readStream.format("flip27_files").option("files.format", format_).schema(rows.schema)
    read = run(ours.option("maxBytesPerTrigger", "64k").load(folder), tmp_path / "checkpoint")
    assert sorted(read) == sorted(tuple(row) for row in builtin.collect())


def test_wrong_options_fail_at_load(registered: SparkSession, tmp_path: Path) -> None:
    reader = registered.readStream.format("flip27_files").option("maxFilesPerTriger", "5")
    with pytest.raises(AnalysisException, match="Did you mean 'maxFilesPerTrigger'"):
        reader.load(str(tmp_path))
    with pytest.raises(AnalysisException, match=r"No file from which to take the columns is in"):
        registered.readStream.format("flip27_files").load(str(tmp_path))
