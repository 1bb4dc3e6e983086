"""The read limits of a micro-batch: how an unaligned batch divides its row limit, and when there are enough rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flip27_stream.api import ReadLimits, SplitRange

UNLIMITED = 2**63 - 1
"""The number that means "no row limit", where Spark accepts only a number."""


def proportional_ends(ranges: Mapping[str, SplitRange], limit: int | None) -> dict[str, int]:
    """Returns the end position of each split when ``limit`` rows are divided in proportion to the sizes of ``ranges``.

    This is the rule of Spark's ``KafkaMicroBatchStream.rateLimit``: a share below one row is rounded up, so that every
    split moves; any other share is rounded down. So a batch can be a little above the limit.

    Args:
        ranges: what can be read, by split id.
        limit: the number of rows; ``None`` for no limit.
    """
    ends = {split: r.end for split, r in ranges.items()}
    if limit is None:
        return ends
    sizes = {split: r.end - r.position for split, r in ranges.items() if r.end > r.position}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    for split, size in sizes.items():
        exact = limit * (size / total)
        ends[split] += min(size, math.ceil(exact) if exact < 1 else math.floor(exact)) - size
    return ends


class LeastRows:
    """Decides whether there are enough rows for a batch (Spark's ``minOffsetsPerTrigger`` and ``maxTriggerDelay``).

    The time of the last batch is kept in memory only, so the first batch of a process always runs, as in Spark.

    Args:
        limits: the limits of the source.
    """

    def __init__(self, limits: ReadLimits) -> None:
        self._least = limits.min_rows
        self._delay_ms = limits.max_trigger_delay_ms
        self._last: int | None = None

    def are_there(self, waiting: int, now: int) -> bool:
        """Whether a batch runs at ``now`` (ms) if ``waiting`` rows can be read."""
        if self._least is None:
            return True
        enough = self._last is None or now - self._last >= self._delay_ms or waiting >= self._least
        if enough:
            self._last = now
        return enough
