"""What the listener logs, from events as Spark makes them, with offsets and a table of real coordinators. No JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryTerminatedEvent

from flip27_stream.errors import OptionError
from tests.spark.queries.support.watched_query import WatchedQuery
from tests.spark.support.driven_query import NOW, DrivenQuery
from tests.spark.support.sources.memory_source import MemoryWorld
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.progress_events import RUN, progress
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment import StatusListener
from watermark_alignment.__main__ import main
from watermark_alignment.group.group_log import KEY
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

Make = Callable[..., DrivenQuery]

STALL_MS = 60_000
_GROUP_H = {"scan.watermark.alignment.group": "h"}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    """Returns the messages that were logged at a level."""
    caplog.set_level(logging.INFO, logger="watermark_alignment.monitoring.listener")

    def messages(level: int) -> list[str]:
        records = [r for r in caplog.records if r.name == "watermark_alignment.monitoring.listener"]
        return [record.getMessage() for record in records if record.levelno == level]

    return messages


Logged = Callable[[int], list[str]]


def test_each_batch_is_logged_in_a_line(make: Make, logged: Logged) -> None:
    watched = WatchedQuery(make({"a": [1000, 2000, 3000], "b": [2500]}))
    for _ in range(2):
        watched.step(limit=2)
    source = watched.query.offset["source"]
    assert logged(logging.INFO) == [
        f"query 'counts', batch 0: 5 rows in 1.5s; {source}: 0 of 2 splits read; "
        "Spark's watermark 1970-01-01T00:00:01.000Z",
        f"query 'counts', batch 1: 5 rows in 1.5s; {source}: 1 of 2 splits read, now between 1970-01-01 00:00:01 and "
        "1970-01-01 00:00:01; Spark's watermark 1970-01-01T00:00:01.000Z",
    ]
    assert logged(logging.WARNING) == []


@pytest.mark.parametrize(
    "end",
    ['{"clicks": {"0": 12}}', {"flip27": 99, "splits": {}}, {"flip27": 1, "offset": "initial"}, "no JSON"],
)
def test_progress_of_other_sources_is_not_logged(logged: Logged, end: Any) -> None:
    StatusListener().onQueryProgress(progress(None, end, dropped=7))
    assert logged(logging.INFO) == logged(logging.WARNING) == []


@pytest.mark.parametrize(
    ("aligned", "remedy"), [(True, "raise scan.watermark.idle-timeout"), (False, "not aligned")]
)
def test_dropped_rows_are_warned_of_once(make: Make, logged: Logged, aligned: bool, remedy: str) -> None:
    watched = WatchedQuery(make({"a": [1000, 2000, 3000]}, aligned=aligned))
    watched.step(limit=1)
    assert logged(logging.WARNING) == []
    for _ in range(2):
        watched.step(limit=1, dropped=7)
    [warning] = logged(logging.WARNING)
    assert "The watermark dropped 7 rows of query 'counts' as late, first in batch 1." in warning
    assert remedy in warning


def test_rows_dropped_beside_a_source_that_is_not_aligned_name_it(make: Make, logged: Logged) -> None:
    """A union of an aligned source with another one has one watermark, which the other one moves."""
    query = make({"a": [1000, 2000, 3000]})
    watched = WatchedQuery(query)
    watched.step(limit=1)
    rate = {"description": "RateStreamV2[rowsPerSecond=1]", "startOffset": 0, "endOffset": 1}
    for _ in range(2):
        start = query.offset
        query.batch(1)
        watched.listener.onQueryProgress(progress(start, query.offset, dropped=7, others=[rate]))
    [warning] = logged(logging.WARNING)
    assert "It has sources that are not aligned with the others: RateStreamV2[rowsPerSecond=1]. " in warning
    assert "Align all sources, in one group" in warning


def two_sources(watched: WatchedQuery, other: DrivenQuery, dropped: int = 0) -> None:
    """Tells the listener of four batches of a query with two sources. The first one only announces them."""
    query = watched.query
    for batch in range(4):
        starts = [query.offset, other.offset]
        for source in (query, other):
            source.batch(1)
            recorder = source.coordinator._recorder
            assert recorder is not None
            recorder.flush()
        second = {"startOffset": starts[1], "endOffset": other.offset}
        watched.listener.onQueryProgress(
            progress(starts[0], query.offset, dropped=dropped if batch else 0, others=[second], batch=batch)
        )


def test_rows_dropped_of_sources_in_two_groups_name_the_groups(make: Make, logged: Logged) -> None:
    query = make({"a": [1000, 2000, 3000]})
    other = DrivenQuery(MemoryWorld({"b": [1000, 2000, 3000]}), query.table, options=_GROUP_H)
    two_sources(WatchedQuery(query), other, dropped=7)
    other.coordinator.close()
    [warning] = logged(logging.WARNING)
    assert "Its sources are in several groups: g, h. Groups are not aligned with each other" in warning


def test_a_source_of_a_query_in_another_table_is_warned_of(
    make: Make, logged: Logged, tmp_path: Path
) -> None:
    """The sources of a query have the same group in two tables, so they do not know of each other."""
    query = make({"a": [1000, 2000, 3000]})
    other = DrivenQuery(MemoryWorld({"b": [1000, 2000, 3000]}), tmp_path / "another")
    two_sources(WatchedQuery(query), other, dropped=7)
    other.coordinator.close()
    warning, dropped = sorted(logged(logging.WARNING))
    assert "Its sources are in several split-watermark tables" in dropped
    assert f"is not in the split-watermark table at '{query.table}', which has another source" in warning
    assert "Give them the same scan.watermark.alignment.table." in warning


def test_a_listener_with_the_table_of_another_query_says_so(
    make: Make, logged: Logged, tmp_path: Path
) -> None:
    old = SplitWatermarkTable(str(tmp_path / "old"), {})
    old.append("clicks", 0, split_rows(0), {})
    old.note({KEY: entry("clicks").to_text()})
    query = make({"a": [1000, 2000, 3000]})
    watched = WatchedQuery(query)
    watched.listener = StatusListener(old.uri, look_every="0", clock=query.clock)
    for _ in range(4):
        watched.step(limit=1)
    [warning] = logged(logging.WARNING)
    assert f"is not in the split-watermark table at '{old.uri}', so this listener cannot see" in warning
    assert "Give StatusListener the table that the query has" in warning


def test_the_two_sources_of_a_self_join_are_both_in_the_table(make: Make, logged: Logged) -> None:
    """They have one id, and each has a lineage."""
    named = {"scan.source.id": "clicks"}
    query = make({"a": [1000, 2000, 3000]}, **named)
    other = DrivenQuery(MemoryWorld({"a": [1000, 2000, 3000]}), query.table, options=named)
    object.__setattr__(other.spec, "definition", query.spec.definition)
    two_sources(WatchedQuery(query), other)
    other.coordinator.close()
    assert logged(logging.WARNING) == []


def test_a_split_that_stalls_its_group_is_named(make: Make, logged: Logged) -> None:
    """The listener names a split that stalls its group. No batch runs meanwhile, so the listener sees the stall at
    Spark's idle events.
    """
    watched = WatchedQuery(make({"a": [1000], "b": [1000, 9000]}, idle_timeout="1 hour"))
    for _ in range(3):
        watched.step(limit=10)
    clock = watched.query.clock
    idle = QueryIdleEvent(RUN, RUN, "1970-01-01T00:00:00.000Z")
    watched.tell(watched.query.offset)
    clock.advance(STALL_MS)
    watched.listener.onQueryIdle(idle)
    assert logged(logging.WARNING) == []
    clock.advance(1)
    for _ in range(2):
        watched.listener.onQueryIdle(idle)
    [warning] = logged(logging.WARNING)
    assert "Split a of source " in warning
    assert (
        "stalls group 'g' at event time 1970-01-01 00:00:00: no record was read from it for 1m, and 1 of"
        in warning
    )
    assert "scan.watermark.idle-timeout" in warning


def test_a_member_that_left_stalls_no_group(make: Make, logged: Logged) -> None:
    """A member that has left its group stalls no other member. Its rows stay in the table, and are far behind."""
    watched = WatchedQuery(make({"a": [1000], "b": [1000, 9000]}, idle_timeout="1 hour"))
    for _ in range(3):
        watched.step(limit=10)
    table = SplitWatermarkTable(str(watched.query.table), {})
    rows = [
        replace(row, group="g", watermark=5, recorded_at=NOW)
        for row in split_rows(0, source="other", splits=1)
    ]
    table.append("other", 0, rows, {})
    there = entry("other", watermark=5, timeout_ms=10**15)
    clock = watched.query.clock
    clock.advance(STALL_MS + 1)
    watched.tell(watched.query.offset)
    idle = QueryIdleEvent(RUN, RUN, "1970-01-01T00:00:00.000Z")
    table.note({KEY: there.leaving().to_text()})
    watched.listener.onQueryIdle(idle)
    [warning] = logged(logging.WARNING)
    assert "Split a of source " in warning
    table.note({KEY: there.to_text()})
    watched.step(limit=10)
    watched.listener.onQueryIdle(idle)
    assert "Split clicks-0 of source other stalls" in logged(logging.WARNING)[1]


def test_a_long_batch_is_no_stall(make: Make, logged: Logged) -> None:
    """A long batch gives no warning of a stall. A split is the slowest and others are paused, but the query is never
    idle.
    """
    watched = WatchedQuery(make({"a": list(range(1000, 1100)), "b": [9000]}))
    for _ in range(8):
        watched.step(limit=10)
        watched.query.clock.advance(2 * STALL_MS)
    assert logged(logging.WARNING) == []


def test_a_query_that_has_read_all_does_not_stall(make: Make, logged: Logged) -> None:
    watched = WatchedQuery(make({"a": [1000], "b": [1005]}, idle_timeout="1 hour"))
    for _ in range(3):
        watched.step(limit=10)
    watched.tell(watched.query.offset)
    watched.query.clock.advance(2 * STALL_MS)
    watched.listener.onQueryIdle(QueryIdleEvent(RUN, RUN, "1970-01-01T00:00:00.000Z"))
    assert logged(logging.WARNING) == []


def test_a_drift_above_max_drift_is_warned_of(make: Make, logged: Logged) -> None:
    """The listener warns of a drift above max-drift. It arises when a split that was idle comes back behind the
    others.
    """
    watched = WatchedQuery(make({"a": [1000], "b": [1000, 9000]}))
    for _ in range(3):
        watched.step(limit=10)
    watched.query.clock.advance(1001)
    watched.step(limit=10)
    assert logged(logging.WARNING) == []
    watched.query.world.logs["a"].append(1500)
    for _ in range(3):
        watched.step(limit=10)
    watched.tell(watched.query.offset)
    [warning] = logged(logging.WARNING)
    assert "Split b of source " in warning
    assert "7.5s ahead of the slowest split of group 'g', more than max-drift (10ms) allows." in warning
    assert "the delay of withWatermark" in warning


def test_watermarks_without_reports_are_warned_of(make: Make, logged: Logged) -> None:
    """The listener warns if no task sends a report, for example because the network forbids it."""
    watched = WatchedQuery(make({"a": [1000, 1001], "b": [1000, 1001]}))
    watched.without_reports()
    for _ in range(4):
        watched.step(limit=2)
    [warning] = logged(logging.WARNING)
    assert "are planned, not observed: tasks did not report 2 of the splits of its batch 1." in warning
    assert "spark.driver.host" in warning


def test_the_end_of_a_query_is_checked(make: Make, logged: Logged) -> None:
    """The listener reads the table at the end of a query, even if it read the table shortly before."""
    watched = WatchedQuery(make({"a": [1000, 1001], "b": [1000, 1001]}))
    watched.listener._look_every_ms = STALL_MS
    watched.listener._batches[str(RUN)] = 100  # after the first batches it looks in any case
    watched.without_reports()
    for _ in range(4):
        watched.step(limit=2)
    assert logged(logging.WARNING) == []
    watched.listener.onQueryTerminated(QueryTerminatedEvent(RUN, RUN, None, None))
    assert len(logged(logging.WARNING)) == 1


def test_an_unreachable_table_is_warned_of_once(make: Make, logged: Logged) -> None:
    watched = WatchedQuery(make({"a": [1000, 2000]}))
    assert watched.query.table is not None
    watched.listener = StatusListener(f"{watched.query.table}-not", look_every="0")
    for _ in range(2):
        watched.step(limit=1)
    [warning] = logged(logging.WARNING)
    assert "table-not' cannot be read: there is no Delta table" in warning


def test_the_command_shows_a_query_that_runs(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ``status`` shows a query that runs, and shows it as gone when it has stopped."""
    watched = WatchedQuery(make({"a": [1000, 1001], "b": [1000]}))
    for _ in range(3):
        watched.step(limit=2)
    for there in (True, False):
        assert main(["status", str(watched.query.table), "--json"]) == 0
        splits = json.loads(capsys.readouterr().out)
        assert [(s["split"], s["batch"], s["is_there"]) for s in splits] == [("a", 1, there), ("b", 1, there)]
        assert {(s["max_drift_ms"], s["unreported"]) for s in splits} == {(10, 0)}
        watched.query.coordinator.close()


def test_durations_are_checked_at_once() -> None:
    with pytest.raises(OptionError, match="'stalled_after'"):
        StatusListener(stalled_after="soon")
    for wrong in (60, None):
        with pytest.raises(
            OptionError, match=f"'stalled_after': {wrong}. Expected a duration: a number and a unit"
        ):
            StatusListener("/t", stalled_after=wrong)  # type: ignore[arg-type]


def test_a_path_is_a_location(tmp_path: Path, logged: Logged) -> None:
    listener = StatusListener(tmp_path / "none", clock=lambda: NOW)
    listener.onQueryProgress(
        progress(None, {"flip27": 1, "source": "a", "lineage": "l", "batch": 0, "splits": {}})
    )
    (warning,) = logged(logging.WARNING)
    assert (
        f"The split-watermark table at '{tmp_path}/none' cannot be read: there is no Delta table" in warning
    )
