"""What a source is divided into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

SplitT = TypeVar("SplitT", bound="SourceSplit")


class SourceSplit(ABC):
    """One part of a source that is read in order, by one reader at a time (FLIP-27 ``SourceSplit``).

    A place in a split is its *position*: an ``int`` of any size that grows along the split and names the next record to
    read. It may count records, or only order them, as sequence numbers do (:attr:`SplitRange.rows`). The
    coordinator stores positions in the offset; a split itself holds only what never changes while it is read. Splits
    are picklable values.
    """

    @property
    @abstractmethod
    def split_id(self) -> str:
        """Identifies the split in its source for ever, across restarts.

        Not empty; ``<group>`` and ``<backlog>`` are taken: they stand where a split is named for what is none.
        """

    @property
    def positions_count_rows(self) -> bool:
        """Whether the difference of two positions is the number of records between; it may be less for gaps."""
        return True

    @abstractmethod
    def between(self: SplitT, start: int, end: int) -> SplitT:
        """This split as one micro-batch reads it: from position ``start`` up to, not including, ``end``."""
