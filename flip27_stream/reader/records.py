"""What a fetch yields: records by split, as columns or as plain rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

PlainRow = Mapping[str, Any] | Sequence[Any]
"""A row as a mapping by column name, or as a tuple or list in the order of the columns."""


@dataclass(frozen=True)
class Record:
    """One plain row together with what the external system says of it.

    Attributes:
        row: the row.
        position: its position in the split.
        timestamp: the time (ms) the external system gave it.
    """

    row: PlainRow
    position: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class Records:
    """Some records of one split, in its order.

    Attributes:
        rows: a record batch of the source's schema; or plain rows; or, for a :class:`RecordEmitter` of one's own, any
            sequence of records that it understands.
        timestamps: one per row, the times (ms) the external system gave the records, null where it gave none. Other
            sequences of integers than an Int64 array are made one, here and for positions.
        positions: one per row, never falling. With them the reader drops what lies outside the planned range and what
            was emitted before, so that whole blocks may be fetched; rows of one position come in one ``Records``.
            Without them the split reader must keep to the range itself.
    """

    rows: pa.RecordBatch | Sequence[Any]
    timestamps: pa.Int64Array | None = None
    positions: pa.Int64Array | None = None

    def __post_init__(self) -> None:
        for name in ("timestamps", "positions"):
            values = getattr(self, name)
            if values is None:
                continue
            column = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
            if len(column) != len(self):
                raise ValueError(f"{len(self)} rows have {len(column)} {name}; there must be one for each")
            object.__setattr__(self, name, column)
        if self.positions is not None and self.positions.null_count:
            raise ValueError("positions must not be null")

    def __len__(self) -> int:
        return len(self.rows) if not isinstance(self.rows, pa.RecordBatch) else int(self.rows.num_rows)

    def between(self, first: int, stop: int) -> Records:
        """Rows number ``first`` up to, not including, ``stop``; columns are not copied."""
        if (first, stop) == (0, len(self)):
            return self
        return Records(
            self.rows.slice(first, stop - first)
            if isinstance(self.rows, pa.RecordBatch)
            else self.rows[first:stop],
            None if self.timestamps is None else self.timestamps[first:stop],
            None if self.positions is None else self.positions[first:stop],
        )


@dataclass(frozen=True)
class RecordsWithSplitIds:
    """What one fetch yielded (Flink ``RecordsWithSplitIds``).

    Attributes:
        records: by split id, in the order of the split.
        finished: ids of splits that are read to their end with these records.
    """

    records: Mapping[str, Sequence[Records]] = field(default_factory=dict)
    finished: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.records or self.finished)
