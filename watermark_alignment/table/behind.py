"""How far a source is behind the latest records, by the names of Spark's Kafka source (``ReportsSourceMetrics``).

Spark 4.2 gives a Python source no way to report metrics of its own: ``PythonMicroBatchStream`` does not implement
``ReportsSourceMetrics``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Behind:
    """How many positions lie between what was read of the splits of a source and the ends of their logs.

    Attributes:
        splits: of how many splits that is known.
        least: the least number of positions.
        greatest: the greatest number.
        total: the sum.
        bytes: about how many bytes the sum is, by the mean size of the rows that were read; ``None`` where unknown.
    """

    splits: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0
    bytes: int | None = None

    @staticmethod
    def of(positions: Collection[int], bytes_per_row: float | None = None) -> Behind:
        """The summary of how far each split is behind."""
        if not positions:
            return Behind()
        total = sum(positions)
        size = None if bytes_per_row is None else round(total * bytes_per_row)
        return Behind(len(positions), min(positions), max(positions), total, size)

    def metrics(self) -> dict[str, float | int | None]:
        """By Spark's names; ``None`` where unknown."""
        if not self.splits:
            return dict.fromkeys(METRICS)
        return dict(
            zip(METRICS, (self.total / self.splits, self.greatest, self.least, self.bytes), strict=True)
        )


METRICS = (
    "avgOffsetsBehindLatest",
    "maxOffsetsBehindLatest",
    "minOffsetsBehindLatest",
    "estimatedTotalBytesBehindLatest",
)
