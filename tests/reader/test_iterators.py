"""Readers that are made from one function of the user."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.errors import ConnectorError, ContractError, DataLossError, RecordFormatError
from flip27_stream.reader import (
    ArrowRecordEmitter,
    IteratorSourceReader,
    IteratorSplitReader,
    Record,
    Records,
    SplitProgress,
    SplitsAddition,
    SplitsRemoval,
)
from flip27_stream.reader.iterators import Read
from flip27_stream.testing.task_rows import TaskRows
from tests.reader.support.kit import SCHEMA, TIME_LIMIT_S, Numbers, ReaderContext, read_all, splits, values_of


def read(function: Read[Numbers], *ranges: tuple[int, int], schema: pa.Schema = SCHEMA) -> TaskRows:
    return read_all(IteratorSourceReader(ReaderContext(), schema, function), splits(*ranges))


def test_plain_rows_become_record_batches() -> None:
    def rows(split: Numbers) -> Iterator[Any]:
        yield {"value": 1}
        yield (2,)
        yield [3]
        yield {}

    output = read(rows, (0, 4))
    assert output.column("value") == [1, 2, 3, None]
    assert [batch.records.schema for batch in output.batches] == [SCHEMA]


def test_record_batches_are_passed_unchanged() -> None:
    """A function may return rows, record batches and ``Records`` in turn. They keep their order, and record batches
    pass unchanged.
    """
    columns = pa.RecordBatch.from_pydict({"value": [5, 6]}, schema=SCHEMA)

    def mixed(split: Numbers) -> Iterator[Any]:
        yield (4,)
        yield columns
        yield Records([(7,), (8,)], timestamps=[70, None])

    output = read(mixed, (0, 9))
    assert output.column("value") == [4, 5, 6, 7, 8]
    assert output.timestamps == [70, None]
    assert any(batch.records is columns for batch in output.batches)


def test_with_positions_the_range_is_kept_for_the_author() -> None:
    """If a function returns positions, only the records in the range are emitted. The function may begin before the
    range and never end; it is closed.
    """
    closed = threading.Event()

    def for_ever(split: Numbers) -> Iterator[Record]:
        position = 0
        try:
            while True:
                yield Record((position,), position, timestamp=1000 + position)
                position += 1
        finally:
            closed.set()

    output = read(for_ever, (3, 7))
    assert output.column("value") == output.positions == [3, 4, 5, 6]
    assert output.timestamps == [1003, 1004, 1005, 1006]
    assert closed.is_set()


def test_record_batches_of_plain_rows_are_bounded() -> None:
    output = read(lambda split: ((i,) for i in range(25_000)), (0, 25_000))
    assert output.column("value") == list(range(25_000))
    assert max(batch.records.num_rows for batch in output.batches) == 10_000


def test_a_long_list_of_rows_is_cut_into_batches() -> None:
    output = TaskRows(SCHEMA)
    emitter = ArrowRecordEmitter(SCHEMA, max_rows=4)
    rows = Records([(i,) for i in range(10)], positions=range(10))
    (split,) = splits((0, 10))
    emitter.emit_records(rows, output.create_output_for_split("s0"), SplitProgress(split))
    assert [batch.records.num_rows for batch in output.batches] == [4, 4, 2]
    assert output.positions == list(range(10))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"value": "seven"}, "column value: .*seven"),
        ({"valeu": 7}, "there is no column valeu"),
        ((7, 8), "it has 2 values for 1 columns"),
        ("7", "it is of type str, not a mapping, tuple or list"),
        ({"value": 2**64}, "column value"),
        ({"value": None}, "column value is null, but must not be"),
    ],
)
def test_a_row_that_does_not_fit_is_named(row: Any, why: str) -> None:
    """The error of a row that does not fit the schema names the split, the number of the row and, if the row has one,
    its position.
    """
    schema = pa.schema([pa.field("value", pa.int64(), nullable=False)])
    rows = [(0,), (1,), row, (3,)]
    with pytest.raises(
        RecordFormatError, match=rf"Row 2 of split s0 does not fit the source's schema: {why}"
    ):
        read(lambda split: rows, (0, 4), schema=schema)
    at = [Record(row, 10 + i) for i, row in enumerate(rows)]
    with pytest.raises(RecordFormatError, match=rf"Row 2 \(position 12\) of split s0 does not fit .*{why}"):
        read(lambda split: at, (10, 14), schema=schema)


def test_rows_are_counted_across_batches() -> None:
    rows = [(i,) for i in range(10_004)] + [("bad",)]
    with pytest.raises(RecordFormatError, match="Row 10004 of split s0"):
        read(lambda split: rows, (0, 20_000))


def test_an_error_of_the_function_names_the_split() -> None:
    def fails(split: Numbers) -> Iterator[tuple[int]]:
        yield (1,)
        raise OSError("no such file")

    with pytest.raises(ConnectorError, match="Reading split s0 failed: OSError: no such file") as caught:
        read(fails, (0, 9))
    assert isinstance(caught.value.__cause__, OSError)


def test_errors_of_this_project_are_raised_unchanged() -> None:
    error = DataLossError("page 3 of s0 is gone")

    def fails(split: Numbers) -> Iterator[tuple[int]]:
        raise error
        yield (1,)

    with pytest.raises(DataLossError, match="page 3") as caught:
        read(fails, (0, 9))
    assert caught.value is error


@pytest.mark.parametrize("positions", [[3, 2], [3, 3]])
def test_positions_of_single_records_rise(positions: list[int]) -> None:
    """Positions of single records must rise. Rows that share a position must come as ``Records``, so that the end of
    a fetch does not separate them.
    """
    with pytest.raises(ConnectorError, match=rf"position {positions[1]} comes after 3"):
        read(lambda split: [Record((p,), p) for p in positions], (0, 9))
    together = read(lambda split: [Records([(1,), (2,), (3,)], positions=[3, 3, 4])], (3, 4))
    assert together.column("value") == [1, 2]


def test_threads_read_splits_at_the_same_time() -> None:
    """Two threads read two splits at the same time. Each split waits for the other one, so one thread would never
    end.
    """
    met = threading.Barrier(2, timeout=TIME_LIMIT_S)

    def meets(split: Numbers) -> Iterator[tuple[int]]:
        met.wait()
        yield (split.number,)

    reader = IteratorSourceReader(ReaderContext(), SCHEMA, meets, threads=2)
    assert sorted(read_all(reader, splits((0, 1), (0, 1))).column("value")) == [0, 1]


def test_a_reader_that_is_woken_returns_its_rows_so_far() -> None:
    """A fetch that is woken up returns the rows that it has. The next fetch goes on after them."""
    made: IteratorSplitReader[Numbers]

    def wakes(split: Numbers) -> Iterator[tuple[int]]:
        yield (1,)
        made.wake_up()
        yield (2,)
        yield (3,)

    made = IteratorSplitReader(wakes)
    made.handle_splits_changes(SplitsAddition(splits((0, 3))))
    first, second = made.fetch(), made.fetch()
    assert [r.rows for r in first.records["s0"]] == [[(1,), (2,)]]
    assert [r.rows for r in second.records["s0"]] == [[(3,)]]
    assert (list(first.finished), list(second.finished)) == ([], ["s0"])


def test_removed_splits_are_closed() -> None:
    closed: list[str] = []

    def endless(split: Numbers) -> Iterator[tuple[int]]:
        try:
            while True:
                yield (split.number,)
        finally:
            closed.append(split.split_id)

    made = IteratorSplitReader(endless, fetch_rows=2)
    both = splits((0, 3), (0, 3))
    made.handle_splits_changes(SplitsAddition(both))
    assert list(made.fetch().records) == ["s0"]
    made.handle_splits_changes(SplitsRemoval(both[:1]))
    assert closed == ["s0"]
    assert list(made.fetch().records) == ["s1"]
    made.close()
    assert closed == ["s0", "s1"]


@pytest.mark.parametrize("told", [{}, {"timestamp": None}])
def test_a_missing_timestamp_differs_from_a_source_without_timestamps(told: dict[str, None]) -> None:
    """Records whose timestamp is ``None`` give null timestamps, and records of a source without timestamps give no
    column of timestamps. Both are read.
    """
    output = read(lambda split: [Record((n,), n, **told) for n in range(3)], (0, 3))
    assert output.column("value") == [0, 1, 2]
    assert output.timestamps == [None] * (3 if told else 0)


def test_positions_and_timestamps_are_one_for_each_row() -> None:
    with pytest.raises(ContractError, match="positions of 2 rows; there must be one int64 for each"):
        Records([(1,), (2,)], positions=[1])
    with pytest.raises(ContractError, match="must not be null"):
        Records([(1,)], positions=[None])
    assert len(values_of(splits((0, 1))[0], [0])) == 1
