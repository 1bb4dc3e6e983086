"""How much a micro-batch reads: how an unaligned one divides its limit, and when there is too little for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from flip27_stream.api import ReadLimits, SplitRange

UNLIMITED = 2**63 - 1
"""Stands for "no limit of rows, but those of the options" where Spark takes nothing but a number."""


PositionsAfter = Callable[[Mapping[str, int]], Mapping[str, int]]
"""For a number of rows, by split id, the position up to which the split is read for it."""


def proportional_ends(
    ranges: Mapping[str, SplitRange], limit: int | None, after: PositionsAfter | None = None
) -> dict[str, int]:
    """The end of each split when ``limit`` rows are divided by what there is to read.

    As Spark's ``KafkaMicroBatchStream.rateLimit`` does it: a share below one row is rounded up, so that no split
    starves, any other down; a batch may so be a little above the limit. ``after`` cuts where positions do not count
    rows, of which there are estimates then.
    """
    ends = {split: r.end for split, r in ranges.items()}
    if limit is None:
        return ends
    sizes = {split: r.cost for split, r in ranges.items() if r.end > r.position}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    shares = {}
    for split, size in sizes.items():
        exact = limit * (size / total)
        shares[split] = min(size, math.ceil(exact) if exact < 1 else math.floor(exact))
    if after is not None:
        return {**ends, **after(shares)}
    return {**ends, **{split: ranges[split].position + rows for split, rows in shares.items()}}


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
