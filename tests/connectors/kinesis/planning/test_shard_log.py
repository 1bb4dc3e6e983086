"""How far shards can be read, positions by time and by rows, and how many calls they cost, on the emulators."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest, SplitRange
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator
from flip27_stream.testing import KinesisServer
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.kit import data_of, numbered, source_of

pytestmark = pytest.mark.node

CALLS_PER_SHARD_AND_PLAN = 2


@contextmanager
def enumerating(source: KinesisSource) -> Iterator[tuple[TimedKinesisSourceEnumerator, list[Any]]]:
    with SourceQuery(source) as query, query.enumerator() as (enumerator, splits):
        assert isinstance(enumerator, TimedKinesisSourceEnumerator)
        yield enumerator, splits


def reads(enumerator: TimedKinesisSourceEnumerator) -> int:
    return sum(enumerator.calls.get(name, 0) for name in ("GetRecords", "GetShardIterator"))


def put_slowly(server: KinesisServer, stream: str, calls: int, size: int, shards: int) -> None:
    for i in range(calls):
        server.put(stream, numbered(i * size, size, shards))
        time.sleep(0.003)


@contextmanager
def written_meanwhile(server: KinesisServer, stream: str, shards: int) -> Iterator[list[int]]:
    """A thread writes records until the block ends. Yields a list whose element is the number of records so far."""
    stop, count = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            server.put(stream, numbered(count[0], 8 * shards, shards))
            count[0] += 8 * shards

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield count
    finally:
        stop.set()
        writer.join()


def test_cuts_by_time_are_exact(server: KinesisServer, stream: str) -> None:
    """Each position is that of the first record at or after the time, whether planning saw the record
    before or asks for it.
    """
    server.create_stream(stream, 1)
    put_slowly(server, stream, 60, 7, 1)
    source = source_of(server, stream)
    with SourceQuery(source) as query:
        rows = query.run(420)
    times = [int(row["approximateArrivalTimestamp"].timestamp() * 1000 + 0.5) for row in rows]
    numbers = [int(row["sequenceNumber"]) for row in rows]
    with enumerating(source) as (enumerator, splits):
        enumerator.split_ranges(dict.fromkeys(splits))
        enumerator.freeze()
        ranges = enumerator.split_ranges({splits[0]: numbers[0] * 10})
        name = splits[0].split_id
        found = enumerator.event_time_positions(PositioningRequest(ranges))
        assert found.event_times()[name].next == times[0]
        for asked in sorted({t + d for t in times[::9] for d in (0, 1)}, key=lambda t: (t % 7, t)):
            first = next((i for i, t in enumerate(times) if t >= asked), None)
            expected = numbers[first] * 10 if first is not None else ranges[name].end
            assert found.first_at_or_after(asked)[name][0] == expected


@pytest.mark.parametrize("rows", [1, 7, 150, 1500])
def test_positions_by_rows_are_counted_or_estimated(
    kinesalite: KinesisServer, stream: str, rows: int
) -> None:
    """A position that is few rows away is counted; one further away is estimated."""
    kinesalite.create_stream(stream, 1)
    put_slowly(kinesalite, stream, 20, 100, 1)
    with SourceQuery(source_of(kinesalite, stream)) as query:
        for _ in range(2):
            batch = query.wait_for_batch(rows)
            came = [row for task in query.tasks(*batch) for row in query.read(task)]
            query.offset = batch[1]
            assert len(came) == rows or (rows > 1000 and came)


def test_a_quiet_stream_costs_few_calls(server: KinesisServer, stream: str) -> None:
    """Planning makes one call for each shard and plan, which asks what follows the last record of the shard."""
    server.create_stream(stream, 3)
    server.put(stream, numbered(0, 30, 3))
    with enumerating(source_of(server, stream)) as (enumerator, splits):
        ranges = enumerator.split_ranges(dict.fromkeys(splits))
        ends = {split: ranges[split.split_id].end for split in splits}
        before = reads(enumerator)
        for _ in range(5):
            again = enumerator.split_ranges(ends)
            assert {r.end for r in again.values()} == set(ends.values())
            assert all(r.drained for r in again.values())
        assert reads(enumerator) - before == 5 * len(splits)


def test_a_busy_stream_costs_few_calls(kinesis: KinesisServer, stream: str) -> None:
    """Planning makes two calls on average for each shard and plan, though many more records are
    written than one page has.
    """
    kinesis.create_stream(stream, 2)
    with written_meanwhile(kinesis, stream, 2):
        time.sleep(0.5)
        with enumerating(source_of(kinesis, stream)) as (enumerator, splits):
            positions: dict[Any, int | None] = dict.fromkeys(splits)
            moved, before = 0, 0
            for plan in range(25):
                if plan == 5:
                    before = reads(enumerator)
                ranges = enumerator.split_ranges(positions)
                request = PositioningRequest({n: r for n, r in ranges.items() if r.position < r.end})
                times = enumerator.event_time_positions(request).event_times()
                assert all(t.next is not None and t.reach is not None for t in times.values())
                moved += sum(ranges[s.split_id].end != positions[s] for s in splits)
                positions = {split: ranges[split.split_id].end for split in splits}
                time.sleep(0.06)
            asked = (reads(enumerator) - before) / (20 * len(splits))
    assert moved > 20
    assert asked <= CALLS_PER_SHARD_AND_PLAN + 0.25


def test_the_end_of_a_large_quiet_shard_is_found(kinesalite: KinesisServer, stream: str) -> None:
    """The shard has far more records than one page, and no new ones. An AvailableNow run finds its end."""
    kinesalite.create_stream(stream, 1)
    for i in range(0, 12_000, 500):
        kinesalite.put(stream, numbered(i, 500, 1))
    with SourceQuery(source_of(kinesalite, stream), available_now=True) as query:
        rows = []
        while (batch := query.next_batch()) is not None:
            rows += [row for task in query.tasks(*batch) for row in query.read(task)]
            query.offset = batch[1]
    assert sorted(int(data) for data in data_of(rows)) == list(range(12_000))


def test_ranges_do_not_change_when_records_arrive(kinesis: KinesisServer, stream: str) -> None:
    """A range that is read again while records are written has the same rows. All ranges together
    have each record once.
    """
    kinesis.create_stream(stream, 2)
    source = source_of(kinesis, stream, maxRecordsPerTrigger="300")
    rows: list[dict[str, Any]] = []
    with written_meanwhile(kinesis, stream, 2) as count, SourceQuery(source) as query:
        for _ in range(12):
            batch = query.wait_for_batch()
            tasks = query.tasks(*batch)
            first = [query.read(task) for task in tasks]
            assert [query.read(task) for task in tasks] == first
            rows += [row for part in first for row in part]
            query.offset = batch[1]
    with SourceQuery(source, query.offset) as rest:
        rows += rest.run(count[0] - len(rows))
    assert sorted(int(data) for data in data_of(rows)) == list(range(count[0]))


def test_a_new_query_begins_at_its_initial_position(server: KinesisServer, stream: str) -> None:
    """KN-01: LATEST is the time at which the query began. AT_TIMESTAMP begins at the first record
    at or after the time.
    """
    server.create_stream(stream, 2)
    server.put(stream, numbered(0, 10, 2))
    time.sleep(0.05)
    middle = time.time_ns() // 1_000_000
    time.sleep(0.05)
    server.put(stream, numbered(10, 10, 2))
    time.sleep(0.05)
    latest = source_of(server, stream, initialPosition="latest")
    since = source_of(server, stream, initialPosition=f'{{"at_timestamp": {middle}}}')
    with SourceQuery(latest) as query, SourceQuery(since) as other:
        assert query.run(0) == []
        server.put(stream, numbered(20, 10, 2))
        assert sorted(int(data) for data in data_of(query.run(10))) == list(range(20, 30))
        assert sorted(int(data) for data in data_of(other.run(20))) == list(range(10, 30))


def test_an_unplanned_position_is_a_range_without_rows(server: KinesisServer, stream: str) -> None:
    """An empty shard has an empty range, which is drained and has no rows."""
    server.create_stream(stream, 1)
    with enumerating(source_of(server, stream)) as (enumerator, splits):
        assert enumerator.split_ranges(dict.fromkeys(splits)) == {
            splits[0].split_id: SplitRange(0, 0, drained=True, rows=0)
        }
