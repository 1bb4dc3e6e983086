"""Divides the ranges of a micro-batch into tasks."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any

from flip27_stream.api import ReadLimits, Source, SourceSplit
from flip27_stream.spark.source_contract import check_same_splits

Range = tuple[SourceSplit, int, int]
"""A split, the position to read from, and the position to read up to."""

_LEAST_SHARE = 20_000


def for_readers(source: Source[Any, Any], ranges: Sequence[Range], checkpoint: Any) -> list[Range]:
    """The ranges of a micro-batch with the splits as readers get them.

    Raises:
        ContractError: the source returned other splits.
    """
    splits = [split for split, _, _ in ranges]
    made = source.splits_for_readers(splits, checkpoint)
    check_same_splits(source, splits, made)
    return [(split, start, end) for split, (_, start, end) in zip(made, ranges, strict=True)]


def tasks_of(ranges: Sequence[Range], parallelism: int, limits: ReadLimits) -> list[list[Range]]:
    """What each task reads; empty ranges are left out. The same input gives the same tasks.

    Where the limits cut ranges into pieces there is a task for each piece, as in Spark's Kafka source.
    """
    work = [r for r in ranges if r[1] < r[2]]
    pieces = divided(work, limits)
    if len(pieces) > len(work) or limits.max_rows_per_task is not None:
        return [[piece] for piece in pieces]
    tasks = max(parallelism, limits.min_tasks or 0)
    return evenly(work, tasks) if limits.divide else pack(work, tasks)


def evenly(ranges: Sequence[Range], parallelism: int) -> list[list[Range]]:
    """At most ``parallelism`` tasks of about equal size: what is larger than one task's share is cut.

    A split is in a task once at most. Where all is little, nothing is cut.
    """
    share = max(-(-sum(map(_size, ranges)) // max(parallelism, 1)), _LEAST_SHARE)
    whole: list[list[Range]] = []
    rest: list[Range] = []
    for split, start, end in ranges:
        cuts = range(start, max(end - share, start), share)
        whole += [[(split, cut, cut + share)] for cut in cuts]
        rest.append((split, start + len(cuts) * share, end))
    return whole + pack(rest, max(parallelism - len(whole), 1))


def divided(ranges: Sequence[Range], limits: ReadLimits) -> list[Range]:
    """Pieces of ``ranges``, with the results of Spark's ``KafkaOffsetRangeCalculator`` (scenario SK-31).

    First no piece has more than ``max_rows_per_task`` rows. If there are fewer than ``min_tasks`` then, the larger ones
    are cut again in proportion; the sum of the pieces comes near ``min_tasks``, but rounding may miss it.
    """
    pieces = list(ranges)
    if limits.max_rows_per_task is not None:
        most = limits.max_rows_per_task
        pieces = [piece for r in pieces for piece in _cut(r, -(-_size(r) // most))]
    if limits.min_tasks is None or len(pieces) >= limits.min_tasks:
        return pieces
    wanted, total = limits.min_tasks, sum(map(_size, pieces))
    whole = {i for i, r in enumerate(pieces) if _share(r, total, wanted) == 1}
    wanted = max(wanted - len(whole), 1)
    total -= sum(_size(pieces[i]) for i in whole)
    return [
        piece
        for i, r in enumerate(pieces)
        for piece in _cut(r, 1 if i in whole else _share(r, total, wanted))
    ]


def pack(ranges: Sequence[Range], parallelism: int) -> list[list[Range]]:
    """At most ``parallelism`` tasks of about equal size.

    A task costs Spark some milliseconds, so many small splits share one instead of taking one each. The largest go
    first, each to the task with the least to do (longest processing time first).
    """
    work = sorted((r for r in ranges if r[1] < r[2]), key=lambda r: (r[1] - r[2], r[0].split_id))
    tasks: list[list[Range]] = [[] for _ in range(min(len(work), max(parallelism, 1)))]
    loads = [(0, i) for i in range(len(tasks))]
    for item in work:
        load, i = loads[0]
        tasks[i].append(item)
        heapq.heapreplace(loads, (load + item[2] - item[1], i))
    return [sorted(task, key=lambda r: r[0].split_id) for task in tasks]


def _size(r: Range) -> int:
    return r[2] - r[1]


def _share(r: Range, total: int, tasks: int) -> int:
    """The part of ``tasks`` that is due to a range, by size; halves are rounded up, and it is at least 1."""
    return max(math.floor(_size(r) / total * tasks + 0.5), 1)


def _cut(r: Range, parts: int) -> Iterator[Range]:
    """Equal pieces; the last ones take the rounding."""
    split, start, end = r
    for left in range(parts, 0, -1):
        until = start + (end - start) // left
        if until > start:
            yield split, start, until
        start = until
