"""The distance of a source to the latest records, under the names of Spark's Kafka source (``ReportsSourceMetrics``).

Spark 4.2 gives a Python source no way to report metrics of its own: ``PythonMicroBatchStream`` does not implement
``ReportsSourceMetrics``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from watermark_alignment.formatting import data_size


@dataclass(frozen=True, slots=True)
class OffsetsBehind:
    """The numbers of positions between the read records of splits and the ends of their logs, for one source.

    Attributes:
        splits: The number of splits with a known distance.
        least: The least number of positions of a split.
        greatest: The greatest number of positions of a split.
        total: The sum over all splits.
        bytes: The estimated bytes of ``total``, by the mean size of the rows that were read; ``None`` if unknown.
    """

    splits: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0
    bytes: int | None = None

    @staticmethod
    def of(positions: Collection[int], bytes_per_row: float | None = None) -> OffsetsBehind:
        """Returns the summary for the number of positions that each split is behind."""
        if not positions:
            return OffsetsBehind()
        total = sum(positions)
        return OffsetsBehind(len(positions), min(positions), max(positions), total).sized(bytes_per_row)

    def sized(self, bytes_per_row: float | None) -> OffsetsBehind:
        """Returns the same distance with the estimated bytes.

        Args:
            bytes_per_row: The mean size of a row (bytes); ``None`` if unknown.
        """
        return replace(self, bytes=None if bytes_per_row is None else round(self.total * bytes_per_row))

    def __str__(self) -> str:
        size = "" if self.bytes is None else f", about {data_size(self.bytes)}"
        of_splits = f"avg {self.total / self.splits:,.1f}, min {self.least:,}, max {self.greatest:,}"
        return f"{self.total:,} offsets behind the latest{size}" + (f" ({of_splits})" if self.total else "")

    def metrics(self) -> dict[str, float | int | None]:
        """Returns the metrics by Spark's names; ``None`` if a value is unknown."""
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
