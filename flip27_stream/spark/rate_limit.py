"""How an unaligned micro-batch divides its read limit."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flip27_stream.api import SplitRange


def proportional_ends(ranges: Mapping[str, SplitRange], limit: int | None) -> dict[str, int]:
    """The end of each split when ``limit`` rows are divided by what there is to read.

    As Spark's ``KafkaMicroBatchStream.rateLimit`` does it: a share below one row is rounded up, so that no split
    starves, any other down; a batch may so be a little above the limit.
    """
    sizes = {split: r.end - r.position for split, r in ranges.items() if r.end > r.position}
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return {split: r.end for split, r in ranges.items()}
    ends = {split: r.position for split, r in ranges.items()}
    for split, size in sizes.items():
        exact = limit * (size / total)
        ends[split] += min(size, math.ceil(exact) if exact < 1 else math.floor(exact))
    return ends
