"""Landmarks of random shards: positions found by time are exact or unknown, and estimates of rows never fall."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kinesis.planning.landmarks import Gap, Landmarks

STEP = 10**20
seeds = st.integers(0, 2**32).map(Random)


class Shard:
    """Records with times that rise, some in the same millisecond; record ``i`` is at position ``(i + 1) * STEP``."""

    def __init__(self, rng: Random) -> None:
        self.times = [1000]
        for _ in range(rng.randrange(0, 60)):
            self.times.append(self.times[-1] + rng.choice([0, 0, 1, 1, 7, 500]))

    def records(self, first: int, count: int) -> list[tuple[int, int]]:
        return [((i + 1) * STEP, t) for i, t in enumerate(self.times)][first : first + count]

    def first_at_or_after(self, time: int) -> int:
        return bisect_left(self.times, time)


def explored(rng: Random, shard: Shard) -> Landmarks:
    """Returns landmarks after pages and probes in any order, as planning makes them. Some records
    may be read already."""
    marks = Landmarks(STEP)
    marks.add_page(shard.records(0, 1), at_start=True)
    for _ in range(rng.randrange(8)):
        if rng.random() < 0.5 and marks.last is not None:
            first = marks.last.position // STEP
            marks.add_page(shard.records(first, rng.randrange(1, 12)), at_start=False)
        elif rng.random() < 0.7:
            asked = rng.randrange(900, shard.times[-1] + 1)
            found = shard.first_at_or_after(asked)
            marks.add_probe(asked, *shard.records(found, 1)[0])
        else:
            seen = [mark.position for mark in marks.up_to(10**30)]
            marks.advance(rng.choice(seen) if seen else marks.start)
    return marks


@given(seeds)
def test_cuts_are_exact_or_unknown(rng: Random) -> None:
    shard = Shard(rng)
    marks = explored(rng, shard)
    last = marks.last
    if last is None:
        return
    end = last.behind
    for time in sorted({t + d for t in shard.times for d in (0, 1)}):
        found = marks.first_at_or_after(time, end)
        if found is not None:
            true = (shard.first_at_or_after(time) + 1) * STEP
            assert found == min(max(true, marks.start), end)


@given(seeds)
def test_estimates_never_fall_and_are_exact_where_all_is_known(rng: Random) -> None:
    shard = Shard(rng)
    marks = explored(rng, shard)
    last = marks.last
    if last is None:
        return
    times = range(900, shard.times[-1] + 2)
    rows = [marks.rows_before(time, last.behind) for time in times]
    assert rows == sorted(rows)
    whole = Landmarks(STEP)
    whole.add_page(shard.records(0, len(shard.times)), at_start=True)
    assert whole.last is not None
    exact = [whole.rows_before(time, whole.last.behind) for time in shard.times]
    assert exact == [shard.first_at_or_after(time) for time in shard.times]
    assert whole.rows_to(whole.last.behind) == len(shard.times)


@given(seeds, st.integers(1, 40))
def test_counting_ends_at_the_record_or_at_a_gap(rng: Random, rows: int) -> None:
    shard = Shard(rng)
    marks = explored(rng, shard)
    last = marks.last
    if last is None:
        return
    found = marks.after_rows(rows, last.behind)
    if isinstance(found, Gap):
        at = found.landmark.position + found.rows * STEP
        assert at == marks.start + rows * STEP
    else:
        assert found == min(marks.start + rows * STEP, last.behind)


def test_large_pages_are_kept_in_part() -> None:
    """Ten thousand records leave fewer than 300 landmarks, and are still counted exactly."""
    marks = Landmarks(STEP)
    marks.add_page([((i + 1) * STEP, 1000 + i) for i in range(10_000)], at_start=True)
    assert marks.last is not None
    assert sum(1 for _ in marks.up_to(marks.last.behind)) < 300
    assert marks.rows_to(marks.last.behind) == 10_000
    gap = marks.after_rows(55, marks.last.behind)
    assert isinstance(gap, Gap)
    assert gap.landmark.position + gap.rows * STEP == 56 * STEP
