"""The split: one part of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

SplitT = TypeVar("SplitT", bound="SourceSplit")


class SourceSplit(ABC):
    """One part of a source that is read in order, by one reader at a time (FLIP-27 ``SourceSplit``).

    A *position* is an ``int`` of any size that grows along the split and names the next record to read. It may count
    records, or only order them, as sequence numbers do (:attr:`SplitRange.rows`). The coordinator stores positions in
    the offset; the fields of the split never change while it is read. Splits are picklable and hashable values.
    """

    @property
    @abstractmethod
    def split_id(self) -> str:
        """The id of the split in its source, the same for ever and across restarts.

        It must not be empty, nor ``<group>`` or ``<backlog>``: these two are reserved. They stand in the place of a
        split id when another source, or splits that are not assigned yet, hold splits back.
        """

    @property
    def positions_count_rows(self) -> bool:
        """Whether the difference of two positions is the number of records between them, or more if there are gaps."""
        return True

    @abstractmethod
    def between(self: SplitT, start: int, end: int) -> SplitT:
        """Returns this split with the range of one micro-batch: from ``start`` up to, not including, ``end``."""
