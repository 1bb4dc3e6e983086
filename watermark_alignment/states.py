"""The four states of a split."""

from __future__ import annotations

from enum import Enum


class SplitStatus(str, Enum):
    """Exclusive; stored as words. Only active and paused splits count, that is, hold the others back."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    IDLE = "IDLE"
    FINISHED = "FINISHED"

    def __str__(self) -> str:
        return self.value
