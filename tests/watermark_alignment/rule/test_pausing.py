"""Tests of pausing by what was read (FLIP-217), the scenarios AS-*."""

from __future__ import annotations

from watermark_alignment.pausing import plan_by_pausing
from watermark_alignment.planner import GROUP, Plan, SplitView
from watermark_alignment.states import SplitStatus


def plan(*views: SplitView, limit: int | None = None, floor: int | None = None) -> Plan:
    return plan_by_pausing(
        views,
        limit=limit,
        max_drift=10,
        out_of_orderness=0,
        idle_timeout=1000,
        now=50_000,
        floor=floor,
    )


def test_a_split_more_than_the_drift_above_the_least_is_not_read_further() -> None:
    """A split that is more than the drift above the least one is paused.

    A split that is exactly the drift above it is read (I3).
    """
    slow, on_it, above = (
        SplitView("slow", 3, 9, read_max=100),
        SplitView("on it", 3, 9, read_max=110),
        SplitView("above", 3, 9, read_max=111),
    )
    planned = plan(slow, on_it, above)
    assert planned.ends == {"slow": 9, "on it": 9, "above": 3}
    assert planned.states["above"] is SplitStatus.PAUSED
    assert (planned.held_by, planned.own_watermark) == ("slow", 99)


def test_an_unread_split_is_read_and_holds_nobody() -> None:
    planned = plan(SplitView("new", 0, 5), SplitView("old", 3, 9, read_max=500))
    assert planned.ends == {"new": 5, "old": 9}


def test_idle_and_finished_splits_do_not_count() -> None:
    planned = plan(
        SplitView("idle", 3, 3, read_max=100, quiet_since=48_999),
        SplitView("finished", 3, 3, read_max=100, final=True),
        SplitView("old", 3, 9, read_max=500),
    )
    assert planned.ends["old"] == 9
    assert [str(planned.states[name]) for name in ("idle", "finished")] == ["IDLE", "FINISHED"]


def test_a_final_split_holds_the_others_until_it_is_at_its_end() -> None:
    """A final split holds the others until it is read to its end.

    The limit may cut it at any event time, unlike where positions are known.
    """
    planned = plan(SplitView("final", 3, 9, read_max=100, final=True), SplitView("ahead", 3, 9, read_max=500))
    assert planned.ends == {"final": 9, "ahead": 3}


def test_the_limit_is_shared_among_those_that_are_read() -> None:
    """The limit is shared among the splits that are read (I2, I6)."""
    views = [SplitView(name, 0, 100, read_max=100) for name in "abc"] + [SplitView("z", 0, 100, read_max=999)]
    planned = plan(*views, limit=8)
    assert sum(planned.ends.values()) == 8
    assert planned.ends["z"] == 0
    assert planned.cut == {"a", "b", "c"}


def test_the_other_members_of_the_group_hold_too() -> None:
    planned = plan(SplitView("a", 0, 100, read_max=111), floor=99)
    assert planned.ends == {"a": 0}
    assert planned.held_by == GROUP


def test_the_order_of_splits_is_irrelevant() -> None:
    """The order of the splits does not change the plan (I8)."""
    views = [SplitView("b", 0, 9, read_max=100), SplitView("a", 0, 9, read_max=105), SplitView("c", 0, 9)]
    assert plan(*views, limit=7) == plan(*reversed(views), limit=7)
