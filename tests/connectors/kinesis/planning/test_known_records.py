"""Known records of random shards: positions by time are exact or unknown, and estimates of rows never decrease."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kinesis.planning.known_records import Gap, KnownRecords

STEP = 10**20
seeds = st.integers(0, 2**32).map(Random)


class ShardRecords:
    """Records with times that rise, some in the same millisecond; record ``i`` is at position ``(i + 1) * STEP``."""

    def __init__(self, rng: Random) -> None:
        self.times = [1000]
        for _ in range(rng.randrange(0, 60)):
            self.times.append(self.times[-1] + rng.choice([0, 0, 1, 1, 7, 500]))

    def records(self, first: int, count: int) -> list[tuple[int, int]]:
        return [((i + 1) * STEP, t) for i, t in enumerate(self.times)][first : first + count]

    def first_at_or_after(self, time: int) -> int:
        return bisect_left(self.times, time)


def explored(rng: Random, shard: ShardRecords) -> KnownRecords:
    """Returns known records after pages and probes in any order, as planning makes them. Some records
    may be read already.
    """
    known = KnownRecords(STEP)
    known.add_page(shard.records(0, 1), at_start=True)
    for _ in range(rng.randrange(8)):
        if rng.random() < 0.5 and known.last is not None:
            first = known.last.position // STEP
            known.add_page(shard.records(first, rng.randrange(1, 12)), at_start=False)
        elif rng.random() < 0.7:
            asked = rng.randrange(900, shard.times[-1] + 1)
            found = shard.first_at_or_after(asked)
            known.add_probe(asked, *shard.records(found, 1)[0])
        else:
            seen = [record.position for record in known.up_to(10**30)]
            known.advance(rng.choice(seen) if seen else known.start)
    return known


@given(seeds)
def test_cuts_are_exact_or_unknown(rng: Random) -> None:
    shard = ShardRecords(rng)
    known = explored(rng, shard)
    last = known.last
    if last is None:
        return
    end = last.behind
    for time in sorted({t + d for t in shard.times for d in (0, 1)}):
        found = known.first_at_or_after(time, end)
        if found is not None:
            true = (shard.first_at_or_after(time) + 1) * STEP
            assert found == min(max(true, known.start), end)


@given(seeds)
def test_estimates_never_fall_and_are_exact_where_all_is_known(rng: Random) -> None:
    shard = ShardRecords(rng)
    known = explored(rng, shard)
    last = known.last
    if last is None:
        return
    times = range(900, shard.times[-1] + 2)
    rows = [known.rows_before(time, last.behind) for time in times]
    assert rows == sorted(rows)
    whole = KnownRecords(STEP)
    whole.add_page(shard.records(0, len(shard.times)), at_start=True)
    assert whole.last is not None
    exact = [whole.rows_before(time, whole.last.behind) for time in shard.times]
    assert exact == [shard.first_at_or_after(time) for time in shard.times]
    assert whole.rows_to(whole.last.behind) == len(shard.times)


@given(seeds, st.integers(1, 40))
def test_no_more_records_than_a_limit_are_taken_for_fewer(rng: Random, limit: int) -> None:
    shard = ShardRecords(rng)
    known = explored(rng, shard)
    known.counted_rows, last = limit, known.last
    if last is None:
        return
    rows = [known.rows_before(time, last.behind) for time in range(900, shard.times[-1] + 2)]
    read = known.start // STEP - 1
    true = [shard.first_at_or_after(time) - read for time in range(900, last.time + 1)]
    assert rows == sorted(rows)
    assert all(cost >= min(count, limit + 1) for cost, count in zip(rows, true, strict=False))


@given(seeds, st.integers(1, 40))
def test_counting_ends_at_the_record_or_at_a_gap(rng: Random, rows: int) -> None:
    shard = ShardRecords(rng)
    known = explored(rng, shard)
    last = known.last
    if last is None:
        return
    found = known.after_rows(rows, last.behind)
    if isinstance(found, Gap):
        at = found.record.position + found.rows * STEP
        assert at == known.start + rows * STEP
    else:
        assert found == min(known.start + rows * STEP, last.behind)


def test_large_pages_are_kept_in_part() -> None:
    """Ten thousand records leave fewer than 300 known records, and are still counted exactly."""
    known = KnownRecords(STEP)
    known.add_page([((i + 1) * STEP, 1000 + i) for i in range(10_000)], at_start=True)
    assert known.last is not None
    assert sum(1 for _ in known.up_to(known.last.behind)) < 300
    assert known.rows_to(known.last.behind) == 10_000
    gap = known.after_rows(55, known.last.behind)
    assert isinstance(gap, Gap)
    assert gap.record.position + gap.rows * STEP == 56 * STEP


def test_a_fixed_number_of_records_is_kept_however_many_small_pages_come() -> None:
    """A shard that is held back gets a few records in each plan. All are counted, and cuts are exact or unknown."""
    known, count = KnownRecords(STEP), 20_000
    for first in range(0, count, 10):
        page = [((i + 1) * STEP, 1000 + i) for i in range(first, first + 10)]
        known.add_page(page, at_start=not first)
    assert known.last is not None
    assert known.last.position == count * STEP
    assert len(list(known.up_to(known.last.behind))) <= 1000
    assert known.rows_to(known.last.behind) == count
    for i in range(0, count, 7):
        assert known.first_at_or_after(1000 + i, known.last.behind) in {None, (i + 1) * STEP}
        assert known.rows_before(1000 + i, known.last.behind) in {i, i + 1}
    assert known.after_rows(100, known.last.behind) == 101 * STEP


def test_a_fixed_number_of_records_is_kept_however_many_are_looked_up() -> None:
    known = KnownRecords(STEP)
    for i in range(3000):
        known.add_probe(1000 + i, (i + 1) * STEP, 1000 + i)
    assert known.last is not None
    assert known.last.position == 3000 * STEP
    assert len(list(known.up_to(known.last.behind))) <= 1000
