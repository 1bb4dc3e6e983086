"""The four states over many batches: partitions that fall silent, come back, are added, removed and finished. No JVM.

The clock is advanced by hand; a split is idle after more than a second, and max-drift is 10 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flip27_stream.spark.planning.query_clock import QueryClock
from tests.spark.support.driven_query import NOW, DrivenQuery, states
from tests.spark.support.sources.memory_source import MemoryWorld
from tests.support.module_time import replace_time

IDLE_AFTER = 1001


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., DrivenQuery]]:
    queries: list[DrivenQuery] = []

    def query(logs: dict[str, list[int | None]], **options: str) -> DrivenQuery:
        queries.append(DrivenQuery(MemoryWorld(logs), tmp_path / "table", options=options))
        return queries[-1]

    yield query
    for each in queries:
        each.coordinator.close()


def test_a_paused_split_goes_on_once_the_others_are_idle(make: Callable[..., DrivenQuery]) -> None:
    """AS-04, AS-05, AS-08, AS-21, WM-25: a paused split does not turn idle, however long it is paused. Silent splits
    turn idle each by itself, and the paused split goes on once the last of them is idle.
    """
    query = make({"ahead": [100, 500], "one": [100], "two": [100]})
    assert query.step() == [("ahead", 100), ("one", 100), ("two", 100)]
    for _ in range(9):
        query.clock.advance(100)
        assert states(query) == {"ahead": "P", "one": "A", "two": "A"}
    query.world.logs["two"].append(101)
    assert query.step() == [("two", 101)]
    query.clock.advance(101)
    assert states(query) == {"ahead": "P", "one": "I", "two": "A"}
    query.clock.advance(899)
    assert query.step() is None
    query.clock.advance(1)
    assert states(query) == {"ahead": "A", "one": "I", "two": "I"}
    assert query.step() == [("ahead", 500)]


def test_a_silent_split_that_comes_back_behind_holds_again(make: Callable[..., DrivenQuery]) -> None:
    """WM-11, AL-03, AO-05: an idle split that gets data is read, and holds the others back with its own front, which
    is behind them.
    """
    query = make({"ahead": [100, 500, 505], "silent": [100]})
    query.step()
    query.clock.advance(IDLE_AFTER)
    assert query.step() == [("ahead", 500), ("ahead", 505)]
    query.world.logs["silent"] += [110, 120]
    query.world.logs["ahead"] += [506]
    assert query.step() == [("silent", 110), ("silent", 120)]
    assert states(query) == {"ahead": "P", "silent": "A"}
    query.clock.advance(IDLE_AFTER)
    assert query.step() == [("ahead", 506)]


def test_a_split_added_during_a_pause_counts(make: Callable[..., DrivenQuery]) -> None:
    """AO-05, AS-14, WM-29: a new split that is behind holds the others back.

    A new split without data does not count.
    """
    query = make({"ahead": [100, 500], "slow": [100]})
    query.step()
    assert states(query) == {"ahead": "P", "slow": "A"}
    query.world.logs |= {"empty": [], "behind": [90, 95]}
    query.discover()
    assert query.step() == [("behind", 90), ("behind", 95)]
    assert states(query) == {"ahead": "P", "behind": "A", "empty": "A", "slow": "A"}
    query.world.logs["slow"].append(500)
    assert query.step() is None, "the one that was added is at 95"
    query.clock.advance(IDLE_AFTER)
    assert query.step() == [("ahead", 500), ("slow", 500)]


@pytest.mark.parametrize("removed", ["ahead", "slow"])
def test_a_split_removed_during_a_pause_no_longer_counts(
    make: Callable[..., DrivenQuery], removed: str
) -> None:
    """AS-14, AS-19, AS-20, WM-16: a removed split is not paused and holds no split back."""
    query = make({"ahead": [100, 500], "slow": [100], "other": [100]})
    query.step()
    query.world.logs["other"].append(600)
    assert query.step() is None
    query.coordinator._context.retire_splits([removed])
    if removed == "slow":
        assert query.step() == [("ahead", 500)]
        assert states(query) == {"ahead": "A", "other": "P"}
    else:
        query.world.logs["slow"].append(105)
        assert query.step() == [("slow", 105)]
        assert states(query) == {"other": "P", "slow": "A"}
    assert sorted(query.offset["splits"]) == sorted({"ahead", "other", "slow"} - {removed})


def test_an_idle_query_has_no_batches_and_holds_nobody(make: Callable[..., DrivenQuery]) -> None:
    """AL-04, WM-27, I8: while all splits are idle no batch runs. A split that gets data is read, however far ahead it
    is.
    """
    query = make({"a": [100], "b": [100]})
    query.step()
    query.clock.advance(IDLE_AFTER)
    assert states(query) == {"a": "I", "b": "I"}
    assert query.coordinator.latest_offset(query.offset, None) is query.offset
    query.world.logs["b"].append(9000)
    assert query.step() == [("b", 9000)]
    query.world.logs["a"].append(101)
    assert query.step() == [("a", 101)]


def test_the_last_split_that_moves_finishes_while_the_others_are_paused(
    make: Callable[..., DrivenQuery],
) -> None:
    """AS-06, AS-10, AO-06: a finished split holds no other split back. Paused splits are read one after the other
    when those behind them are finished.
    """
    query = make({"last": [100, 105], "one": [100, 500], "two": [100, 600]})
    assert query.step() == [("last", 100), ("last", 105), ("one", 100), ("two", 100)]
    assert states(query) == {"last": "A", "one": "P", "two": "P"}
    query.world.finished.add("last")
    assert states(query)["last"] == "F"
    assert query.step() == [("one", 500)]
    query.world.finished.add("one")
    assert query.step() == [("two", 600)]


def test_a_query_stopped_for_longer_than_every_timeout_goes_on_aligned(
    make: Callable[..., DrivenQuery],
) -> None:
    """AS-07, I9: the time in which a query is stopped makes no split idle. A split with data is read, and a paused
    split stays paused.
    """
    query = make({"ahead": [100, 500], "busy": [100], "paused": [100, 300]})
    query.step()
    query.world.logs["busy"].append(105)
    query.clock.advance(30 * 24 * 3_600_000)
    clock = query.clock
    query.restart()
    query.coordinator._clock = query.coordinator._planner._clock = clock  # type: ignore[attr-defined]
    assert states(query) == {"ahead": "P", "busy": "A", "paused": "P"}
    assert query.step() == [("busy", 105)]
    clock.advance(1000)
    assert query.step() is None
    clock.advance(1)
    assert query.step() == [("paused", 300)]


def test_runs_that_are_shorter_than_the_timeout_find_a_split_idle(make: Callable[..., DrivenQuery]) -> None:
    """Rule 9: the first moment is in the offset also if the batch that read the split did not know that it was at the
    end of its log, as with Kinesis. Then one empty batch takes it there.
    """
    query = make({"ahead": [100, 500], "silent": [100]})
    query.world.undrained.add("silent")
    query.step()
    query.world.undrained.clear()
    read = []
    for _ in range(4):
        clock = query.clock
        query.restart()
        query.coordinator._clock = query.coordinator._planner._clock = clock  # type: ignore[attr-defined]
        read += [query.step(), query.step()]
        clock.advance(400)
    assert [batch for batch in read if batch is not None] == [[], [("ahead", 500)]]


def test_steps_of_the_machines_clock_make_nothing_idle(
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9: steps of the machine's wall clock make no split idle, because within a process the monotonic clock
    counts.
    """
    logs: dict[str, list[int | None]] = {"ahead": [NOW - 500, NOW - 400], "silent": [NOW - 500]}
    query = make(logs, **{"scan.watermark.idle_timeout": "30 minutes"})
    clock = QueryClock()
    began = clock()
    query.coordinator._clock = clock
    query.step()
    for step_s in (3600, -3600, 10**7):
        stepped_ns = (began + 1000 * step_s) * 1_000_000
        for module in ("flip27_stream.spark.planning.query_clock", "flip27_stream.wall_clock"):
            replace_time(monkeypatch, module, time_ns=lambda now=stepped_ns: now)
        assert states(query) == {"ahead": "P", "silent": "A"}
    assert clock() - began < 600_000


def test_wm_14_watermarks_change_in_plans_only(make: Callable[..., DrivenQuery]) -> None:
    """WM-14, AL-21: a report moves the watermark of the group only with the next plan. Until then the group has the
    watermark of the last plan.
    """
    query = make({"a": [100, 110], "b": [101]})
    query.step()
    member = query.coordinator._planner._member  # type: ignore[attr-defined]
    assert member.entry.watermark == 99
    query.step()
    assert member.entry.watermark == 100


def test_a_replayed_batch_keeps_its_idle_split(make: Callable[..., DrivenQuery]) -> None:
    """WM-06: a split that was idle when another process planned a replayed batch is idle in the rows of that batch.

    The split does not count, so the rows that were read are not ahead of it.
    """
    query = make({"silent": [100], "fast": [100]})
    query.step(10)
    query.clock.advance(IDLE_AFTER)
    query.world.logs["fast"].append(9000)
    start, query.offset = query.offset, query.coordinator.latest_offset(query.offset, 10)
    query.restart()
    assert query.run(start, query.offset) == [("fast", 9000)]
    query.world.logs["fast"].append(9001)
    query.step(10)
    query.coordinator.close()
    batch = query.offset["batch"] - 2
    rows = {row["split"]: (row["status"], row["drift_ms"]) for row in query.rows() if row["batch"] == batch}
    assert rows == {"silent": ("IDLE", 0), "fast": ("ACTIVE", 0)}
