"""The four states of a split."""

from __future__ import annotations

from enum import Enum


class SplitStatus(str, Enum):
    """Exclusive; stored as words."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    IDLE = "IDLE"
    FINISHED = "FINISHED"

    @property
    def counts(self) -> bool:
        """Whether such a split holds the others back."""
        return self in (SplitStatus.ACTIVE, SplitStatus.PAUSED)

    def __str__(self) -> str:
        return self.value
