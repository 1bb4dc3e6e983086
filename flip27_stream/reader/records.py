"""The result of a fetch: records by split, as columns or as plain rows."""

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
    """The type of the default of :attr:`Record.timestamp`, which means that no record of the source has a timestamp.

    ``None`` means that a single record has no timestamp.
    """

    HERE = auto()


@dataclass(frozen=True)
class Record:
    """One plain row with its position and timestamp.

    Attributes:
        row: The row.
        position: Its position in the split; ``None`` if records have no positions.
        timestamp: The time (ms) that the external system gave the record; ``None`` if this record has no time. Leave
            it out if no record of the source has a time.
    """

    row: PlainRow
    position: int | None = None
    timestamp: int | NoTimestamps | None = NoTimestamps.HERE


@dataclass(frozen=True)
class Records:
    """Some records of one split, in its order.

    Attributes:
        rows: A record batch of the source's schema; or plain rows; or any sequence of records that the
            :class:`RecordEmitter` of the source understands.
        timestamps: For each row the time (ms) that the external system gave the record; null for a record without a
            time. A sequence of integers is converted to an Int64 array.
        positions: For each row its position, converted like timestamps. Positions never decrease. With them, the reader
            drops records outside the planned range and records that were emitted before, so a fetch may return whole
            blocks.
            Rows with the same position must be in one ``Records``. Without positions, the split reader must keep to
            the range itself.

    Raises:
        ContractError: ``rows`` is neither a record batch nor a sequence, or there is not one number for each row.
    """

    rows: pa.RecordBatch | Sequence[Any]
    timestamps: pa.Int64Array | None = None
    positions: pa.Int64Array | None = None

    def __post_init__(self) -> None:
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
            f"Records() was given {shortened(repr(values))} as {name} of {len(self)} rows; there must be one int64 for "
            "each row."
        )

    def __len__(self) -> int:
        return len(self.rows) if not isinstance(self.rows, pa.RecordBatch) else int(self.rows.num_rows)

    def between(self, first: int, stop: int) -> Records:
        """Returns the rows from number ``first`` up to, not including, ``stop``; columns are not copied."""
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
    """The result of one fetch (Flink ``RecordsWithSplitIds``).

    Attributes:
        records: The records, by split id, in the order of the split.
        finished: The ids of the splits that end with these records.

    Raises:
        ContractError: A value of ``records`` is not a sequence of ``Records``, or ``finished`` is one text.
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
