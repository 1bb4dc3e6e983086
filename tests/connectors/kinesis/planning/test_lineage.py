"""Which shards are read from where, and once: shards that are found later, listings that come late, shards that came
and went unseen, and a stream that is made again under a running query.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import pytest

from flip27_stream.connectors.kinesis.positions import before
from flip27_stream.errors import AuthenticationError, DataLossError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.testing import wait_until
from flip27_stream.testing.source_query import SourceQuery
from offsets import INITIAL
from tests.connectors.kinesis.support.answers import error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records

NOW = time.time_ns() // 1_000_000


def records(first: int, count: int, first_time: int = NOW - 60_000) -> list[tuple[int, int]]:
    return numbered_records(count, first_time, first=first)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("position", ["latest", f'{{"at_timestamp": {NOW - 1000}}}'], ids=["latest", "time"])
def test_shards_that_are_found_later_begin_at_their_first_record(position: str, is_restarted: bool) -> None:
    """KN-02, KN-03: the option does not count for them. An unchanged listing assigns nothing.

    The driver's clock may be ahead of the service's, so the children's records have arrival times before the start
    time.
    """
    service = MemoryService(a=MemoryShard(records(0, 10)), b=MemoryShard(records(10, 10)))
    with service.running():
        source = service.source(initialPosition=position)
        with SourceQuery(source) as query:
            for _ in range(3):
                assert query.run(0) == []
            assert set(query.offset["splits"]) == {"clicks/a", "clicks/b"}
            service.split("a", "c", "d")
            service.shards["c"].records += records(20, 5, NOW - 5000)
            service.shards["d"].records += records(25, 5, NOW - 5000)
            if not is_restarted:
                assert sorted(numbers_of(query.run(10))) == list(range(20, 30))
        if is_restarted:
            with SourceQuery(source, query.offset) as resumed:
                assert sorted(numbers_of(resumed.run(10))) == list(range(20, 30))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_latest_is_the_start_time_and_not_the_tip(is_restarted: bool) -> None:
    """KN-01, KN-07: records that are written between the listing and the first look are read, also if the query is
    stopped in between.
    """
    service = MemoryService(a=MemoryShard(records(0, 200)), b=MemoryShard())

    def write(operation: str, asked: dict[str, Any]) -> Any:
        if operation == "GetShardIterator" and len(service.shards["a"].records) == 200:
            now = time.time_ns() // 1_000_000
            service.shards["a"].records += records(200, 5, now)
            service.shards["b"].records += records(205, 5, now)
            return error("AccessDeniedException") if is_restarted else None
        return None

    with service.running():
        service.fault = write
        with (
            SourceQuery(service.source(initialPosition="latest")) as query,
            query.enumerator() as (found, splits),
        ):
            state = found.snapshot_state()
            if is_restarted:
                with pytest.raises(AuthenticationError):
                    found.split_ranges(dict.fromkeys(splits))
                assert found.snapshot_state() == state
                context = CoordinatorContext(2, "localhost")
                again = query.source.restore_enumerator(context, _stored(query.source, state))
                again.start()

                def is_assigned() -> bool:
                    context.run_due()
                    return bool(context.splits)

                wait_until(is_assigned, "the shards")
                ranges = again.split_ranges(dict.fromkeys(context.splits.values()))
                context.close()
                again.close()
            else:
                ranges = found.split_ranges(dict.fromkeys(splits))
    assert {name: (r.position, r.rows) for name, r in ranges.items()} == {
        "clicks/a": (before(records(200, 1)[0][0]), 5),
        "clicks/b": (before(records(205, 1)[0][0]), 5),
    }


def _stored(source: Any, state: Any) -> Any:
    """Returns a state as a checkpoint has it."""
    serializer = source.enumerator_checkpoint_serializer
    return serializer.deserialize(serializer.version, json.loads(json.dumps(serializer.serialize(state))))


def test_a_shard_stays_in_the_offset_until_its_children_are_planned() -> None:
    """KN-12 adapted: every offset of the query has either the parent or both children, so a restart from any of them
    reads what is left, each record once.
    """
    service = MemoryService(a=MemoryShard(records(0, 10)))
    offsets: list[tuple[dict[str, Any], int]] = []
    with service.running():
        with SourceQuery(service.source()) as query:
            rows = query.run(10)
            offsets.append((query.offset, len(rows)))
            service.shards["a"].records += records(10, 10)
            service.split("a", "c", "d")
            for first, child in ((20, "c"), (30, "d")):
                service.shards[child].records += records(first, 10)

            def read_all() -> bool:
                rows.extend(query.step())
                offsets.append((query.offset, len(rows)))
                return len(rows) == 40

            wait_until(read_all, "all rows")
        kinds = {tuple(sorted(offset["splits"])) for offset, _ in offsets}
        assert kinds == {("clicks/a",), ("clicks/c", "clicks/d")}
        for offset, count in offsets[:: max(len(offsets) // 6, 1)]:
            with SourceQuery(service.source(), offset) as resumed:
                left = numbers_of(resumed.run(40 - count))
            assert sorted(left) == sorted(numbers_of(rows)[count:])


def test_children_of_the_first_listing_begin_at_the_start_time() -> None:
    """A shard was split long before the query began, and its children's records are old, too. The query may be stopped
    before it plans the children.
    """
    service = MemoryService(a=MemoryShard(records(0, 10)))
    service.split("a", "c", "d")
    for first, child in ((10, "c"), (20, "d")):
        service.shards[child].records += records(first, 10, NOW - 50_000)
    with service.running():
        source = service.source(initialPosition="latest")
        with SourceQuery(source) as query:
            query.step()
        assert "clicks/c" not in query.offset["splits"]
        with SourceQuery(source, query.offset) as resumed:
            assert resumed.run(0) == []
            service.shards["c"].records += records(30, 3, time.time_ns() // 1_000_000 + 60_000)
            assert numbers_of(resumed.run(3)) == [30, 31, 32]


def written_by_version_1(offset: dict[str, Any]) -> dict[str, Any]:
    """Returns an offset as version 1 of the state had it: without the shards of the first listing, and without a done
    shard that is not listed any more.
    """
    version, state = offset["enumerator"]
    assert version == 3
    streams = {name: stream[:5] for name, stream in state["streams"].items()}
    return {**offset, "enumerator": [1, {"start": state["start"], "streams": streams}]}


def test_waiting_shards_of_a_checkpoint_of_version_1_begin_at_the_start_time() -> None:
    """The checkpoint does not say whether a shard that is not begun was there when the query began."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    service.split("a", "c", "d")
    for first, child in ((10, "c"), (20, "d")):
        service.shards[child].records += records(first, 10, NOW - 50_000)
    with service.running():
        source = service.source(initialPosition="latest")
        with SourceQuery(source) as query:
            query.step()
        assert set(query.offset["splits"]) == {"clicks/a"}
        with SourceQuery(source, written_by_version_1(query.offset)) as resumed:
            assert resumed.run(0) == []
            service.shards["c"].records += records(30, 3, time.time_ns() // 1_000_000 + 60_000)
            assert numbers_of(resumed.run(3)) == [30, 31, 32]


def test_a_done_parent_that_a_checkpoint_of_version_1_forgot_is_no_loss() -> None:
    """Shards a and b were merged. Shard a was read to its end and has expired; b is not read to its end."""
    service = MemoryService(a=MemoryShard(records(0, 10)), b=MemoryShard(records(10, 10)))
    with service.running():
        with SourceQuery(service.source()) as query:
            query.run(20)
        stored = written_by_version_1(query.offset)
        stream = stored["enumerator"][1]["streams"]["clicks"]
        assert stream[3:] == [["a", "b"], []]
        stream[3] = ["b"]
        del stored["splits"]["clicks/a"]
        service.shards["b"].is_closed = True
        service.shards["c"] = MemoryShard(records(20, 10), ("a", "b"))
        del service.shards["a"]
        with SourceQuery(service.source(), stored) as resumed:
            assert numbers_of(resumed.run(10)) == list(range(20, 30))


def test_a_listing_that_comes_late_changes_nothing() -> None:
    """A listing from before two reshardings comes after them. No shard is read again."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    is_held, is_let_go = threading.Event(), threading.Event()
    planning = threading.current_thread()

    def held(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "ListShards" or threading.current_thread() is planning or is_held.is_set():
            return None
        old = service._listed({})
        is_held.set()
        is_let_go.wait(20)
        return 200, old

    with service.running(), SourceQuery(service.source()) as query:
        rows = query.run(10)
        service.fault = held
        wait_until(lambda: query.step() == [] and is_held.is_set(), "a listing to be held")
        service.split("a", "b", "c")
        service.split("b", "d", "e")
        for i, shard_id in enumerate("bcde"):
            service.shards[shard_id].records += records(10 * (i + 1), 10)
        rows += query.run(40)
        listings = len([1 for operation, _ in service.asked if operation == "ListShards"])
        is_let_go.set()

        def is_listed_again() -> bool:
            rows.extend(query.step())
            return len([1 for operation, _ in service.asked if operation == "ListShards"]) > listings + 3

        wait_until(is_listed_again, "later listings")
    assert sorted(numbers_of(rows)) == list(range(50))


def test_a_parent_that_came_and_went_unseen_is_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Shard b was made, closed and has expired while the query was stopped. Shards that were done are no loss."""
    service = MemoryService(a=MemoryShard(records(0, 10)), z=MemoryShard())
    with service.running():
        with SourceQuery(service.source()) as query:
            query.run(10)
            service.split("a", "b", "c")
            rows = list[dict[str, Any]]()

            def is_done() -> bool:
                rows.extend(query.step())
                return "clicks/b" in query.offset["splits"]

            wait_until(is_done, "shard a to be done")
        service.split("b", "d", "e")
        service.split("d", "f", "g")
        for i, shard_id in enumerate("efg"):
            service.shards[shard_id].records += records(10 * (i + 1), 10)
        del service.shards["a"], service.shards["d"]
        with SourceQuery(service.source(), query.offset) as failing, pytest.raises(DataLossError) as failure:
            failing.run(1)
        assert "Shards clicks/d were created" in str(failure.value)
        tolerant = service.source(failOnDataLoss="false")
        with SourceQuery(tolerant, query.offset) as going_on, caplog.at_level(logging.WARNING):
            rows += going_on.run(30)
    assert sorted(numbers_of(rows)) == list(range(10, 40))
    assert "Shards clicks/d were created" in caplog.text


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_stream_that_is_made_again_under_a_running_query_is_read_once(is_refused: bool) -> None:
    """The service refuses the old positions, or goes on silently at the first record that is there."""
    service = MemoryService(a=MemoryShard(records(0, 10)))

    def refuse(operation: str, asked: dict[str, Any]) -> Any:
        number = int(asked.get("StartingSequenceNumber", 10**60))
        return error("InvalidArgumentException") if number < service.shards["a"].records[0][0] else None

    with service.running(), SourceQuery(service.source(failOnDataLoss="false")) as query:
        assert numbers_of(query.run(10)) == list(range(10))
        service.created, service.shards = 2.0, {"a": MemoryShard(records(100, 10))}
        if is_refused:
            service.fault = refuse
        assert numbers_of(query.run(10)) == list(range(100, 110))
        assert set(query.offset["splits"]) == {"clicks/a#1"}
        assert query.run(0) == []


def test_runs_of_trigger_once_read_the_children_of_a_shard_that_was_read_to_its_end() -> None:
    """A run of ``Trigger.Once`` makes one plan. It finds out itself that the parent, which has nothing more to read, is
    done; the plan after that one would be in a process that knows no more.
    """
    service = MemoryService(a=MemoryShard(records(0, 10)))
    rows = list[dict[str, Any]]()
    offset: dict[str, Any] = dict(INITIAL)
    with service.running():
        for generation in range(4):
            if generation == 1:
                service.split("a", "b", "c")
            if generation == 2:
                service.split("b", "d", "e")
                service.shards["d"].records += records(10, 10)
            with SourceQuery(service.source(), offset) as query:
                end = json.loads(json.dumps(query._coordinator.latest_offset(query.offset, None)))
                rows += query.read_all(query.offset, end)
                offset = end
    assert numbers_of(rows) == list(range(20))
    assert set(offset["splits"]) == {"clicks/c", "clicks/d", "clicks/e"}
