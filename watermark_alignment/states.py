"""The four states of a split."""

from __future__ import annotations

from enum import Enum


class SplitStatus(str, Enum):
    """The state of a split. A split has exactly one state; the table stores it as this word."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    IDLE = "IDLE"
    FINISHED = "FINISHED"

    @property
    def counts(self) -> bool:
        """Whether a split in this state counts, that is, holds the others back (rule 2)."""
        return self in (SplitStatus.ACTIVE, SplitStatus.PAUSED)

    def __str__(self) -> str:
        return self.value
