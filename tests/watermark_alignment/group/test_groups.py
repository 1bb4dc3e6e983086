"""Rules 2, 4, 7 and 8 hold across the members of a group, each with its own triggers and batches."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exploring import examples
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.group_lives import random_group
from tests.watermark_alignment.support.group_world import TIMEOUT, GroupWorld, Seat
from tests.watermark_alignment.support.invariants import AlignedMembers
from tests.watermark_alignment.support.simulator import LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.group.group_view import GroupView
from watermark_alignment.planner import GROUP

seeds = st.integers(0, 2**32).map(Random)


@settings(max_examples=examples(300))
@given(seeds)
def test_i3_i6_i10_i11_hold_whatever_happens_to_a_group(rng: Random) -> None:
    """I1 to I3 and I5 to I11 hold while members stall, freeze, die, return silent and behind, finish and go idle, and
    while the table fails.

    An AvailableNow run gives up no member that moved while it waited, and it ends at its frozen ends.
    """
    assert random_group(rng, 150).breaches == []


@pytest.mark.parametrize("lie", [None, 1])
def test_i3_fails_where_a_member_ignores_the_floor(lie: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3 is broken where a member ignores the floor, and where the floor is one millisecond too high."""
    floor = GroupView.floor

    def wrong(*args: object) -> int | None:
        true = floor(*args)  # type: ignore[arg-type]
        return None if true is None or lie is None else true + lie

    monkeypatch.setattr(GroupView, "floor", wrong)
    breaches = [breach for seed in range(40) for breach in random_group(Random(seed), 100).breaches]
    assert {breach.split()[0] for breach in breaches} == {"I3"}


@settings(max_examples=10)
@given(seeds)
def test_i11_all_rows_are_read_whatever_happened_to_the_group(rng: Random) -> None:
    """After any random life all data is read (I11).

    No member holds the others for ever: a dead one is gone after the timeout, and a live one reads or is idle.
    """
    world = random_group(rng, 60, idle_timeout=5)
    world.runs_again()
    for seat in world.seats:
        seat.member.thaw()
        for log in seat.member.logs.values():
            log.open = 0
    read, quiet = len(world.batches), 0
    while quiet < 5 * TIMEOUT:
        world.tick()
        moved = any(batch.moved() for batch in world.batches[read:])
        read, quiet = len(world.batches), 0 if moved else quiet + 1
        assert world.now < 100_000
    for seat in world.seats:
        ends = {s: len(log.entries) for s, log in seat.member.logs.items()}
        assert not seat.is_there or ends == {s: kept.position for s, kept in seat.member.kept.items()}
    assert world.breaches == []


def seat(name: str, max_drift: int, interval: int = 1, length: int = 1, bound: int = 0) -> Seat:
    member = SimulatedMember(
        LifeSettings(max_drift=max_drift, out_of_orderness=bound, idle_timeout=0), {name: SplitLog([1])}
    )
    return Seat(member, entry(name, timeout_ms=TIMEOUT), interval=interval, length=length)


def lags(max_drift: int, slow: Seat) -> tuple[int, int]:
    """Returns how far (ms) two members are behind at most in the second half of a life in which a record comes to
    each log every millisecond.
    """
    fast = seat("fast", max_drift)
    world, worst = GroupWorld([slow, fast]), [0, 0]
    for turn in range(400):
        for number, each in enumerate((slow, fast)):
            each.member.logs[each.name].entries.append(world.now + 1)
            if turn > 200:
                worst[number] = max(worst[number], world.now - (each.read_max or 0))
        world.tick()
    assert world.breaches == []
    return worst[0], worst[1]


@pytest.mark.parametrize("is_long", [False, True])
def test_a_group_advances_by_max_drift_in_the_longest_trigger_interval(is_long: bool) -> None:
    """A group advances by max-drift in each interval of its slowest member, whether its trigger or its batch makes
    the interval.

    If max-drift equals the interval the group keeps up. At twice the interval no member waits for another; at half of
    it all members fall behind.
    """

    def slow(max_drift: int) -> Seat:
        return seat("slow", max_drift, interval=1 if is_long else 20, length=20 if is_long else 1)

    assert lags(20, slow(20)) == (19, 18)
    assert lags(40, slow(40)) == (19, 0)
    assert min(lags(10, slow(10))) > 180


@pytest.mark.parametrize("length", [TIMEOUT // 2, 10 * TIMEOUT])
def test_a_member_in_a_long_batch_holds_the_others(length: int) -> None:
    """A member in a long batch holds the others.

    A member that dies in it holds them until the timeout after its last entry.
    """
    slow, fast = seat("slow", 10, length=length), seat("fast", 10)
    fast.member.logs["fast"].entries = [*range(1, 100)]
    world = GroupWorld([slow, fast])
    for _ in range(length):
        world.tick()
    assert fast.read_max == 11
    assert world.batches[-1].plan.held_by == GROUP
    world.stop(world.queries[0], says_so=False)
    died = slow.said_at
    while fast.read_max == 11:
        world.tick()
    assert died + TIMEOUT < world.now <= died + TIMEOUT + 2
    assert world.breaches == []


BOUNDS = [(7, 5, 3, 2), (3, 2, 7, 5), (7, 0, 0, 5), (1, 0, 0, 0)]


def dropped(fast: tuple[int, int], slow: tuple[int, int], delay: int) -> list[str]:
    """Returns the breaches in a life in which the slow member falls back by its whole out-of-orderness, and the fast
    one is ahead by all that is allowed.
    """
    members = [
        SimulatedMember(
            LifeSettings(max_drift=drift, out_of_orderness=bound, idle_timeout=0), {name: SplitLog([100])}
        )
        for name, (drift, bound) in (("slow", slow), ("fast", fast))
    ]
    members[1].logs["fast"].entries = [*range(100, 200)]
    world = AlignedMembers(members, delay)
    for _ in range(2):
        for number in range(2):
            world.round(1, number)
    assert max(t for b in world.batches for t in b.rows.get("fast", [])) == 100 - slow[1] + sum(fast)
    members[0].logs["slow"].entries.append(100 - slow[1])
    world.round(2, 0)
    return world.breaches


@pytest.mark.parametrize(("drift", "bound", "its_drift", "its_bound"), BOUNDS)
def test_i4_the_delay_holds_at_its_boundary_across_members(
    drift: int, bound: int, its_drift: int, its_bound: int
) -> None:
    """I4: D > max-drift + B of every member drops nothing; at D = max-drift + B of a member that is ahead a row is
    lost.

    The out-of-orderness of a member that is behind is in its watermark, so it need not be added.
    """
    fast, slow = (drift, bound), (its_drift, its_bound)
    assert dropped(fast, slow, drift + bound + 1) == []
    assert dropped(fast, slow, drift + bound) == [f"I4 slow lost [{100 - its_bound}]"]


@pytest.mark.parametrize(("drifts", "order"), list(product([(10, 10), (10, 30)], ["one first", "two first"])))
def test_sources_of_one_query_start_aligned_whoever_is_asked_first(
    drifts: tuple[int, int], order: str
) -> None:
    """Sources of one query start aligned.

    The first plan of each only publishes, so that neither passes the other before it is known (rule 7).
    """
    early, late = seat("early", drifts[0]), seat("late", drifts[1])
    early.member.logs["early"].entries = [*range(1, 1000, 5)]
    late.member.logs["late"].entries = [*range(500, 1000, 5)]
    world = GroupWorld([early, late] if order == "one first" else [late, early])
    read = []
    for _ in range(300):
        world.tick()
        if early.read_max is not None and late.read_max is not None:
            read.append((early.read_max, late.read_max))
    assert read[0][0] >= 500 - drifts[1] - 5
    assert (early.read_max, late.read_max) == (996, 995)
    assert world.breaches == []
