"""Invariants I1 to I12 hold over many random lives of splits. ``test_mutants.py`` shows that each can fail."""

from __future__ import annotations

from itertools import count, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exploring import examples
from tests.watermark_alignment.support.invariants import (
    AlignedMembers,
    endless_ties,
    littered_world,
    random_world,
)
from tests.watermark_alignment.support.simulator import LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.planner import GROUP
from watermark_alignment.states import SplitStatus

seeds = st.integers(0, 2**32).map(Random)
shrinking = st.randoms(use_true_random=False)  # lives that hypothesis can simplify, four times slower


@given(seeds)
def test_i1_nothing_at_or_above_the_horizon_is_read(rng: Random) -> None:
    """No record at or above the horizon is read, and every range starts at the old position and stays within the end
    (I1).
    """
    assert random_world(rng).breached("I1") == []


@given(seeds, st.integers(1, 4))
def test_i2_cost_stays_within_the_limit(rng: Random, limit: int) -> None:
    """The cost of a plan stays within the limit, also with ties and with a limit below the number of splits (I2)."""
    assert random_world(rng, limit=limit).breached("I2") == []


@settings(max_examples=examples(100))
@given(shrinking, st.sampled_from([None, 2]))
def test_i3_drift_is_within_its_limit_at_every_boundary(rng: Random, limit: int | None) -> None:
    """The drift is within its limit after every batch, with a read limit and without one (I3)."""
    assert random_world(rng, limit=limit).breached("I3") == []


@settings(max_examples=examples(100))
@given(shrinking, st.integers(0, 9), st.integers(0, 3))
def test_i4_no_covered_row_is_dropped(rng: Random, max_drift: int, bound: int) -> None:
    """No covered row is dropped at the least safe delay, with a no-data batch between any two batches (I4)."""
    world = random_world(rng, max_drift=max_drift, out_of_orderness=bound)
    assert world.breached("I4") == []


def at_the_boundary(max_drift: int, bound: int, delay: int, no_data_batches: bool = True) -> AlignedMembers:
    """Returns a world in which one split falls back by the whole bound, and the other is ahead of it by the whole
    drift.
    """
    drawn = LifeSettings(limit=None, max_drift=max_drift, out_of_orderness=bound, idle_timeout=0)
    slow, fast = SplitLog([100]), SplitLog([100 + max_drift])
    world = AlignedMembers([SimulatedMember(drawn, {"fast": fast, "slow": slow})], delay, no_data_batches)
    world.round(1)
    slow.entries.append(100 - bound)
    world.round(2)
    return world


@pytest.mark.parametrize(("max_drift", "bound"), list(product([0, 1, 7], [0, 1, 5])))
def test_i4_a_delay_drops_no_row_at_its_boundary(max_drift: int, bound: int) -> None:
    """A delay D > max-drift + B drops nothing; D = max-drift + B drops a row (I4)."""
    safe = at_the_boundary(max_drift, bound, max_drift + bound + 1)
    assert [b.rows for b in safe.batches] == [
        {"fast": [100 + max_drift], "slow": [100]},
        {"fast": [], "slow": [100 - bound]},
    ]
    assert safe.breaches == []
    assert at_the_boundary(max_drift, bound, max_drift + bound).breaches == [f"I4 slow lost [{100 - bound}]"]


def test_i4_spark_hides_an_off_by_one_without_a_no_data_batch() -> None:
    """Spark filters rows with the watermark of the batch before, which hides a delay that is one too short (I4).

    So the other tests run a no-data batch before each batch.
    """
    assert at_the_boundary(7, 5, 12, no_data_batches=False).breaches == []


@given(seeds)
def test_i5_pausing_has_a_witness(rng: Random) -> None:
    """A paused split has a record at or after the horizon.

    The split with the earliest record is paused only where a holder is named (I5).
    """
    assert random_world(rng).breached("I5") == []


@given(seeds)
def test_i6_at_least_one_row_moves(rng: Random) -> None:
    """At least one row moves as long as something below the cap can be read (I6)."""
    assert random_world(rng).breached("I6") == []


@given(seeds)
def test_i6_endless_ties_starve_no_split(rng: Random) -> None:
    """Each of n splits with endless ties is read in any n batches, though the limit is below n (I6)."""
    assert endless_ties(rng).breaches == []


@given(seeds)
def test_sparse_positions_keep_all_invariants(rng: Random) -> None:
    """I1 to I11 hold with positions like sequence numbers, which have gaps.

    A plan has only positions that the connector returned.
    """
    assert random_world(rng, sparse=True).breaches == []


@given(seeds, st.sampled_from([0.2, 0.7, 3.0]))
def test_wrong_estimates_change_only_how_much_is_read(rng: Random, estimate: float) -> None:
    """Wrong estimates of rows break only I2 and I7, which count rows: the limit holds for the estimates."""
    assert random_world(rng, sparse=True, estimate=estimate, budget=False).breaches == []


@given(seeds)
def test_ties_at_sparse_positions_starve_no_split(rng: Random) -> None:
    """No split starves with sparse positions and a limit of one row (I6).

    A checksum of the positions decides whose turn it is, since all positions may be even.
    """
    names = [f"s{i}" for i in range(rng.randrange(2, 6))]
    world = AlignedMembers(
        [SimulatedMember(LifeSettings(limit=1, sparse=True), {s: SplitLog([7] * 60) for s in names})]
    )
    fed = {s for _ in range(60) for s, rows in world.round(1000).rows.items() if rows}
    assert fed == set(names)
    assert world.breaches == []


def catch_up(max_drift: int, shares: list[int], limit: int | None) -> int:
    """Returns how many batches a backlog of six hours takes.

    ``shares`` has the seconds between two records of each split.
    """
    records = {f"s{i}": range(share, 6 * 3600 + 1, share) for i, share in enumerate(shares)}
    logs = {s: SplitLog([second * 1000 for second in seconds]) for s, seconds in records.items()}
    world = AlignedMembers(
        [SimulatedMember(LifeSettings(limit=limit, max_drift=max_drift, idle_timeout=0), logs)]
    )
    batches = 0
    while any(world.round(1).rows.values()):
        batches += 1
    assert world.breaches == []
    assert all(world.members[0].kept[s].position == len(log.entries) for s, log in logs.items())
    return batches


@pytest.mark.parametrize("limit", [None, 50])
def test_i7_catching_up_does_not_depend_on_max_drift(limit: int | None) -> None:
    """Balanced splits take the same number of batches for a max-drift of 1 s, 1 min and 1 h (I7, AS-22 to AS-25).

    In Flink a backlog is read at max-drift per update, against which it remembers some watermarks; here nothing has
    to be remembered.
    """
    drifts = (1_000, 60_000, 3_600_000)
    counts = {catch_up(drift, shares=[300, 300, 150], limit=limit) for drift in drifts}
    assert counts == {1 if limit is None else 6}


@given(seeds)
def test_i7_the_horizon_is_the_greatest_that_fits(rng: Random) -> None:
    """The horizon is the greatest that fits the limit, on which I7 rests.

    Where not even the smallest step fits, its rows are shared equally, to the last row.
    """
    assert random_world(rng).breached("I7") == []


@given(seeds)
def test_i8_same_input_same_plan(rng: Random) -> None:
    """The same input gives the same plan, whatever the order of the splits (I8)."""
    assert random_world(rng).breached("I8") == []


@given(seeds)
def test_i8_planning_again_with_nothing_new_returns_the_start(rng: Random) -> None:
    """A second plan without a limit and without new data reads nothing: what the first plan did not read, it does not
    read either (I8).
    """
    world = random_world(rng, limit=None, exact_reach=True)
    member = world.members[0]
    world.round(10**6)
    kept = dict(member.kept)
    for _ in range(2):
        assert world.round(10**6).moved() == 0
    assert member.kept == kept


@given(seeds, st.integers(1, 30))
def test_i9_idle_is_proven(rng: Random, idle_timeout: int) -> None:
    """A split is idle only if one log end was seen twice, more than the timeout apart.

    It never becomes idle while it is paused, unanswered or in an open transaction, or because a clock stepped (I9).
    """
    assert random_world(rng, idle_timeout=idle_timeout).breached("I9") == []


@given(seeds)
def test_i10_fronts_never_fall(rng: Random) -> None:
    """The front of a split never decreases while the split counts, and an unknown front is ``None`` (I10)."""
    assert random_world(rng).breached("I10") == []


@given(seeds, st.integers(2, 3))
def test_i11_every_member_moves_or_names_a_holder(rng: Random, members: int) -> None:
    """Every member of a group moves or names a holder, and all other invariants hold too, while the rows of the group
    meet in one query (I11).
    """
    assert random_world(rng, rounds=5, members=members).breaches == []


@given(seeds)
def test_i11_members_of_a_group_never_hold_each_other_for_ever(rng: Random) -> None:
    """Once transactions are decided and splits without data are idle, the members of a group read everything,
    whatever their lives were before (I11).
    """
    world = random_world(rng, rounds=3, members=3, idle_timeout=5)
    for m in world.members:
        m.thaw()
        for log in m.logs.values():
            log.open = 0
    quiet = 0
    for now in count(10**6, 10):
        rounds = [world.round(now, number) for number in range(3)]
        quiet = 0 if any(b.moved() for b in rounds) else quiet + 1
        if quiet == 4:  # long enough for every split that can be idle
            break
    assert [v for b in rounds for v in b.views.values() if v.position < v.end] == []
    assert {b.plan.own_watermark for b in rounds} == {None}
    assert world.breaches == []


@given(seeds)
def test_i11_available_now_ends_at_the_frozen_ends(rng: Random) -> None:
    """An AvailableNow run ends at its frozen ends, and no batch before that is empty (I11)."""
    world = random_world(rng, rounds=4)
    member = world.members[0]
    member.freeze()
    while world.round(10**6).moved():
        pass
    assert member.frozen is not None
    assert {s: kept.position for s, kept in member.kept.items()} == member.frozen
    assert set(world.batches[-1].plan.states.values()) == {SplitStatus.FINISHED}
    assert world.breaches == []


@given(seeds)
def test_i12_splits_that_do_not_count_change_no_plan_of_the_others(rng: Random) -> None:
    """The plans of the other splits are the same for the log of one split with and without markers and aborted, null
    and implausible records (I12).
    """
    assert littered_world(rng).breaches == []


def sorted_logs(longest: int) -> list[tuple[int, ...]]:
    times = (1, 2, 4)
    return [log for n in range(longest + 1) for log in product(times, repeat=n) if list(log) == sorted(log)]


@pytest.mark.parametrize("limit", [None, 1, 2, 3])
def test_all_invariants_hold_in_all_small_cases(limit: int | None) -> None:
    """I1 to I12 hold in all small cases: two backlogs, and a split that is caught up at 1 and then gets late data."""
    for first, second in product(sorted_logs(2), sorted_logs(2)):
        for max_drift, late in product((0, 1, 2), ((), (1,), (3,))):
            logs = {"a": SplitLog(list(first)), "b": SplitLog(list(second)), "c": SplitLog([1])}
            world = AlignedMembers([SimulatedMember(LifeSettings(limit, max_drift, idle_timeout=5), logs)])
            for now in (0, 3, 6):
                world.round(now)
            logs["c"].entries += late
            for now in (7, 9, 20):
                world.round(now)
            assert world.breaches == [], (first, second, max_drift, late)


def test_a_plan_asks_few_questions() -> None:
    """A plan asks where a horizon lies once if everything fits, and a few times if not.

    Each such question is a round trip to the external system.
    """
    rng = Random(1)
    hour = 3_600_000
    logs = {f"s{i}": SplitLog([*sorted(rng.randrange(1, 6 * hour) for _ in range(500))]) for i in range(4)}
    member = SimulatedMember(LifeSettings(limit=2000, max_drift=hour, idle_timeout=0), logs)
    assert member.round(1).calls == 1
    member = SimulatedMember(LifeSettings(limit=100, max_drift=hour, idle_timeout=0), logs)
    calls = [member.round(1).calls for _ in range(20)]
    assert sum(calls) / len(calls) <= 10
    assert max(calls) <= 2 * (6 * hour).bit_length() + 6


def test_the_group_is_named_where_it_holds() -> None:
    """A plan that is held by the group names ``GROUP`` as its holder, and no split's id (I5, I11)."""
    member = SimulatedMember(LifeSettings(max_drift=0), {"s": SplitLog([10])})
    batch = member.round(1, floor=5)
    assert (batch.plan.held_by, batch.plan.states["s"]) == (GROUP, SplitStatus.PAUSED)
