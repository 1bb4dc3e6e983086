"""The read limits of a micro-batch: the division of the row limit among splits, and the least number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from flip27_stream.api import ReadLimits, SplitRange

UNLIMITED = 2**63 - 1
"""The number that means "no row limit", for Spark's methods that accept only a number."""


PositionsAfter = Callable[[Mapping[str, int]], Mapping[str, int]]
"""A function that gets a number of rows for each split id, and returns the position up to which to read each split."""


def proportional_ends(
    ranges: Mapping[str, SplitRange], limit: int | None, after: PositionsAfter | None = None
) -> dict[str, int]:
    """Returns the end position of each split when ``limit`` rows are divided in proportion to the sizes of ``ranges``.

    The rule is that of Spark's ``KafkaMicroBatchStream.rateLimit``: a share below one row is rounded up, so that every
    split moves; any other share is rounded down. So a batch can be a little above the limit.

    Args:
        ranges: The ranges that can be read, by split id.
        limit: The number of rows; ``None`` for no limit.
        after: Returns the positions of cuts if positions do not count rows, and sizes are estimates.
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
    """The check for enough rows for a batch (Spark's ``minOffsetsPerTrigger`` and ``maxTriggerDelay``).

    The time of the last batch is kept in memory only, so the first batch of a process always runs, as in Spark.

    Args:
        limits: The limits of the source.
    """

    def __init__(self, limits: ReadLimits) -> None:
        self._least = limits.min_rows
        self._delay_ms = limits.max_trigger_delay_ms
        self._last: int | None = None

    def are_there(self, waiting: int | None, now: int) -> bool:
        """Returns whether a batch runs at ``now`` (ms) if ``waiting`` rows can be read.

        With ``None`` it runs, because waiting brings no more rows.
        """
        if self._least is None:
            return True
        is_due = self._last is None or now - self._last >= self._delay_ms
        enough = is_due or waiting is None or waiting >= self._least
        if enough:
            self._last = now
        return enough
