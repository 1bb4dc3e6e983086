"""An enumerator with a backlog assigns what the next batch may read. Splits that were read to their ends leave the
offset. No JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from flip27_stream.api import ReadLimits, WatermarkStrategy
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from flip27_stream.spark.source_spec import Driver, SourceSpec
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.backlog_source import BacklogEnumerator
from tests.spark.support.sources.memory_source import MemorySource, MemorySplit, MemoryWorld

Make = Callable[..., DrivenQuery]
Logs = Mapping[str, list[int | None]]
ONE_FILE = ReadLimits(max_files=1)
TIMES = ("max_event_time", "watermark")
YEAR: Logs = {"c": [300, 310, 320], "a": [100, 110], "b": [200, 205, 210]}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def query(logs: Logs, limits: ReadLimits, aligned: bool = True, **options: str) -> DrivenQuery:
        world = MemoryWorld({name: list(times) for name, times in logs.items()})
        source = MemorySource(world, limits=limits, enumerator=BacklogEnumerator)
        return DrivenQuery(world, tmp_path / "table" if aligned else None, source=source, options=options)

    return query


def read_all(query: DrivenQuery) -> list[list[tuple[str, int | None]]]:
    while query.step(UNLIMITED) is not None:
        pass
    return query.batches


@pytest.mark.parametrize("aligned", [True, False])
def test_a_batch_reads_the_splits_admitted_for_it(make: Make, aligned: bool) -> None:
    """With a limit of one file each batch reads one file, in event-time order. A file that is done is in no later
    offset, and its removal alone makes no batch.
    """
    query = make(YEAR, ONE_FILE, aligned)
    seen = []
    while (batch := query.step(UNLIMITED)) is not None:
        seen.append((batch[0][0], sorted(query.offset["splits"])))
    assert seen == [("a", ["a"]), ("b", ["b"]), ("c", ["c"])]
    assert query.coordinator.latest_offset(query.offset, UNLIMITED) is query.offset


def test_trigger_once_admits_the_whole_backlog(make: Make) -> None:
    """Trigger.Once reads the whole backlog without any limit, even that of the source."""
    query = make(YEAR, ONE_FILE, aligned=False)
    assert len(query.step() or ()) == 8


def test_files_to_come_hold_assigned_files(make: Make) -> None:
    """I3: a file is read up to max-drift after the least event time of the files that are not assigned yet. Then it
    is paused.
    """
    query = make(
        {"long": [100, 110, 111, 150, 200], "next": [100, 120], "last": [140]}, ReadLimits(max_files=1)
    )
    first = query.step(UNLIMITED)
    assert first == [("long", 100), ("long", 110)]
    assert query.step(UNLIMITED) is None, "'long' keeps the only place, and stands at the horizon"
    query.coordinator.close()
    both = make(
        {"long": [100, 110, 111, 150, 200], "next": [100, 120], "last": [140]}, ReadLimits(max_files=2)
    )
    assert read_all(both) == [
        [("long", 100), ("long", 110), ("long", 111), ("long", 150), ("next", 100), ("next", 120)],
        [("last", 140), ("long", 200)],
    ]


def test_the_request_says_how_event_time_is_found(make: Make) -> None:
    query = make(YEAR, ONE_FILE, **{"scan.watermark.max-out-of-orderness": "5 ms"})
    query.step(UNLIMITED)
    request = query.world.requests[-1]
    assert request.timestamp_assigner is query.spec.strategy.timestamp_assigner
    assert request.max_out_of_orderness_ms == query.spec.strategy.max_out_of_orderness_ms


@pytest.mark.parametrize("aligned", [True, False])
def test_a_large_file_is_read_in_parts_over_several_batches(make: Make, aligned: bool) -> None:
    query = make(YEAR, ReadLimits(max_files=1, max_bytes=2), aligned)
    assert [len(batch) for batch in read_all(query)] == [2, 2, 1, 2, 1]
    assert len({row for batch in query.batches for row in batch}) == 8


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("limits", [ONE_FILE, ReadLimits(max_bytes=2), ReadLimits()])
def test_available_now_reads_the_backlog_to_its_end_and_nothing_found_later(
    make: Make, limits: ReadLimits, aligned: bool
) -> None:
    query = make(YEAR, limits, aligned)
    query.coordinator.prepare_available_now()
    query.step(UNLIMITED)
    query.world.logs["later"] = [1000]
    read_all(query)
    rows = sorted(row for batch in query.batches for row in batch)
    assert rows == sorted((name, time) for name, times in YEAR.items() for time in times)
    query.restart()
    assert ("later", 1000) in {row for batch in read_all(query) for row in batch}


@pytest.mark.parametrize("after", range(1, 5))
def test_a_restart_goes_on_in_the_backlog(make: Make, after: int) -> None:
    query = make(YEAR, ReadLimits(max_files=1, max_bytes=2))
    for _ in range(after):
        query.step(UNLIMITED)
    query.restart()
    read_all(query)
    assert sorted(row for batch in query.batches for row in batch) == sorted(
        (name, time) for name, times in YEAR.items() for time in times
    )


def test_rows_of_a_file_that_is_done_are_recorded_whole(make: Make) -> None:
    """The table has all rows of a file, although the file is retired before the rows of its last batch are
    recorded.
    """
    query = make(YEAR, ONE_FILE)
    read_all(query)
    query.coordinator.close()
    assert [
        (row["split"], row["rows"], *(round(row[time].timestamp() * 1000) for time in TIMES))
        for row in query.rows()
        if row["batch"] > 0
    ] == [("a", 2, 110, 109), ("b", 3, 210, 209), ("c", 3, 320, 319)]


class EverySecondLook(BacklogEnumerator):
    """An enumerator that assigns files at every second call of ``admit`` only."""

    looks = 0

    def admit(self, limits: ReadLimits) -> None:
        self.looks += 1
        if self.looks % 2:
            super().admit(limits)


@pytest.mark.parametrize("aligned", [True, False])
def test_available_now_waits_while_splits_are_pending(make: Make, aligned: bool) -> None:
    """An AvailableNow run returns no unchanged offset while splits are pending, because Spark ends the run at the
    first unchanged offset.
    """
    query = make(YEAR, ONE_FILE, aligned)
    query.source.enumerator = EverySecondLook
    query.coordinator.prepare_available_now()
    assert [batch[0][0] for batch in read_all(query)] == ["a", "b", "c"]


def test_a_retired_split_cannot_be_assigned_or_retired_again() -> None:
    context = CoordinatorContext(1, "host")
    context.assign_split(MemorySplit("a"), 0)
    context.retire_splits(["a"])
    with pytest.raises(ValueError, match=r"Cannot retire splits \['a'\]: they are not assigned"):
        context.retire_splits(["a"])
    with pytest.raises(ValueError, match=r"Cannot assign splits \['a'\]: they were retired"):
        context.assign_split(MemorySplit("a"), 0)


def test_a_batch_read_reads_the_whole_backlog() -> None:
    source = MemorySource(MemoryWorld({k: list(v) for k, v in YEAR.items()}), enumerator=BacklogEnumerator)
    spec = SourceSpec(source, WatermarkStrategy(), None, Driver(parallelism=2))
    reader = Flip27BatchReader(spec)
    tasks = [partition.value for partition in reader.partitions()]
    assert sum(batch.num_rows for task in tasks for batch in read_task(spec, task)) == 8


@pytest.mark.parametrize("limits", [ONE_FILE, ReadLimits(max_bytes=1), ReadLimits(max_rows=1)])
def test_spark_is_told_that_there_is_a_limit(limits: ReadLimits) -> None:
    """A source with any limit returns ``ReadMaxRows`` to Spark, and a source without one ``ReadAllAvailable``. Only
    with ``ReadMaxRows`` can Once and ProcessingTime be told apart (PY-*).
    """
    spec = SourceSpec(MemorySource(MemoryWorld({}), limits=limits), WatermarkStrategy(), None, Driver())
    assert type(Flip27StreamReader(spec).getDefaultReadLimit()).__name__ == "ReadMaxRows"
    spec = SourceSpec(MemorySource(MemoryWorld({})), WatermarkStrategy(), None, Driver())
    assert type(Flip27StreamReader(spec).getDefaultReadLimit()).__name__ == "ReadAllAvailable"
