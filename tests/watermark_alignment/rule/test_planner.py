"""Tests of the planner by example. Ids such as AL-01 are scenarios of Flink's own tests, restated for this planner.

Where Flink allows a watermark up to some maximum, the horizon is that maximum + 1, since a record at the maximum is
read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.watermark_alignment.support.simulator import Entry, Kept, LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.planner import END_OF_TIME, GROUP, Plan, SplitView, plan
from watermark_alignment.states import SplitStatus

ACTIVE, PAUSED, IDLE, FINISHED = SplitStatus


def caught_up(split: str, read_max: int | None, quiet_since: int | None = None) -> SplitView:
    return SplitView(split, position=1, end=1, read_max=read_max, quiet_since=quiet_since)


def plan_of(
    *views: SplitView, drift: int = 1000, floor: int | None = None, now: int = 0, idle_timeout: int = 10
) -> Plan:
    """Returns a plan of splits that have nothing to read."""
    return plan(
        views,
        lambda horizon: {},
        limit=None,
        max_drift=drift,
        out_of_orderness=0,
        idle_timeout=idle_timeout,
        now=now,
        floor=floor,
    )


def source(drift: int = 0, limit: int | None = None, **logs: Sequence[Entry]) -> SimulatedMember:
    settings = LifeSettings(limit=limit, max_drift=drift, idle_timeout=100)
    return SimulatedMember(settings, {s: SplitLog(list(entries)) for s, entries in logs.items()})


def allowing(maximum: int) -> int:
    """Returns the floor by which a group allows a member with drift 0 to read up to ``maximum``."""
    return maximum - 1


def paused(of: Plan) -> set[str]:
    return {s for s, state in of.states.items() if state is PAUSED}


# Group minimum


def test_allowed_maximum_follows_the_slowest() -> None:
    """The allowed maximum follows the slowest split (AL-01).

    With drift 1000, splits at 42, at 42 and 44, and at 5000 and 44 allow reading up to 1042, 1042 and 1044.
    """
    horizons = [
        plan_of(caught_up("r0", 42)).horizon,
        plan_of(caught_up("r0", 42), caught_up("r1", 44)).horizon,
        plan_of(caught_up("r0", 5000), caught_up("r1", 44)).horizon,
    ]
    assert horizons == [1043, 1043, 1045]


def test_idle_stops_counting_and_comes_back() -> None:
    """An idle split does not count, and counts again once it is active (AL-02, AL-03, WM-10).

    While the split at 42 is idle, the maximum is 1044; when it is active again at 42, the maximum falls back to 1042.
    """
    idle, back = caught_up("r0", 42, quiet_since=0), caught_up("r0", 42, quiet_since=11)
    assert plan_of(idle, caught_up("r1", 44), now=11).horizon == 1045
    assert plan_of(back, caught_up("r1", 44), now=11).horizon == 1043


def test_a_plan_of_idle_splits_is_unbounded() -> None:
    """If all splits are idle there is neither a horizon nor a floor, and nothing overflows (AL-04, WM-27)."""
    idle = plan_of(caught_up("r0", 42, quiet_since=0), caught_up("r1", 44, quiet_since=0), now=11)
    assert (idle.horizon, idle.own_watermark) == (None, None)
    assert set(idle.states.values()) == {IDLE}


def test_groups_do_not_see_each_other() -> None:
    """Without a floor from the other's group, a split at 5000 may go on to 6000, and one at 44 to 1044 (AL-06)."""
    assert plan_of(caught_up("r0", 5000)).horizon == 6001
    assert plan_of(caught_up("r1", 44)).horizon == 1045


@pytest.mark.parametrize("drift", [100, 1000])
def test_each_member_adds_its_own_drift(drift: int) -> None:
    """A member adds its own drift to the one minimum of the group (AL-13). Watermark 41 is front 42."""
    assert plan_of(floor=41, drift=drift).horizon == 42 + drift + 1


def test_floor_is_the_least_watermark_that_counts() -> None:
    """The floor is the least watermark that counts, here of splits at 2, at 5 and an idle one.

    A watermark is front - B - 1 (AO-09, WM-09, WM-02).
    """
    views = caught_up("a", 2), caught_up("b", 5), caught_up("c", 1, quiet_since=0)
    assert plan_of(*views, now=11).own_watermark == 1
    member = SimulatedMember(LifeSettings(out_of_orderness=10, max_drift=0), {"s": SplitLog([1337])})
    assert member.round(1).plan.own_watermark == 1326


def test_a_split_without_reports_does_not_block() -> None:
    """A split that has reported nothing does not hold others, and publishes no floor.

    Unknown is ``None`` and never a minimum (AL-15, AL-17, AO-03).
    """
    unknown = caught_up("r0", None)
    assert plan_of(unknown, caught_up("r1", 44)).horizon == 1045
    alone = plan_of(unknown)
    assert (alone.horizon, alone.own_watermark, alone.fronts, alone.states) == (
        None,
        None,
        {"r0": None},
        {"r0": ACTIVE},
    )


def test_a_plan_without_splits_has_no_limit() -> None:
    """A plan without splits has no limit, no idle state and no watermark (AL-16, WM-12)."""
    nobody = plan_of()
    assert (nobody.horizon, nobody.own_watermark, nobody.held_by, nobody.ends) == (None, None, None, {})
    assert plan_of(floor=41).horizon == 1043


@pytest.mark.parametrize(("front", "drift"), [(42, END_OF_TIME), (END_OF_TIME, 1), (END_OF_TIME - 43, 42)])
def test_a_horizon_that_overflows_is_unbounded(front: int, drift: int) -> None:
    """A horizon that would overflow is unbounded, for splits and for the group (AL-18)."""
    assert plan_of(caught_up("r0", front), drift=drift).horizon is None
    assert plan_of(floor=front - 1, drift=drift).horizon is None


def test_the_first_batch_after_a_restart_is_aligned() -> None:
    """The first batch after a restart is aligned, since the offset has what was read (AL-19, AS-12)."""
    member = source(a=[5], b=[4, 9])
    member.round(1)
    member.logs["b"].entries.append(10)
    member.restart()
    again = member.round(2)
    assert (again.plan.horizon, again.plan.held_by, paused(again.plan)) == (6, "a", {"b"})


# Pausing


def test_a_split_above_the_limit_is_paused() -> None:
    """A split above the limit is paused (AS-01, AO-01).

    Of [5, 11] and [3, 12], 5 was read before; at limit 4, 3 is read and 11 is not, however often it is planned.
    """
    member = source(s0=[5, 11], s1=[3, 12])
    member.kept["s0"] = Kept(position=1, read_max=5)
    assert member.round(1, floor=allowing(4)).rows == {"s0": [], "s1": [3]}
    for now in (2, 3):
        batch = member.round(now, floor=allowing(4))
        assert (batch.moved(), paused(batch.plan), batch.plan.held_by) == (0, {"s0", "s1"}, GROUP)


def test_a_split_at_the_limit_goes_on() -> None:
    """A record at the limit is read, and one above it is not (AS-02, AO-08)."""
    assert source(s0=[5, 11]).round(1, floor=allowing(4)).plan.states == {"s0": PAUSED}
    batch = source(s0=[5, 11]).round(1, floor=allowing(5))
    assert (batch.plan.states, batch.rows) == ({"s0": ACTIVE}, {"s0": [5]})


def test_no_record_above_the_limit_is_read() -> None:
    """No record above the limit is read (AS-03, AS-15, AO-02, AO-10, adapted).

    Flink emits the record that crosses the limit; here the range ends before it.
    """
    member = source(s0=[5, 11], s1=[3, 12])
    assert member.round(1, floor=allowing(5)).rows == {"s0": [5], "s1": [3]}
    assert paused(member.round(2, floor=allowing(5)).plan) == {"s0", "s1"}
    one = source(s=[1000, 2000, 3000])
    floors = [999, 1000, 1001, 2000]
    assert [one.round(1, floor=allowing(floor)).rows["s"] for floor in floors] == [[], [1000], [], [2000]]


def test_a_paused_split_does_not_become_idle() -> None:
    """A paused split does not become idle, however long the pause lasts, among several splits and alone (AS-04,
    AS-05).
    """
    member = source(s0=[5, 105], s1=[3] * 7 + [105])
    for now in range(0, 1000, 99):
        batch = member.round(now, floor=allowing(5))
        assert batch.plan.horizon == 6
        assert IDLE not in batch.plan.states.values()
    assert paused(batch.plan) == {"s0", "s1"}
    single = source(s=[1, 1, 1, 1, 5, 105])
    states = [single.round(now, floor=allowing(4)).plan.states["s"] for now in range(0, 1000, 100)]
    assert states == [ACTIVE] + 9 * [PAUSED]


def test_a_finished_split_is_not_considered() -> None:
    """A finished split holds no other split, is not paused, and does not count for the group (AS-06, AS-10, AO-06,
    WM-16).
    """
    member = source(s0=[5], s1=[9, 20])
    member.freeze()
    first, second = member.round(1), member.round(2)
    assert first.rows == {"s0": [5], "s1": [9, 20]}
    assert (second.plan.states, second.plan.own_watermark) == ({"s0": FINISHED, "s1": FINISHED}, None)
    assert plan_of(SplitView("s0", 1, 1, 5, final=True), floor=allowing(4)).states == {"s0": FINISHED}


def test_a_split_has_one_state_at_a_time() -> None:
    """A split has one state at a time (AS-08).

    Splits [5, 6] and [3, 8] meet the limits 4, 7 and 10: a paused split is never idle, and an idle split that gets
    data above the limit is paused.
    """
    member = source(s0=[5, 6], s1=[3])
    told = []
    for now, limit, arrives in ((0, 4, ""), (101, 4, ""), (102, 7, ""), (103, 7, "s1"), (104, 10, "s0")):
        if arrives:
            member.logs[arrives].entries.append(8)
        batch = member.round(now, floor=allowing(limit))
        told.append((batch.plan.states["s0"], batch.plan.states["s1"]))
    assert told == [(PAUSED, ACTIVE), (PAUSED, IDLE), (ACTIVE, IDLE), (ACTIVE, PAUSED), (ACTIVE, ACTIVE)]


def test_a_single_split_is_paused_too() -> None:
    """A single split is paused too, as in later versions of Flink (AS-11)."""
    assert source(s=[9]).round(1, floor=allowing(4)).plan.states == {"s": PAUSED}


def test_a_split_with_an_unknown_next_record_is_not_paused() -> None:
    """A split whose next record is unknown is not paused (AS-13)."""
    assert source(s=[None]).round(1, floor=allowing(4)).plan.states == {"s": ACTIVE}
    assert plan_of(caught_up("s", None), floor=allowing(4)).states == {"s": ACTIVE}


def test_a_pause_is_not_stored() -> None:
    """A split that comes back under its id is planned by its present data, since no pause is stored (AS-14)."""
    member = source(s=[9])
    member.round(1, floor=allowing(4))
    member.logs["s"], member.kept = SplitLog([3]), {}
    assert member.round(2, floor=allowing(4)).rows == {"s": [3]}


# Watermarks and idleness


def test_a_split_is_idle_strictly_after_the_timeout() -> None:
    """A split is idle only after more than the timeout, here 10, since it was first seen at its end.

    It stays idle from then on (WM-06, WM-07).
    """
    member = SimulatedMember(LifeSettings(idle_timeout=10), {"s": SplitLog([1])})
    states = [member.round(now).plan.states["s"] for now in (0, 0, 10, 11, 12, 100)]
    assert states == [ACTIVE, ACTIVE, ACTIVE, IDLE, IDLE, IDLE]


def test_a_split_without_a_timeout_is_never_idle() -> None:
    """With an idle timeout of 0 no split is ever idle (I9)."""
    assert plan_of(caught_up("s", 1, quiet_since=0), now=10**12, idle_timeout=0).states == {"s": ACTIVE}


def test_a_clock_step_back_makes_nothing_idle() -> None:
    """A clock that steps back makes no split idle, also if the stored time lies far in the future (I9)."""
    assert plan_of(caught_up("s", 1, quiet_since=10**12), now=0).states == {"s": ACTIVE}


def test_an_idle_split_comes_back_with_its_own_front() -> None:
    """A split that was idle comes back with its own front (AO-04, AO-05, WM-11, WM-18, adapted).

    What other splits have read meanwhile is kept. They are then paused until this split has caught up.
    """
    member = source(a=[2], b=[2, 500])
    for now in (0, 101, 102):
        member.round(now)
    assert member.kept["b"].read_max == 500
    member.logs["a"].entries += [3, 400]
    member.logs["b"].entries += [501]
    back = member.round(103)
    assert (back.plan.fronts, back.plan.own_watermark, paused(back.plan)) == ({"a": 3, "b": 501}, 2, {"b"})
    assert back.rows == {"a": [3, 400], "b": []}


def test_a_removed_split_no_longer_counts() -> None:
    """A removed split no longer counts at the next plan, whatever it held before (WM-16, WM-17, WM-20)."""
    lower, higher = caught_up("lower", 156765), caught_up("higher", 156775)
    assert plan_of(lower, higher, drift=0).horizon == 156766
    assert plan_of(higher, drift=0).horizon == 156776
    assert plan_of(drift=0).own_watermark is None


def test_a_plan_without_splits_is_not_idle() -> None:
    """A plan without splits has no state, and so is not idle (WM-19)."""
    assert plan_of().states == {}


def test_restored_splits_count_before_they_are_read() -> None:
    """Restored splits count before they are read (WM-21): of [1042, 1044] and [42, 44], the later split waits for the
    earlier one.
    """
    member = source(limit=1, s0=[1042, 1044], s1=[42, 44])
    assert [member.round(1).rows for _ in range(3)] == [
        {"s0": [], "s1": [42]},
        {"s0": [], "s1": [44]},
        {"s0": [], "s1": []},
    ]


def test_records_without_progress_are_activity() -> None:
    """A split is not idle while records arrive, even if event time stands still (WM-26)."""
    member = SimulatedMember(LifeSettings(idle_timeout=10), {"s": SplitLog([7])})
    for now in range(0, 200, 9):
        assert member.round(now).plan.states == {"s": ACTIVE}
        member.logs["s"].entries.append(7)


def test_a_split_is_idle_beside_one_that_never_reports() -> None:
    """If one split is idle and the other has never reported, there is neither a floor nor a horizon (WM-29)."""
    both = plan_of(caught_up("idle", 5, quiet_since=0), caught_up("silent", None), now=11)
    assert (both.states, both.own_watermark, both.horizon) == ({"idle": IDLE, "silent": ACTIVE}, None, None)


# Rules without a scenario of Flink


def test_available_now_ends_though_all_are_held_in_a_live_run() -> None:
    """A split at its frozen end holds no other split back, so that an AvailableNow run ends (AO-07)."""
    member = source(a=[1], b=[1, 900])
    assert member.round(1).rows == {"a": [1], "b": [1]}
    assert member.round(2).plan.held_by == "a"
    member.freeze()
    assert member.round(3).rows == {"a": [], "b": [900]}
    assert set(member.round(4).plan.states.values()) == {FINISHED}


def test_a_leader_that_does_not_answer_holds_by_its_last_front() -> None:
    """A split whose leader does not answer holds the others by its last front.

    It is neither empty, idle nor finished, however long that lasts (rule 5).
    """
    member = source(a=[4, 7], b=[4, 9])
    assert [member.round(1, floor=allowing(4)).moved() for _ in range(2)] == [2, 0]
    for now in (2, 1000):
        batch = member.round(now, unanswered=frozenset({"a"}))
        assert (batch.plan.fronts["a"], batch.plan.states) == (7, {"a": ACTIVE, "b": PAUSED})
        assert batch.plan.held_by == "a"


def test_a_split_with_an_open_transaction_is_not_empty() -> None:
    """A split with an open transaction is not idle (rule 9).

    Nothing can be read, but the log end is beyond its position.
    """
    member = SimulatedMember(
        LifeSettings(idle_timeout=10, max_drift=0), {"a": SplitLog([4, 5], open=1), "b": SplitLog([4, 9])}
    )
    for now in (1, 50, 100):
        batch = member.round(now)
    assert batch.plan.states == {"a": ACTIVE, "b": PAUSED}


def test_the_smallest_step_is_shared() -> None:
    """The smallest step is shared: others get what one split does not need, and the limit is used up (rule 1)."""
    batch = source(limit=7, a=[5] * 10, b=[5, 9], c=[5] * 10, d=[6]).round(1)
    assert {s: len(rows) for s, rows in batch.rows.items()} == {"a": 3, "b": 1, "c": 3, "d": 0}
    assert (batch.plan.horizon, set(batch.plan.cut), paused(batch.plan)) == (6, {"a", "c"}, {"d"})


def test_records_without_event_time_are_read_with_their_neighbours() -> None:
    """Records without an event time are read with their neighbours (rule 1), also at the end, where no record
    follows.
    """
    assert source(a=[None, 4, None, 9], b=[4]).round(1).plan.ends == {"a": 3, "b": 1}
    assert source(a=[4, None], b=[4]).round(1).plan.ends == {"a": 2, "b": 1}


def test_an_unbounded_horizon_stays_unbounded_where_the_limit_binds() -> None:
    """An unbounded horizon is ``None`` also where the limit binds (rule 1).

    There are only records without an event time, more than the limit, and no split holds another.
    """
    batch = source(limit=3, a=[None] * 5, b=[None] * 5).round(1)
    assert (batch.plan.horizon, batch.moved(), set(batch.plan.cut)) == (None, 3, {"a", "b"})
