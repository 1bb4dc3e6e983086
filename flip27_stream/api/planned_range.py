"""The part of one split that a micro-batch reads, between two offsets, in plans, tasks and reports.

Reports carry it by the id of the split, as :class:`RangeKey`.
"""

from __future__ import annotations

from typing import NamedTuple

from flip27_stream.api.split import SourceSplit


class RangeKey(NamedTuple):
    """A planned range without the split itself, as reports and messages carry it.

    Attributes:
        split_id: The id of the split.
        start: The first position to read.
        end: The position after the last one to read.
    """

    split_id: str
    start: int
    end: int


class PlannedRange(NamedTuple):
    """One split, from position ``start`` up to, not including, position ``end``.

    Attributes:
        split: The split, not bounded; :meth:`bounded` returns what a reader gets.
        start: The first position to read.
        end: The position after the last one to read.
    """

    split: SourceSplit
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of positions in the range."""
        return self.end - self.start

    @property
    def key(self) -> RangeKey:
        """The same range, with the id of the split instead of the split."""
        return RangeKey(self.split.split_id, self.start, self.end)

    def bounded(self) -> SourceSplit:
        """Returns the split with the bounds of the range (:meth:`SourceSplit.between`)."""
        return self.split.between(self.start, self.end)
