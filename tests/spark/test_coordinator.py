"""The coordinator over a source in memory: planning, restarts, AvailableNow, idleness, the table. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import RecordTimestampAssigner, SourceReader, WatermarkStrategy
from flip27_stream.errors import AlignmentError, ConnectorError, ForeignCheckpointError
from flip27_stream.spark import patience
from flip27_stream.spark.coordinator import SourceCoordinator
from flip27_stream.spark.enumerator_context import CoordinatorContext
from flip27_stream.spark.job import Driver, Job
from flip27_stream.spark.task import read_task
from flip27_stream.testing import ManualClock, wait_until
from offsets import INITIAL
from tests.spark.memory_source import MemoryEnumerator, MemorySource, World
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.table import SplitWatermarkTable

NOW = 1_000_000


class Query:
    """Drives a coordinator as Spark does, and keeps what Spark would: the last offset and the rows."""

    def __init__(self, world: World, table: Path | None, **options: str) -> None:
        self.world = world
        self.table = table
        self.options = options
        self.clock = ManualClock(NOW)
        self.offset: dict[str, Any] = dict(INITIAL)
        self.batches: list[list[tuple[str, int | None]]] = []
        self.coordinator = self._coordinator()

    def _coordinator(self) -> SourceCoordinator:
        alignment = None
        if self.table is not None:
            given = {
                "scan.watermark.alignment.group": "g",
                "scan.watermark.alignment.max-drift": "10 ms",
                "scan.watermark.alignment.table": str(self.table),
                "scan.watermark.idle-timeout": "1 s",
                "scan.watermark.event-time": "timestamp",
            }
            alignment = AlignmentOptions.parse(
                given | {k.replace("_", "-"): v for k, v in self.options.items()}
            )
        strategy = WatermarkStrategy(timestamp_assigner=RecordTimestampAssigner())
        self.job = Job(MemorySource(self.world), strategy, alignment, None, Driver(parallelism=2))
        return SourceCoordinator(self.job, self.clock)

    def restart(self) -> None:
        self.coordinator.close()
        self.coordinator = self._coordinator()

    def discover(self) -> None:
        enumerator = self.coordinator._enumerator
        assert isinstance(enumerator, MemoryEnumerator)
        enumerator.discover()

    def step(self, limit: int | None = None) -> list[tuple[str, int | None]] | None:
        """One micro-batch; ``None`` if Spark would not run one."""
        end = self.coordinator.latest_offset(self.offset, limit)
        if end is self.offset:
            return None
        start, self.offset = self.offset, end
        rows = self.run(start, end)
        self.batches.append(rows)
        return rows

    def run(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int | None]]:
        batches = [b for task in self.coordinator.tasks(start, end) for b in read_task(self.job, task)]
        return sorted(
            (row["split"], row["event_time"] if row["event_time"] is not None else -1)
            for batch in batches
            for row in batch.to_pylist()
        )

    def rows(self) -> list[dict[str, Any]]:
        assert self.table is not None
        rows = SplitWatermarkTable(str(self.table), {}).rows()
        recorded: list[dict[str, Any]] = rows.sort_by(
            [("batch", "ascending"), ("split", "ascending")]
        ).to_pylist()
        return recorded


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Query]:
    def query(logs: Mapping[str, list[int | None]], aligned: bool = True, **options: str) -> Query:
        return Query(World(dict(logs)), tmp_path / "table" if aligned else None, **options)

    return query


def test_a_fast_split_waits_for_a_slow_one(make: Callable[..., Query]) -> None:
    """I3: the split that is ahead is read to the reach of the other plus the drift, then paused."""
    query = make({"slow": [100, 110], "fast": [100, 120, 121, 500]})
    assert query.step() == [("fast", 100), ("fast", 120), ("slow", 100), ("slow", 110)]
    assert query.step() is None


def test_rows_of_a_batch_are_recorded_when_the_next_is_planned(make: Callable[..., Query]) -> None:
    """A row's watermark is that of the front (DESIGN 2): the next record counts, read or not."""
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


def test_nothing_new_returns_the_very_start(make: Callable[..., Query]) -> None:
    """I8, SX (PY-07): text and object are those of ``start``; new data make a batch."""
    query = make({"a": [1, 2]})
    query.step()
    assert query.coordinator.latest_offset(query.offset, None) is query.offset
    query.world.logs["a"].append(3)
    assert query.step() == [("a", 3)]


def test_unaligned_reads_all(make: Callable[..., Query]) -> None:
    query = make({"a": [1], "b": [10_000_000]}, aligned=False)
    assert query.step() == [("a", 1), ("b", 10_000_000)]


def test_new_splits_begin_at_their_beginning_and_say_so(make: Callable[..., Query]) -> None:
    query = make({"a": [1, 2]})
    query.step()
    query.world.logs["b"] = [2, 3]
    query.discover()
    assert query.step() == [("b", 2), ("b", 3)]


def test_the_same_offsets_give_the_same_tasks_in_another_process(make: Callable[..., Query]) -> None:
    """PY-09, PY-14: a replay reads the very same ranges."""
    query = make({"a": [1, 2, 300], "b": [1, 5]})
    start = query.offset
    first = query.step()
    query.world.logs["a"].append(301)
    query.restart()
    assert query.run(start, query.offset) == first


def test_a_restart_goes_on_aligned(make: Callable[..., Query]) -> None:
    """AL-19, AS-12, WM-21: the first plan after a restart holds the fast split back."""
    query = make({"slow": [100, 110], "fast": [100, 120, 121, 500]})
    query.step()
    query.restart()
    assert query.step() is None
    query.world.logs["slow"].append(112)
    assert query.step() == [("fast", 121), ("slow", 112)]


def test_an_idle_split_lets_the_others_go(make: Callable[..., Query]) -> None:
    """WM-06: idle only after more than the timeout; the clock of the offset survives a restart."""
    query = make({"slow": [100], "fast": [100, 500]})
    assert query.step() == [("fast", 100), ("slow", 100)]
    query.clock.advance(1000)
    assert query.step() is None
    clock = query.clock
    query.restart()
    query.coordinator._clock = clock
    clock.advance(1)
    assert query.step() == [("fast", 500)]


def test_a_clock_that_steps_back_makes_nothing_idle(make: Callable[..., Query]) -> None:
    """I9: a stored moment in the future restarts at now."""
    query = make({"slow": [100], "fast": [100, 500]})
    query.step()
    query.clock.advance(-600_000)
    query.restart()
    assert query.step() is None
    query.clock.advance(1000)
    assert query.step() is None
    query.clock.advance(1)
    assert query.step() == [("fast", 500)]


def test_an_open_transaction_is_not_emptiness(make: Callable[..., Query]) -> None:
    """I9."""
    query = make({"slow": [100], "fast": [100, 500]})
    query.world.undrained.add("slow")
    query.step()
    query.clock.advance(60_000)
    assert query.step() is None


def test_a_silent_leader_is_neither_empty_nor_idle(make: Callable[..., Query]) -> None:
    """DESIGN rule 5: its front stands."""
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


def test_available_now_reads_all_that_was_there_and_no_more(make: Callable[..., Query]) -> None:
    """AO-06, AO-07, PY-06, I11: a finished split holds nobody; later rows and later splits wait for the next run."""
    query = make({"a": [1, 2, 3], "b": [1, 900]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.logs["a"].append(4)
    query.world.logs["c"] = [7]
    while query.step(limit=2) is not None:
        pass
    assert sorted(row for batch in query.batches for row in batch) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 900),
    ]
    assert len(query.rows()) == 2 * len(query.batches), "the table is flushed before the run ends"


@pytest.mark.parametrize("aligned", [True, False])
def test_a_split_found_during_an_available_now_run_is_read_by_the_next(
    make: Callable[..., Query], aligned: bool
) -> None:
    query = make({"a": [1, 2, 3]}, aligned)
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.logs["b"] = [1, 2]
    query.discover()
    while query.step(limit=2) is not None:
        pass
    assert {split for batch in query.batches for split, _ in batch} == {"a"}
    query.restart()
    query.coordinator.prepare_available_now()
    while query.step() is not None:
        pass
    assert sorted(row for batch in query.batches for row in batch) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 2),
    ]


def test_available_now_ends_where_a_log_ends_that_lost_its_tail(make: Callable[..., Query]) -> None:
    query = make({"a": [1, 2, 3, 4]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    del query.world.logs["a"][2:]
    assert query.step(limit=2) is None


def test_available_now_gives_up_on_a_leader_that_never_answers(
    make: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make({"a": [1, 2], "b": [1, 2]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.mute.add("b")
    monkeypatch.setattr(patience, "PATIENCE_S", 0.2)
    query.step()
    with pytest.raises(ConnectorError, match="No answer about 1 splits, b"):
        query.step()


def test_after_a_restart_nobody_passes_a_split_of_which_nothing_is_known(make: Callable[..., Query]) -> None:
    """DESIGN rule 5, AL-19: it was paused all the time, so no event time of it is in the offset."""
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
    """A result is handled before the next call is made, so a long batch piles up nothing."""
    context = CoordinatorContext(1, "host")
    calls: list[int] = []
    context.call_async(lambda: calls.append(1), lambda value, error: None, initial_delay_ms=1, period_ms=1)
    wait_until(lambda: len(calls) == 1, "the first call")
    with pytest.raises(TimeoutError):
        wait_until(lambda: len(calls) > 1, "a second call", timeout=0.2)
    context.run_due()
    wait_until(lambda: len(calls) == 2, "the second call")
    context.close()


def test_a_driver_that_cannot_listen_reads_on(make: Callable[..., Query]) -> None:
    """Reports are an optimisation: without an address tasks send none."""
    query = make({"a": [1, 2]})
    query.job = replace(query.job, driver=Driver("host.invalid", "host.invalid", 2))
    query.coordinator = SourceCoordinator(query.job, query.clock)
    assert query.step() == [("a", 1), ("a", 2)]


def test_available_now_hold_leaves_what_is_held(make: Callable[..., Query], tmp_path: Path) -> None:
    query = make({"a": [1, 2, 3], "b": [1, 900]}, **{"scan.watermark.alignment.available_now": "hold"})
    query.coordinator.prepare_available_now()
    while query.step() is not None:
        pass
    assert ("b", 900) not in {row for batch in query.batches for row in batch}


def test_al_09_a_coordinator_that_is_never_asked_writes_nothing(
    make: Callable[..., Query], tmp_path: Path
) -> None:
    """AL-09, AL-10: Spark builds readers that it never plans with."""
    query = make({"a": [1]})
    query.coordinator.close()
    assert not (tmp_path / "table").exists()


def test_al_11_a_range_reported_twice_counts_once(make: Callable[..., Query]) -> None:
    """AL-11: retried and speculative tasks report the same key."""
    query = make({"a": [1, 2, 3]})
    start = query.offset
    query.step()
    query.run(start, query.offset)
    query.world.logs["a"].append(4)
    query.step()
    query.coordinator.close()
    assert [row["rows"] for row in query.rows()] == [3]


def test_al_14_two_lineages_of_one_source_are_two_members(make: Callable[..., Query]) -> None:
    """AL-14: no two sources share an entry, unless the user names them alike."""
    for query in (make({"a": [1]}), make({"a": [1]})):
        query.step()
        query.step()
        query.coordinator.close()
    assert len({row["source"] for row in query.rows()}) == 2


def test_as_07_time_in_which_a_query_is_stopped_proves_nothing_about_data(make: Callable[..., Query]) -> None:
    """AS-07, I9: a query that comes back after hours to a split with data does not take it for idle."""
    query = make({"slow": [100], "fast": [100, 500]})
    query.step()
    query.world.logs["slow"].append(101)
    query.clock.advance(24 * 3_600_000)
    query.restart()
    assert query.step() == [("slow", 101)]
    assert query.step() is None


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_as_18_splits_that_cannot_be_cut(
    make: Callable[..., Query], allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AS-18: an error, unless the user allows them to run unaligned."""
    option = "scan.watermark.alignment.allow-unaligned-source-splits"
    query = make({"a": [1], "b": [10_000]}, **{option: allowed})
    monkeypatch.setattr("flip27_stream.spark.batch_planner.SupportsEventTimePositions", SourceReader)
    if allowed == "true":
        assert query.step() == [("a", 1), ("b", 10_000)]
    else:
        with pytest.raises(AlignmentError, match=option):
            query.step()


def test_a_checkpoint_of_another_source_is_refused(make: Callable[..., Query]) -> None:
    query = make({"a": [1]})
    query.step()
    other = replace(query.job, source=MemorySource(query.world, fingerprint="another"))
    with pytest.raises(ForeignCheckpointError, match="another"):
        SourceCoordinator(other, query.clock).latest_offset(query.offset, None)


def test_everything_before_start_is_announced_as_processed(make: Callable[..., Query]) -> None:
    query = make({"a": [1, 2]})
    query.step()
    assert "complete {'a': 2}" not in query.world.calls
    query.step()
    assert "complete {'a': 2}" in query.world.calls


def test_a_query_does_not_start_without_one_of_its_splits(
    make: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first offset tells where every split begins; a split that it lacked would be forgotten by a restart."""
    query = make({"a": [1], "b": [1]})
    query.world.silent.add("b")
    monkeypatch.setattr(patience, "PATIENCE_S", 0.2)
    with pytest.raises(ConnectorError, match="No answer about 1 splits, b among them"):
        query.step()
    query.world.silent.clear()
    assert query.step() == [("a", 1), ("b", 1)]
