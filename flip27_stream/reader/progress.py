"""The progress of a split: its planned range, and which fetched records are in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic

import numpy as np

from flip27_stream.api.split import SourceSplit, SplitT
from flip27_stream.arrow_columns import numbers_of
from flip27_stream.errors import ConnectorError
from flip27_stream.reader.records import Records

if TYPE_CHECKING:
    from typing_extensions import Self

NOT_STORED = {"stored": False}
"""Metadata of a dataclass field that :class:`DataclassSerializer` does not store."""


@dataclass(frozen=True)
class RangeSplit(SourceSplit):
    """Base class of splits that are dataclasses. A bounded split has the range that one micro-batch reads.

    A split that is not bounded has an empty range.

    Attributes:
        start: The position to read from.
        end: The position after the last one to read.
    """

    start: int = field(default=0, kw_only=True, metadata=NOT_STORED)
    end: int = field(default=0, kw_only=True, metadata=NOT_STORED)

    def between(self, start: int, end: int) -> Self:
        return replace(self, start=start, end=end)


@dataclass
class SplitProgress(Generic[SplitT]):
    """The state of one split while it is read (Flink's split state); subclass it to keep more.

    Attributes:
        split: The split, as it was added.
        position: The next position to read; ``None`` if the split has no known range, so that no records are cut off.
        end: The position after the planned range.
        rows: The number of emitted rows.
    """

    split: SplitT
    position: int | None = None
    end: int | None = None
    rows: int = 0

    @property
    def at_end(self) -> bool:
        """Whether the planned range was read to its end."""
        return self.position is not None and self.end is not None and self.position >= self.end

    def rest(self) -> SplitT:
        """Returns the split with the part of its range that is not read yet."""
        if self.position is None or self.end is None:
            return self.split
        return self.split.between(self.position, self.end)

    def take(self, records: Records) -> Records:
        """Returns the part of ``records`` that is in the range and was not emitted yet; moves the position after it.

        Raises:
            ConnectorError: Positions fall.
        """
        if records.positions is None or self.position is None or not len(records):
            return records if not self.at_end else records.between(0, 0)
        positions = numbers_of(records.positions)
        if (np.diff(positions) < 0).any():
            at = int(np.argmax(np.diff(positions) < 0))
            raise ConnectorError(
                f"The records of split {self.split.split_id} are out of order: position {positions[at + 1]} comes "
                f"after {positions[at]}. A split reader must return positions that never decrease."
            )
        first = int(np.searchsorted(positions, self.position))
        stop = len(records) if self.end is None else int(np.searchsorted(positions, self.end))
        self.position = max(self.position, int(positions[-1]) + 1)
        if self.end is not None:
            self.position = min(self.position, self.end)
        return records.between(first, max(first, stop))
