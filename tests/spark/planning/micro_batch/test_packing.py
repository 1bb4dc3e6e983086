"""The ranges of a micro-batch are divided among tasks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import ReadLimits
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.spark.planning.micro_batch.packing import divided, evenly, pack, tasks_of
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.spark.reporting.table_rows import BatchRecord, PlannedSplits
from tests.spark.support.sources.memory_source import MemorySplit
from watermark_alignment.states import SplitStatus


def ranges(*spans: tuple[int, int]) -> list[PlannedRange]:
    return [PlannedRange(MemorySplit(f"t-{i}"), start, end) for i, (start, end) in enumerate(spans)]


def bounds(pieces: Sequence[PlannedRange]) -> list[list[int]]:
    """Returns for each split where its pieces begin, and where the last piece ends."""
    found: dict[str, list[int]] = {}
    for split, start, end in pieces:
        known = found.setdefault(split.split_id, [start])
        assert known[-1] == start
        known.append(end)
    return list(found.values())


@pytest.mark.parametrize(
    ("least", "spans", "expected"),
    [
        (4, [(1, 5)], [[1, 2, 3, 4, 5]]),
        (3, [(1, 11)], [[1, 4, 7, 11]]),
        (4, [(1, 5), (1, 21)], [[1, 5], [1, 7, 14, 21]]),
        (6, [(0, 10), (0, 10), (0, 1)], [[0, 3, 6, 10], [0, 3, 6, 10], [0, 1]]),
        (
            6,
            [(0, 500), (0, 12_000), (0, 15_001)],
            [[0, 500], [0, 6000, 12_000], [0, 5000, 10_000, 15_001]],
        ),
        (1, [(1, 5), (1, 5)], [[1, 5], [1, 5]]),
    ],
)
def test_sk_31_ranges_are_cut_as_spark_cuts_them(
    least: int, spans: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    """SK-31: ranges are cut as Spark's own calculator cuts them. The last piece of a range takes the remainder."""
    assert bounds(divided(ranges(*spans), ReadLimits(min_tasks=least))) == expected


@pytest.mark.parametrize(("least", "tasks"), [(None, 1), (1, 1), (4, 4)])
def test_sk_30_one_range_is_as_many_tasks_as_told(least: int | None, tasks: int) -> None:
    """SK-30: one range is one task, or as many tasks as ``min_tasks`` says."""
    assert len(tasks_of(ranges((0, 100)), 8, ReadLimits(min_tasks=least))) == tasks


def test_sk_31_empty_ranges_are_dropped() -> None:
    """SK-31: empty ranges give no tasks."""
    assert tasks_of(ranges((5, 5), (0, 0)), 4, ReadLimits(min_tasks=4)) == []


@pytest.mark.parametrize(
    ("most", "least", "expected"),
    [
        (4, None, [[0, 3, 6, 10], [0, 4]]),
        (5, 3, [[0, 5, 10], [0, 4]]),
        (5, 6, [[0, 2, 5, 7, 10], [0, 2, 4]]),
    ],
)
def test_pieces_have_a_greatest_number_of_rows(
    most: int, least: int | None, expected: list[list[int]]
) -> None:
    """Ranges are cut until no piece has more than ``max_rows_per_task`` rows, and then until there are ``min_tasks``
    pieces.
    """
    limits = ReadLimits(max_rows_per_task=most, min_tasks=least)
    tasks = tasks_of(ranges((0, 10), (0, 4)), 1, limits)
    assert all(len(task) == 1 for task in tasks)
    assert bounds([piece for task in tasks for piece in task]) == expected


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=8),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 60),
)
def test_pieces_have_each_position_of_the_ranges_once(
    spans: list[tuple[int, int]], least: int | None, most: int | None
) -> None:
    """I1, KR-03: the pieces of the tasks have every position once and in order. No piece is too large, and no task
    has two pieces of one split.
    """
    work = ranges(*((start, start + size) for start, size in spans))
    tasks = tasks_of(work, 2, ReadLimits(min_tasks=least, max_rows_per_task=most))
    pieces = sorted((piece for task in tasks for piece in task), key=lambda r: (r[0].split_id, r[1]))
    assert [(b[0], b[-1]) for b in bounds(pieces)] == [(s, e) for _, s, e in work if s < e]
    assert all(end - start <= (most or end) for _, start, end in pieces)
    assert all(len({r[0].split_id for r in task}) == len(task) for task in tasks)


def test_ki_03_many_small_splits_share_tasks() -> None:
    """KI-03 adapted: many small splits are divided among as many tasks as can run at once, in equal parts."""
    tasks = pack(ranges(*[(0, 10)] * 200), 4)
    assert [sum(end - start for _, start, end in task) for task in tasks] == [500] * 4
    assert len(tasks_of(ranges(*[(0, 10)] * 200), 4, ReadLimits(min_tasks=7))) == 7


@pytest.mark.parametrize(
    ("rows", "least", "expected"),
    [(100, None, 1), (125, None, 1), (126, None, 2), (9000, None, 4), (1, 3, 3)],
)
def test_few_rows_are_one_task(rows: int, least: int | None, expected: int) -> None:
    """KI-03 adapted: there is one task for each 500 rows, because a task costs more than some hundred rows.
    ``min_tasks`` overrides this.
    """
    limits = ReadLimits(min_tasks=least, rows_worth_a_task=500)
    assert len(tasks_of(ranges(*[(0, rows)] * 4), 4, limits)) == expected


def test_al_11_pieces_of_a_split_are_counted_once() -> None:
    """AL-11: pieces that are reported twice count once; pieces without a report count as planned."""
    batch = BatchRecord(1, PlannedSplits(["a"], [0], [10], [SplitStatus.ACTIVE], [True]))
    assert batch.rows_read() == [10]
    for task in (0, 1):
        batch.add_report(TaskReport(1, task, 0, splits=[SplitReport("a", 0, 4, rows=3)]))
    assert batch.rows_read() == [9]
    batch.add_report(TaskReport(1, 2, 0, splits=[SplitReport("a", 4, 10, rows=5)]))
    assert batch.rows_read() == [8]


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=12), st.integers(1, 8))
def test_large_splits_are_read_by_several_tasks(sizes: list[int], parallelism: int) -> None:
    """The pieces of the tasks have every position once. No task has a split twice, or more than two fair shares of
    the rows.
    """
    work = ranges(*((7, 7 + size) for size in sizes))
    tasks = evenly(work, parallelism)
    pieces = sorted((piece for task in tasks for piece in task), key=lambda r: (r[0].split_id, r[1]))
    assert [(found[0], found[-1]) for found in bounds(pieces)] == [
        (a, b) for _, a, b in sorted(work, key=str)
    ]
    assert all(len({split.split_id for split, _, _ in task}) == len(task) for task in tasks)
    assert len(tasks) <= parallelism
    share = max(-(-sum(sizes) // parallelism), 20_000)
    assert max(sum(b - a for _, a, b in task) for task in tasks) <= 2 * share
