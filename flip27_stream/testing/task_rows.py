"""The rows that a reader emits in a test."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from flip27_stream.api import SourceOutput
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.reader.split_outputs import SplitOutputs

Row = dict[str, Any]


class EmittedRows(NamedTuple):
    """One record batch that a reader emitted.

    Attributes:
        split_id: The split of the rows.
        records: The rows.
        timestamps: The times (ms) that the external system gave the records; ``None`` if records have no times.
        positions: The positions of the records; ``None`` if records have no positions.
    """

    split_id: str
    records: pa.RecordBatch
    timestamps: pa.Int64Array | None
    positions: pa.Int64Array | None


class TaskRows(SplitOutputs):
    """An output that collects the rows of a reader, and checks them.

    Args:
        schema: The schema of the source.
        ranges: The ranges of the task; ``None`` to take rows of any split and at any position.

    Attributes:
        batches: The record batches, in the order in which they were emitted.
        released: The splits that the reader has ended, in that order.

    Raises:
        AssertionError: Columns do not fit the schema; a split is not in the task; a position is not in its range, or is
            less than the one before.
    """

    def __init__(self, schema: pa.Schema, ranges: Sequence[PlannedRange] | None = None) -> None:
        self.batches: list[EmittedRows] = []
        self.released: list[str] = []
        self._schema = schema
        self._expected = (
            None if ranges is None else {split.split_id: (start, end) for split, start, end in ranges}
        )

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return _SplitRows(self, split_id)

    def release_output_for_split(self, split_id: str) -> None:
        assert self._expected is None or split_id in self._expected, (
            f"the reader ends split {split_id}, which it was not given"
        )
        self.released.append(split_id)

    @property
    def split_ids(self) -> Collection[str]:
        return self._expected or ()

    @property
    def table(self) -> pa.Table:
        """All rows, in the order in which they were emitted."""
        return pa.Table.from_batches([batch.records for batch in self.batches], self._schema)

    @property
    def rows(self) -> list[Row]:
        """All rows as dictionaries."""
        return self.table.to_pylist()  # type: ignore[no-any-return]

    def column(self, name: str) -> list[Any]:
        """Returns the values of a column."""
        return self.table[name].to_pylist()  # type: ignore[no-any-return]

    @property
    def timestamps(self) -> list[Any]:
        """The timestamps (ms) of all rows, ``None`` for a row without one; batches without timestamps are left out."""
        return [time for batch in self.batches for time in _values(batch.timestamps)]

    @property
    def positions(self) -> list[int]:
        """The positions of all rows, without batches that have no positions."""
        return [position for batch in self.batches for position in _values(batch.positions)]

    def take(self, batch: EmittedRows) -> None:
        """Collects rows of one split."""
        assert batch.records.schema.equals(self._schema), (
            f"columns of split {batch.split_id} are not of the source's schema but {batch.records.schema}"
        )
        batch.records.validate(full=True)
        if self._expected is not None:
            self._expected[batch.split_id] = _narrowed(self._expected, batch)
        self.batches.append(batch)


class _SplitRows(SourceOutput):
    def __init__(self, task: TaskRows, split_id: str) -> None:
        self._task = task
        self._split_id = split_id

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        self._task.take(EmittedRows(self._split_id, records, timestamps, positions))


def _narrowed(expected: dict[str, tuple[int, int]], batch: EmittedRows) -> tuple[int, int]:
    """Returns the range in which the next rows of the split must be."""
    split_id = batch.split_id
    assert split_id in expected, f"the reader emits rows of split {split_id}, which it was not given"
    start, end = expected[split_id]
    for position in _values(batch.positions):
        assert start <= position < end, (
            f"position {position} of split {split_id} is not from {start} up to {end}, which is left of the range"
        )
        start = position
    return start, end


def _values(array: pa.Int64Array | None) -> list[Any]:
    return [] if array is None else array.to_pylist()
