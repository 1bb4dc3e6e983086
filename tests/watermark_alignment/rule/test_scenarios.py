"""Scenarios of Flink's tests that take several plans or many splits. No test here starts a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tests.watermark_alignment.support.simulator import LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.planner import Plan, SplitView, plan

Logs = Mapping[str, list[int]]


def planned(logs: Logs, positions: Mapping[str, int], limit: int | None = None, max_drift: int = 10) -> Plan:
    """Returns one plan over logs of ascending event times. No split is idle."""
    views = [
        SplitView(
            name,
            position=(at := positions[name]),
            end=len(log),
            read_max=max(log[:at], default=None),
            next=log[at] if at < len(log) else None,
            reach=max(log, default=None),
        )
        for name, log in logs.items()
    ]

    def first_at_or_after(event_time: int) -> dict[str, tuple[int, int]]:
        found = {}
        for name, at in positions.items():
            end = next(
                (i for i in range(at, len(logs[name])) if logs[name][i] >= event_time), len(logs[name])
            )
            found[name] = end, end - at
        return found

    return plan(
        views,
        first_at_or_after,
        limit=limit,
        max_drift=max_drift,
        out_of_orderness=0,
        idle_timeout=0,
        now=0,
        floor=None,
    )


@given(st.dictionaries(st.text("abcdef", min_size=1), st.lists(st.integers(0, 99), max_size=5), max_size=30))
def test_al_08_the_floor_is_the_minimum_of_the_latest_fronts(logs: dict[str, list[int]]) -> None:
    """The floor is the minimum of the latest fronts, whatever they are and in whatever order.

    A split without a watermark does not count (AL-08).
    """
    ascending = {name: sorted(log) for name, log in logs.items()}
    found = planned(ascending, dict.fromkeys(logs, 0))
    assert found.own_watermark == min((log[0] - 1 for log in ascending.values() if log), default=None)


def test_ao_12_the_lead_over_the_slow_one_stays_within_the_drift() -> None:
    """The lead of a fast split over a slow one stays within the drift (AO-12).

    The slow split grows by one record a round; the fast one has all its records from the start.
    """
    fast = list(range(0, 200, 2))
    positions, leads = {"fast": 0, "slow": 0}, []
    for grown in range(1, 60):
        logs = {"fast": fast, "slow": list(range(grown))}
        positions = dict(planned(logs, positions).ends)
        leads.append(fast[positions["fast"] - 1] - (grown - 1))
    assert max(leads) <= 10
    assert positions["fast"] > 30


def test_as_16_a_paused_and_resumed_split_is_read_completely() -> None:
    """A pause loses no record, doubles no record and keeps the order (AS-16).

    Split s has the records s, s + 2, ... up to 9.
    """
    logs = {"0": list(range(0, 10, 2)), "1": list(range(1, 10, 2))}
    positions = {"0": 0, "1": 0}
    read: list[int] = []
    paused = False
    while positions != {"0": 5, "1": 5}:
        found = planned(logs, positions, limit=1, max_drift=1)
        for name, end in found.ends.items():
            read += logs[name][positions[name] : end]
        paused = paused or "PAUSED" in found.states.values()
        positions = dict(found.ends)
    assert read == list(range(10))
    assert paused


def test_as_26_a_split_that_was_paused_resumes_once_the_idle_one_no_longer_holds() -> None:
    """A paused split is read again once the split that held it is idle: every plan computes the states anew, so no
    pause outlives its reason (AS-26, AS-10).
    """
    slow = SplitView("slow", 1, 1, read_max=100, quiet_since=0)
    fast = SplitView("fast", 0, 1, next=500, reach=500)
    at = {"fast": (0, 0)}, {"fast": (1, 1)}
    common = {"limit": None, "max_drift": 10, "out_of_orderness": 0, "idle_timeout": 1000, "floor": None}
    held = plan([slow, fast], lambda h: at[h > 500], now=1000, **common)  # type: ignore[arg-type]
    freed = plan([slow, fast], lambda h: at[h > 500], now=1001, **common)  # type: ignore[arg-type]
    assert (held.states["slow"], held.states["fast"], held.held_by) == ("ACTIVE", "PAUSED", "slow")
    assert (freed.states["slow"], freed.states["fast"], freed.ends["fast"]) == ("IDLE", "ACTIVE", 1)


def test_wm_22_nothing_moves_past_a_split_that_is_silent_but_has_data() -> None:
    """No split passes one that is silent but has data (WM-22).

    Of the splits 100, 200, 300 and 150, 400, the combined watermark follows the slower one.
    """
    logs = {"1": [100, 200, 300], "2": [150, 400]}
    positions, floors = {"1": 0, "2": 0}, []
    for _ in range(5):
        found = planned(logs, positions, limit=1)
        positions = dict(found.ends)
        floors.append(found.own_watermark)
    assert floors == [99, 149, 199, 299, 299]


def test_wm_25_the_combined_watermark_is_that_of_the_splits_that_are_not_idle() -> None:
    """The combined watermark is that of the splits that are not idle (WM-25).

    Of splits at 150 and 200, the first turns idle, then the second; only then is there no watermark.
    """

    def floor(**quiet: int) -> int | None:
        views = [
            SplitView(name, 1, 1, read_max=read, quiet_since=quiet.get(name))
            for name, read in (("a", 150), ("b", 200))
        ]
        return plan(
            views,
            lambda _: {},
            limit=None,
            max_drift=1,
            out_of_orderness=0,
            idle_timeout=10,
            now=100,
            floor=None,
        ).own_watermark

    assert [floor(), floor(a=0), floor(a=0, b=0)] == [149, 199, None]


def watermark(front: int | None, out_of_orderness: int) -> int | None:
    """Returns the watermark of a source with one split, whose greatest event time read is ``front``."""
    view = SplitView("a", 5, 5, read_max=front)
    how = {"limit": None, "max_drift": 10, "idle_timeout": 0, "now": 0, "floor": None}
    return plan([view], lambda _: {}, out_of_orderness=out_of_orderness, **how).own_watermark  # type: ignore[arg-type]


def test_wm_01_no_watermark_before_the_first_record() -> None:
    """The watermark is unknown before the first record: it is ``None``, not a smallest number (WM-01, AO-03)."""
    assert watermark(None, 10) is None


def test_wm_02_the_watermark_is_the_front_less_the_bound_less_one() -> None:
    """The watermark is the greatest event time read - bound - 1 (WM-02)."""
    assert watermark(1337, 10) == 1326
    assert watermark(12345, 0) == 12344


def test_wm_04_an_older_record_does_not_take_the_watermark_back() -> None:
    """The watermark stays at 12344 before and after the record 12340, which comes after 12345 (WM-04)."""
    member = SimulatedMember(LifeSettings(limit=1, idle_timeout=0), {"a": SplitLog([12345, 12340, 12346])})
    rounds = [member.round(now) for now in range(4)]
    assert [batch.rows["a"] for batch in rounds] == [[12345], [12340], [12346], []]
    assert [batch.plan.own_watermark for batch in rounds] == [12344, 12344, 12345, 12345]
