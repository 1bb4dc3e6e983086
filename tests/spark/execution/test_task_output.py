"""The record batches that a task passes to Spark."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from examples.log_folder import SCHEMA, LogFile, LogFolder
from flip27_stream.api import InputStatus, ReaderOutput, SourceReaderContext, WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.reader import IteratorSourceReader
from flip27_stream.spark.execution.task import SplitTask, TaskOutput, read_task
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


def texts(batches: list[pa.RecordBatch]) -> list[str]:
    return [text for batch in batches for text in batch.column("text").to_pylist()]


def collect(output: TaskOutput, *sizes: int) -> None:
    """Emits one record batch of one record for each of ``sizes``, the size of its text in bytes."""
    for size in sizes:
        output.create_output_for_split("a.log").collect(records(size))


def passed(output: TaskOutput, *, more: bool = False) -> list[int]:
    """Returns the numbers of rows of the record batches that are passed to Spark now."""
    return [batch.num_rows for batch in output.drain(more=more)]


def test_a_record_batch_without_rows_comes_before_a_large_first_one(output: TaskOutput) -> None:
    collect(output, 5_000_000)
    assert passed(output) == [0, 1]
    collect(output, 5_000_000)
    assert passed(output) == [1]


def test_a_small_first_record_batch_comes_alone(output: TaskOutput) -> None:
    collect(output, 100, 5_000_000)
    assert passed(output, more=True) == [1, 1]


def test_small_record_batches_wait_while_the_reader_has_more(output: TaskOutput) -> None:
    for size in (100, 150_000, 100):
        collect(output, size)
        assert passed(output, more=True) == []
    assert passed(output) == [3]
    assert passed(output) == []


def test_rows_do_not_wait_while_the_reader_waits(tmp_path: Path) -> None:
    class Waiting(IteratorSourceReader[LogFile]):
        def poll_next(self, output: ReaderOutput) -> InputStatus:
            output.create_output_for_split("a.log").collect(records(5))
            return InputStatus.NOTHING_AVAILABLE

        def is_available(self) -> Future[None]:
            raise AssertionError("the task waits")

    class Logs(LogFolder):
        def create_reader(self, context: SourceReaderContext) -> Waiting:
            return Waiting(context, self.schema, lambda *_: iter(()))

    spec = SourceSpec(Logs(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    rows = read_task(spec, SplitTask(0, 0, [PlannedRange(LogFile("a.log"), 0, 9)]))
    assert next(rows).num_rows == 1
    with pytest.raises(AssertionError, match="the task waits"):
        next(rows)


def test_small_record_batches_become_one_in_their_order(output: TaskOutput) -> None:
    sizes = [100_000, 50_000, 5_000_000, 7, 8, 300_000, 9]
    batches = []
    for size in sizes:
        collect(output, size)
        batches += list(output.drain(more=True))
    batches += list(output.drain())
    assert [batch.num_rows for batch in batches] == [2, 1, 2, 1, 1]
    assert texts(batches) == ["x" * size for size in sizes]


@pytest.mark.parametrize("at_once", [True, False])
def test_at_most_63_small_record_batches_wait(output: TaskOutput, at_once: bool) -> None:
    if at_once:
        collect(output, *[1] * 130)
        assert passed(output, more=True) == [64, 64]
    else:
        counts = []
        for _ in range(130):
            collect(output, 1)
            counts += passed(output, more=True)
        assert counts == [64, 64]
    assert passed(output) == [2]


def test_many_small_record_batches_of_one_call_become_no_large_one(output: TaskOutput) -> None:
    collect(output, *[200_000] * 40)
    assert passed(output, more=True) == [2] * 20


def test_a_reader_may_use_its_memory_again(output: TaskOutput) -> None:
    memory = bytearray(b"first")
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 5], pa.int32()).buffers()[1], pa.py_buffer(memory)]
    )
    row = records(5).set_column(3, SCHEMA.field(3), text)
    output.create_output_for_split("a.log").collect(row)
    assert passed(output, more=True) == []
    memory[:] = b"later"
    assert texts(list(output.drain())) == ["first"]


def test_only_the_memory_of_the_held_rows_is_held(output: TaskOutput) -> None:
    before = pa.total_allocated_bytes()
    for _ in range(20):
        large = pa.Table.from_batches([records(5), records(1_000_000)]).combine_chunks().to_batches()[0]
        output.create_output_for_split("a.log").collect(large.slice(0, 1))
        assert passed(output, more=True) == []
    del large
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert passed(output) == [20]


def test_small_record_batches_without_columns_keep_their_rows(tmp_path: Path) -> None:
    class WithoutColumns(LogFolder):
        schema = pa.schema([])

    spec = SourceSpec(WithoutColumns(str(tmp_path)), WatermarkStrategy(), alignment=None, driver=Driver())
    output = TaskOutput(spec, SplitTask(0, 0, [PlannedRange(LogFile("a.log"), 0, 9)]))
    for _ in range(2):
        rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
        output.create_output_for_split("a.log").collect(rows)
    assert passed(output) == [6]


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
