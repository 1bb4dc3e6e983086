"""The record batches that a task passes to Spark."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from examples.log_folder import SCHEMA, LogFile, LogFolder
from flip27_stream.api import WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.spark.execution.task import SplitTask, TaskOutput
from flip27_stream.spark.source_spec import Driver, SourceSpec


@pytest.fixture
def output(tmp_path: Path) -> TaskOutput:
    source = LogFolder(str(tmp_path))
    spec = SourceSpec(source, WatermarkStrategy(), alignment=None, driver=Driver())
    return TaskOutput(spec, SplitTask(0, 0, [PlannedRange(LogFile("a.log"), 0, 9)]))


def records(size: int) -> pa.RecordBatch:
    """Returns a record batch of one record, whose text has ``size`` bytes."""
    columns = [
        pa.array([value]).cast(field.type)
        for field, value in zip(SCHEMA, ("a", 1, 1, "x" * size), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def collected(output: TaskOutput, size: int) -> list[int]:
    """Returns the numbers of rows of the record batches that one record of ``size`` bytes makes."""
    output.create_output_for_split("a.log").collect(records(size))
    return [batch.num_rows for batch in output.drain()]


def test_a_record_batch_without_rows_comes_before_a_large_first_one(output: TaskOutput) -> None:
    assert collected(output, 5_000_000) == [0, 1]
    assert collected(output, 5_000_000) == [1]


def test_a_small_record_batch_waits_for_more_or_for_the_end(output: TaskOutput) -> None:
    assert collected(output, 100) == []
    assert collected(output, 100) == []
    assert [batch.num_rows for batch in output.drain(is_end=True)] == [2]
    assert list(output.drain(is_end=True)) == []


def test_a_slice_of_a_large_record_batch_does_not_wait(output: TaskOutput) -> None:
    """It keeps the buffers of all rows in memory."""
    rows = pa.Table.from_batches([records(5), records(1_000_000)]).combine_chunks().to_batches()[0]
    output.create_output_for_split("a.log").collect(rows.slice(0, 1))
    assert [batch.num_rows for batch in output.drain()] == [1]


def test_at_most_63_small_record_batches_wait(output: TaskOutput) -> None:
    passed = [rows for _ in range(130) for rows in collected(output, 1)]
    assert passed == [64, 64]
    assert [batch.num_rows for batch in output.drain(is_end=True)] == [2]


def test_small_record_batches_become_one_in_their_order(output: TaskOutput) -> None:
    sizes = [100_000, 50_000, 5_000_000, 7, 8, 300_000, 9]
    passed = []
    for size in sizes:
        output.create_output_for_split("a.log").collect(records(size))
        passed += list(output.drain())
    passed += list(output.drain(is_end=True))
    assert [batch.num_rows for batch in passed] == [2, 1, 2, 1, 1]
    texts = pa.Table.from_batches(passed).column(3).to_pylist()
    assert [len(text) for text in texts] == sizes


def test_small_record_batches_without_columns_keep_their_rows(tmp_path: Path) -> None:
    class WithoutColumns(LogFolder):
        schema = pa.schema([])

    spec = SourceSpec(WithoutColumns(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    output = TaskOutput(spec, SplitTask(0, 0, [PlannedRange(LogFile("a.log"), 0, 9)]))
    for _ in range(2):
        rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
        output.create_output_for_split("a.log").collect(rows)
    assert [batch.num_rows for batch in output.drain(is_end=True)] == [6]


def test_spark_keeps_the_first_record_batch_only() -> None:
    """Fact 35: Spark keeps the first record batch of a task until the task ends, so it should not be a large one."""
    kept: list[weakref.ref[Any]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            made = records(100)
            kept.append(weakref.ref(made))
            yield made
            del made

    source: Any = None
    for number, _ in enumerate(records_to_arrow_batches(batches(), 1, from_arrow_schema(SCHEMA), source)):
        alive = [index for index, batch in enumerate(kept) if batch() is not None]
        assert alive == sorted({0, number})
