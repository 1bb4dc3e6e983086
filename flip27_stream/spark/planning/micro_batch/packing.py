"""Divides the planned ranges of a micro-batch into tasks."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any

from flip27_stream.api import ReadLimits, Source
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.spark.source_contract import check_same_splits

_LEAST_SHARE = 20_000


def for_readers(
    source: Source[Any, Any], ranges: Sequence[PlannedRange], checkpoint: Any
) -> list[PlannedRange]:
    """Returns the ranges of a micro-batch with the splits that readers get (:meth:`Source.splits_for_readers`).

    Raises:
        ContractError: The source did not return the same splits.
    """
    splits = [r.split for r in ranges]
    made = source.splits_for_readers(splits, checkpoint)
    check_same_splits(source, splits, made)
    return [r._replace(split=split) for split, r in zip(made, ranges, strict=True)]


def tasks_of(
    ranges: Sequence[PlannedRange], parallelism: int, limits: ReadLimits
) -> list[list[PlannedRange]]:
    """Returns the ranges of each task, without empty ranges. The same input gives the same tasks.

    Where the limits cut ranges into pieces, each piece gets a task of its own, as in Spark's Kafka source.

    Args:
        ranges: The ranges of the micro-batch.
        parallelism: The number of tasks that can run at the same time.
        limits: The read limits of the source.
    """
    work = [r for r in ranges if r.size]
    pieces = divided(work, limits)
    if len(pieces) > len(work) or limits.max_rows_per_task is not None:
        return [[piece] for piece in pieces]
    worth = -(-sum(r.size for r in work) // limits.rows_worth_a_task)
    tasks = max(min(parallelism, worth), limits.min_tasks or 0)
    return evenly(work, tasks) if limits.divide else pack(work, tasks)


def evenly(ranges: Sequence[PlannedRange], parallelism: int) -> list[list[PlannedRange]]:
    """Returns at most ``parallelism`` tasks of about equal size; ranges larger than the share of one task are cut.

    A task has each split at most once. Shares have at least 20,000 positions, so small batches are not cut.
    """
    share = max(-(-sum(r.size for r in ranges) // max(parallelism, 1)), _LEAST_SHARE)
    whole: list[list[PlannedRange]] = []
    rest: list[PlannedRange] = []
    for split, start, end in ranges:
        cuts = range(start, max(end - share, start), share)
        whole += [[PlannedRange(split, cut, cut + share)] for cut in cuts]
        rest.append(PlannedRange(split, start + len(cuts) * share, end))
    return whole + pack(rest, max(parallelism - len(whole), 1))


def divided(ranges: Sequence[PlannedRange], limits: ReadLimits) -> list[PlannedRange]:
    """Returns ``ranges`` cut into pieces, with the results of Spark's ``KafkaOffsetRangeCalculator`` (scenario SK-31).

    First, ranges are cut so that no piece has more than ``max_rows_per_task`` rows. If there are fewer than
    ``min_tasks`` pieces, the larger ones are cut again in proportion to their sizes. The number of pieces is then about
    ``min_tasks``; rounding can change it.
    """
    pieces = list(ranges)
    if limits.max_rows_per_task is not None:
        most = limits.max_rows_per_task
        pieces = [piece for r in pieces for piece in _cut(r, -(-r.size // most))]
    if limits.min_tasks is None or len(pieces) >= limits.min_tasks:
        return pieces
    wanted, total = limits.min_tasks, sum(r.size for r in pieces)
    whole = {i for i, r in enumerate(pieces) if _share(r, total, wanted) == 1}
    wanted = max(wanted - len(whole), 1)
    total -= sum(pieces[i].size for i in whole)
    return [
        piece
        for i, r in enumerate(pieces)
        for piece in _cut(r, 1 if i in whole else _share(r, total, wanted))
    ]


def pack(ranges: Sequence[PlannedRange], parallelism: int) -> list[list[PlannedRange]]:
    """Returns at most ``parallelism`` tasks of about equal size, of whole ranges.

    A task costs Spark some milliseconds, so small splits share tasks. The ranges are placed from the largest to the
    smallest, each in the task with the least to read (the "longest processing time first" rule).
    """
    work = sorted((r for r in ranges if r.size), key=lambda r: (-r.size, r.split.split_id))
    tasks: list[list[PlannedRange]] = [[] for _ in range(min(len(work), max(parallelism, 1)))]
    loads = [(0, i) for i in range(len(tasks))]
    for item in work:
        load, i = loads[0]
        tasks[i].append(item)
        heapq.heapreplace(loads, (load + item.size, i))
    return [sorted(task, key=lambda r: r.split.split_id) for task in tasks]


def _share(r: PlannedRange, total: int, tasks: int) -> int:
    """Returns the number of tasks for a range, in proportion to its size: rounded half up, and at least 1."""
    return max(math.floor(r.size / total * tasks + 0.5), 1)


def _cut(r: PlannedRange, parts: int) -> Iterator[PlannedRange]:
    """Returns equal pieces of ``r``; the last ones are longer by the rounding."""
    split, start, end = r
    for left in range(parts, 0, -1):
        until = start + (end - start) // left
        if until > start:
            yield PlannedRange(split, start, until)
        start = until
