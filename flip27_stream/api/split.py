"""What a source is divided into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

SplitT = TypeVar("SplitT", bound="SourceSplit")


class SourceSplit(ABC):
    """One part of a source that is read in order, by one reader at a time (FLIP-27 ``SourceSplit``).

    A place in a split is its *position*: an ``int`` that grows along the split and names the next record to read. The
    coordinator stores positions in the offset; a split itself holds only what never changes while it is read. Splits
    are picklable values.
    """

    @property
    @abstractmethod
    def split_id(self) -> str:
        """Identifies the split in its source for ever, across restarts.

        Not empty, and neither ``<group>`` nor ``<backlog>``. Where it is said what a source waits for, these two stand
        for another member of the group, and for splits that are not assigned yet.
        """

    @abstractmethod
    def between(self: SplitT, start: int, end: int) -> SplitT:
        """This split as one micro-batch reads it: from position ``start`` up to, not including, ``end``."""
