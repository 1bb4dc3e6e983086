"""The coordinator over a source in memory: planning, restarts, idleness, the table. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.api import ReadLimits
from flip27_stream.errors import ConnectorError, CorruptCheckpointError, ForeignCheckpointError
from flip27_stream.spark.planning import stall_detector
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.source_spec import Driver
from flip27_stream.testing import wait_until
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemorySource


def test_a_fast_split_waits_for_a_slow_one(make: Callable[..., DrivenQuery]) -> None:
    """I3: a split that is ahead is read up to max-drift after the front of the other split. Then it is paused."""
    query = make({"slow": [100, 110], "fast": [100, 120, 121, 500]})
    assert query.step() == [("fast", 100), ("fast", 120), ("slow", 100), ("slow", 110)]
    assert query.step() is None


def test_all_mappings_of_a_plan_have_the_order_of_split_ids(make: Callable[..., DrivenQuery]) -> None:
    """Mappings are sorted, whatever order splits are found in. Otherwise each would be looked up in each mapping."""
    query = make({"c": [100], "a": [100]})
    query.step()
    query.world.logs["b"] = [100]
    query.discover()
    query.step()
    start = query.coordinator._offset_log.read(query.offset)
    assert start is not None
    assert list(query.coordinator._context.splits) == list(start.splits) == ["a", "b", "c"]


def test_rows_of_a_batch_are_recorded_when_the_next_is_planned(make: Callable[..., DrivenQuery]) -> None:
    """The rows of a batch are recorded when the next batch is planned. The watermark in a row follows from the front,
    for which the next record counts, even if it was not read.
    """
    query = make({"a": [100, 110], "b": [100, 500]})
    query.step()
    query.world.logs["a"].append(130)
    query.step()
    query.step()
    query.coordinator.close()
    rows = query.rows()
    assert [
        (r["batch"], r["split"], r["start_position"], r["end_position"], r["rows"], r["status"]) for r in rows
    ] == [
        (0, "a", "0", "2", 2, "ACTIVE"),
        (0, "b", "0", "1", 1, "ACTIVE"),
        (1, "a", "2", "3", 1, "ACTIVE"),
        (1, "b", "1", "1", 0, "PAUSED"),
    ]
    assert [r["watermark"].timestamp() * 1000 for r in rows] == pytest.approx([129, 499, 129, 499])
    assert {r["group"] for r in rows} == {"g"}
    assert len({r["source"] for r in rows}) == 1


def test_rows_are_recorded_by_the_clock_of_the_machine(
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are recorded with the time of the machine, since the clock of the query does not count the time in which
    the process did not run.
    """
    query = make({"a": [100]})
    later = query.clock() + 3_600_000
    monkeypatch.setattr(query.coordinator, "_wall_clock", lambda: later)
    for _ in range(3):
        query.step()
    query.coordinator.close()
    assert {round(row["recorded_at"].timestamp() * 1000) for row in query.rows()} == {later}


def test_a_plan_without_new_records_returns_the_start_itself(make: Callable[..., DrivenQuery]) -> None:
    """I8, SX (PY-07): with nothing new to read a plan returns the object ``start`` itself. New data make a batch."""
    query = make({"a": [1, 2]})
    query.step()
    assert query.coordinator.latest_offset(query.offset, None) is query.offset
    query.world.logs["a"].append(3)
    assert query.step() == [("a", 3)]


def test_a_query_without_alignment_reads_all(make: Callable[..., DrivenQuery]) -> None:
    query = make({"a": [1], "b": [10_000_000]}, aligned=False)
    assert query.step() == [("a", 1), ("b", 10_000_000)]


def test_new_splits_are_read_from_their_beginning(make: Callable[..., DrivenQuery]) -> None:
    query = make({"a": [1, 2]})
    query.step()
    query.world.logs["b"] = [2, 3]
    query.discover()
    assert query.step() == [("b", 2), ("b", 3)]


def test_the_same_offsets_give_the_same_tasks_in_another_process(make: Callable[..., DrivenQuery]) -> None:
    """PY-09, PY-14: another process reads the same ranges between the same two offsets, although a row has come
    meanwhile.
    """
    query = make({"a": [1, 2, 300], "b": [1, 5]})
    start = query.offset
    first = query.step()
    query.world.logs["a"].append(301)
    query.restart()
    assert query.run(start, query.offset) == first


def test_a_restart_goes_on_aligned(make: Callable[..., DrivenQuery]) -> None:
    """AL-19, AS-12, WM-21: the first plan after a restart holds the fast split back."""
    query = make({"slow": [100, 110], "fast": [100, 120, 121, 500]})
    query.step()
    query.restart()
    assert query.step() is None
    query.world.logs["slow"].append(112)
    assert query.step() == [("fast", 121), ("slow", 112)]


def test_an_idle_split_lets_the_others_go(make: Callable[..., DrivenQuery]) -> None:
    """WM-06: a split is idle only after more than the timeout. The time in the offset counts across a restart."""
    query = make({"slow": [100], "fast": [100, 500]})
    assert query.step() == [("fast", 100), ("slow", 100)]
    query.clock.advance(1000)
    assert query.step() is None
    clock = query.clock
    query.restart()
    query.coordinator._clock = clock
    clock.advance(1)
    assert query.step() == [("fast", 500)]


def test_a_clock_that_steps_back_makes_nothing_idle(make: Callable[..., DrivenQuery]) -> None:
    """I9: a clock that steps back makes no split idle. A stored moment in the future is replaced by the current
    time.
    """
    query = make({"slow": [100], "fast": [100, 500]})
    query.step()
    query.clock.advance(-600_000)
    query.restart()
    assert query.step() is None
    query.clock.advance(1000)
    assert query.step() is None
    query.clock.advance(1)
    assert query.step() == [("fast", 500)]


def test_a_split_with_an_open_transaction_is_not_empty(make: Callable[..., DrivenQuery]) -> None:
    """I9: a split does not turn idle while an open transaction hides its next records."""
    query = make({"slow": [100], "fast": [100, 500]})
    query.world.undrained.add("slow")
    query.step()
    query.clock.advance(60_000)
    assert query.step() is None


def test_a_silent_leader_is_neither_empty_nor_idle(make: Callable[..., DrivenQuery]) -> None:
    """Rule 5: a split whose leader does not answer keeps its front, so that it holds the others back. It is neither
    empty nor idle.
    """
    query = make({"slow": [100, 105], "fast": [100, 112, 120]})
    query.step(limit=2)
    query.world.silent.add("slow")
    query.clock.advance(60_000)
    while query.step() is not None:
        pass
    assert ("fast", 120) not in {row for batch in query.batches for row in batch}
    query.world.silent.clear()
    while query.step() is not None:
        pass
    assert ("slow", 105) in query.batches[-1]


def test_a_split_that_does_not_tell_its_event_times_holds_all_with_a_warning(
    make: Callable[..., DrivenQuery], caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 5: a split without an answer about its event times holds all others back, and a warning names it. Rows
    that were read before the split was found are in the table.
    """
    query = make({"a": [100, 110]})
    query.step()
    query.world.logs["a"].append(130)
    assert query.step() == [("a", 130)]
    query.world.logs["b"] = [105]
    query.world.mute.add("b")
    query.discover()
    query.world.logs["a"].append(131)
    assert query.step() == [], "the offset says where the new split begins"
    assert caplog.messages == []
    query.clock.advance(60_001)
    assert query.step() is None
    assert [message.partition(" for more")[0] for message in caplog.messages] == [
        "no answer about split b came"
    ]
    query.world.mute.clear()
    assert query.step() == [("b", 105)]
    query.coordinator.close()
    assert [(row["batch"], row["rows"]) for row in query.rows() if row["rows"]] == [(0, 2), (1, 1)]


def test_after_a_restart_an_unknown_split_holds_all_others(make: Callable[..., DrivenQuery]) -> None:
    """Rule 5, AL-19: after a restart a split whose event times are unknown holds the others back. The split was
    always paused, so the offset has no event time of it.
    """
    query = make({"slow": [100, 101, 102, 103], "paused": [104, 105]})
    query.step(limit=1)
    query.world.logs["slow"] += [200, 300]
    query.world.silent.add("paused")
    query.restart()
    assert query.step() is None
    query.world.silent.clear()
    while query.step() is not None:
        pass
    assert ("paused", 105) in {row for batch in query.batches for row in batch}
    assert ("slow", 200) not in {row for batch in query.batches for row in batch}


def test_periodic_calls_wait_for_their_handler() -> None:
    """The handler of a periodic call runs before the next call is made, so that results do not pile up during a long
    batch.
    """
    context = CoordinatorContext(1, "host")
    calls: list[int] = []
    context.call_async(lambda: calls.append(1), lambda value, error: None, initial_delay_ms=1, period_ms=1)
    wait_until(lambda: len(calls) == 1, "the first call")
    with pytest.raises(TimeoutError):
        wait_until(lambda: len(calls) > 1, "a second call", timeout=0.2)
    context.run_due()
    wait_until(lambda: len(calls) == 2, "the second call")
    context.close()


def test_a_query_reads_on_if_the_driver_cannot_listen(make: Callable[..., DrivenQuery]) -> None:
    """A query whose driver cannot listen for reports goes on, because planning does not need reports."""
    query = make({"a": [1, 2]})
    query.spec = replace(query.spec, driver=Driver("host.invalid", "host.invalid", 2))
    query.coordinator = SourceCoordinator(query.spec, query.clock)
    assert query.step() == [("a", 1), ("a", 2)]


def test_al_09_a_coordinator_that_is_never_asked_writes_nothing(
    make: Callable[..., DrivenQuery], tmp_path: Path
) -> None:
    """AL-09, AL-10: a coordinator that is never asked for a plan writes no table. Spark creates readers that it never
    uses for planning.
    """
    query = make({"a": [1]})
    query.coordinator.close()
    assert not (tmp_path / "table").exists()


def test_al_11_a_range_reported_twice_counts_once(make: Callable[..., DrivenQuery]) -> None:
    """AL-11: a range that is reported twice counts once. Retried and speculative tasks report the same range."""
    query = make({"a": [1, 2, 3]})
    start = query.offset
    query.step()
    query.run(start, query.offset)
    query.world.logs["a"].append(4)
    query.step()
    query.coordinator.close()
    assert [row["rows"] for row in query.rows()] == [3]


def test_al_14_two_lineages_of_one_source_are_two_members(make: Callable[..., DrivenQuery]) -> None:
    """AL-14: two queries of one source have two ids in the table. They share an entry only if the user gave them the
    same id.
    """
    for query in (make({"a": [1]}), make({"a": [1]})):
        query.step()
        query.step()
        query.coordinator.close()
    assert len({row["source"] for row in query.rows()}) == 2


def test_as_07_time_in_which_a_query_is_stopped_makes_no_split_idle(make: Callable[..., DrivenQuery]) -> None:
    """AS-07, I9: a query that is started again after a day does not take a split with data for idle."""
    query = make({"slow": [100], "fast": [100, 500]})
    query.step()
    query.world.logs["slow"].append(101)
    query.clock.advance(24 * 3_600_000)
    query.restart()
    assert query.step() == [("slow", 101)]
    assert query.step() is None


def test_a_checkpoint_of_another_source_is_refused(make: Callable[..., DrivenQuery]) -> None:
    query = make({"a": [1]})
    query.step()
    other = replace(query.spec, source=MemorySource(query.world, fingerprint="another"))
    with pytest.raises(ForeignCheckpointError, match="another"):
        SourceCoordinator(other, query.clock).latest_offset(query.offset, None)


def test_an_offset_without_fields_is_corrupt(make: Callable[..., DrivenQuery]) -> None:
    """An offset that has lost its content is refused as corrupt, and not taken for the initial offset."""
    query = make({"a": [1]})
    with pytest.raises(CorruptCheckpointError):
        query.coordinator.latest_offset({}, None)


class AnyMemory(MemorySource):
    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        return fingerprint.startswith("memory")


def test_a_source_that_accepts_the_checkpoint_of_another_goes_on_under_its_name(
    make: Callable[..., DrivenQuery],
) -> None:
    """A source that accepts the checkpoint of another source keeps the fingerprint and the lineage in it. The id in
    the table and in the group is made from both.
    """
    query = make({"a": [1]})
    query.step()
    query.world.logs["a"].append(2)
    other = replace(query.spec, source=AnyMemory(query.world, fingerprint="memory, but other"))
    document = SourceCoordinator(other, query.clock).latest_offset(query.offset, None)
    assert document["source"] == query.offset["source"] == query.spec.fingerprint
    assert document["lineage"] == query.offset["lineage"]


def test_everything_before_start_is_announced_as_processed(make: Callable[..., DrivenQuery]) -> None:
    query = make({"a": [1, 2]})
    query.step()
    assert "complete {'a': 2}" not in query.world.calls
    query.step()
    assert "complete {'a': 2}" in query.world.calls


def test_a_query_does_not_start_without_one_of_its_splits(
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query does not start before each of its splits has answered. The first offset has the beginning of every
    split, and a restart would forget a split that is not in it.
    """
    query = make({"a": [1], "b": [1]})
    query.world.silent.add("b")
    monkeypatch.setattr(stall_detector, "TIMEOUT_S", 0.2)
    with pytest.raises(ConnectorError, match=r"No answer about 1 splits \(b\)"):
        query.step()
    query.world.silent.clear()
    assert query.step() == [("a", 1), ("b", 1)]


def test_sk_30_a_split_can_be_read_by_several_tasks_and_counts_once(make: Callable[..., DrivenQuery]) -> None:
    """SK-30, AL-11: a split can be read by several tasks in pieces, and each piece has its own report.

    A repeated report counts once; a piece without a report counts as planned.
    """
    query = make({"a": [1, 2, 3, 4, 5, 6, 7]}, True, ReadLimits(min_tasks=3))
    start = query.offset
    query.step()
    assert [len(task.ranges) for task in query.coordinator.tasks(start, query.offset)] == [1, 1, 1]
    assert query.run(start, query.offset) == [("a", t) for t in range(1, 8)]
    query.world.logs["a"].append(8)
    query.step()
    query.coordinator.close()
    (row,) = query.rows()
    assert (row["rows"], row["max_event_time"].timestamp() * 1000) == (7, pytest.approx(7))


def test_the_coordinator_reports_the_ends_of_the_logs(make: Callable[..., DrivenQuery]) -> None:
    """SK-34 adapted: the coordinator reports the ends of the logs to Spark, whatever the limit. Before the first plan
    it reports ``None``.
    """
    query = make({"a": [1, 2, 3], "b": [1]})
    assert query.coordinator.report_latest_offset() is None
    query.step(limit=1)
    assert query.coordinator.report_latest_offset() == {"a": 3, "b": 1}


def test_the_coordinator_reports_the_ends_that_the_enumerator_returns(
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SK-34 adapted: the coordinator reports the ends of the logs that the enumerator returns, and not the ends of
    the ranges.
    """
    monkeypatch.setattr(
        MemoryEnumerator, "log_ends", lambda _, ranges: {name: r.end + 7 for name, r in ranges.items()}
    )
    query = make({"a": [1, 2, 3]})
    query.step()
    assert query.coordinator.report_latest_offset() == {"a": 10}


def test_a_split_of_a_bounded_source_is_finished_at_its_end(make: Callable[..., DrivenQuery]) -> None:
    """Rule 2: a split of a bounded source is finished at its end, and holds no other split back."""
    query = make({"short": [100], "long": [100, 500]})
    query.world.finished.add("short")
    query.step()
    query.step()
    assert query.batches[0] == [("long", 100), ("long", 500), ("short", 100)]
