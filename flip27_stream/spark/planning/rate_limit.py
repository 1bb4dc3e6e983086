"""How much a micro-batch reads: how an unaligned one divides its limit, and when there is too little for one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flip27_stream.api import ReadLimits, SplitRange

UNLIMITED = 2**63 - 1
"""Stands for "no limit of rows, but those of the options" where Spark takes nothing but a number."""


def proportional_ends(ranges: Mapping[str, SplitRange], limit: int | None) -> dict[str, int]:
    """The end of each split when ``limit`` rows are divided by what there is to read.

    As Spark's ``KafkaMicroBatchStream.rateLimit`` does it: a share below one row is rounded up, so that no split
    starves, any other down; a batch may so be a little above the limit.
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
    """Waits until a micro-batch is worth its while (Spark's ``minOffsetsPerTrigger`` and ``maxTriggerDelay``).

    When the last batch was is kept in memory only, so the first one of a process always runs, as in Spark.
    """

    def __init__(self, limits: ReadLimits) -> None:
        self._least = limits.min_rows
        self._delay_ms = limits.max_trigger_delay_ms
        self._last: int | None = None

    def are_there(self, waiting: int, now: int) -> bool:
        """Whether to plan a batch, at the clock ``now`` (ms), if so many rows can be read."""
        if self._least is None:
            return True
        enough = self._last is None or now - self._last >= self._delay_ms or waiting >= self._least
        if enough:
            self._last = now
        return enough
