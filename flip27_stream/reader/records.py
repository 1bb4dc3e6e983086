"""What a fetch yields: records by split, as columns or as plain rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import pyarrow as pa

from flip27_stream.errors import ContractError, shortened

PlainRow = Mapping[str, Any] | Sequence[Any]
"""A row as a mapping by column name, or as a tuple or list in the order of the columns."""


class NoTimestamps(Enum):
    """The type of a value that says that records have no timestamps, where ``None`` would be one without."""

    HERE = auto()


@dataclass(frozen=True)
class Record:
    """One plain row together with what the external system says of it.

    Attributes:
        row: the row.
        position: its position in the split.
        timestamp: the time (ms) the external system gave it; ``None`` for a record that it gave none. Left out by
            sources whose records have no such time at all.
    """

    row: PlainRow
    position: int | None = None
    timestamp: int | NoTimestamps | None = NoTimestamps.HERE


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
        """Raises ContractError if it is anything but rows with as many numbers."""
        rows: object = self.rows
        if isinstance(rows, str | Mapping) or not isinstance(rows, pa.RecordBatch | Sequence):
            raise ContractError(
                f"Records() was given {shortened(repr(rows))} as rows; they must be a record batch or a list."
            )
        for name in ("timestamps", "positions"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, self._column(name, values))
        if self.positions is not None and self.positions.null_count:
            raise ContractError(f"Positions must not be null: {shortened(repr(self.positions.to_pylist()))}.")

    def _column(self, name: str, values: Any) -> pa.Int64Array:
        try:
            column = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
            if column.type == pa.int64() and len(column) == len(self):
                return column
        except (pa.ArrowException, TypeError, OverflowError):
            pass
        raise ContractError(
            f"Records() was given {shortened(repr(values))} as {name} of {len(self)} rows; there must be an int64 for "
            "each."
        )

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

    def __post_init__(self) -> None:
        for split_id, pieces in self.records.items():
            if not isinstance(pieces, Sequence) or not all(isinstance(piece, Records) for piece in pieces):
                raise ContractError(
                    f"The records of split {split_id!r} must be a sequence of Records, not "
                    f"{shortened(repr(pieces))}."
                )
        if isinstance(self.finished, str):
            raise ContractError(
                f"finished must be a collection of split ids, not the text {self.finished!r}."
            )

    def __bool__(self) -> bool:
        return bool(self.records or self.finished)
