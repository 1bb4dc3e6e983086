"""Packs the splits of a micro-batch into tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from flip27_stream.api import SourceSplit

Range = tuple[SourceSplit, int, int]
"""A split, the position to read from, and the position to read up to."""


def pack(ranges: Sequence[Range], parallelism: int) -> list[list[Range]]:
    """At most ``parallelism`` tasks of about equal size; empty ranges are left out.

    A task costs Spark some ten milliseconds, so many small splits share one instead of taking one each. The largest go
    first, each to the task with the least to do (longest processing time first). The same input gives the same tasks.
    """
    work = sorted((r for r in ranges if r[1] < r[2]), key=lambda r: (r[1] - r[2], r[0].split_id))
    tasks: list[list[Range]] = [[] for _ in range(min(len(work), max(parallelism, 1)))]
    loads = [(0, i) for i in range(len(tasks))]
    for item in work:
        load, i = heapq.heappop(loads)
        tasks[i].append(item)
        heapq.heappush(loads, (load + item[2] - item[1], i))
    return [sorted(task, key=lambda r: r[0].split_id) for task in tasks]
