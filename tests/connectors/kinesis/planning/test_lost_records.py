"""What is reported of records that expired before they were read, and of shards and streams that are gone."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.kinesis.planning import enumerator
from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON
from flip27_stream.errors import DataLossError
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records


def now() -> int:
    """Returns the present time (ms)."""
    return time.time_ns() // 1_000_000


def records(first: int, count: int) -> list[tuple[int, int]]:
    return numbered_records(count, now() - 60_000, first=first)


def first_page_empty() -> Any:
    """Returns a fault: the first page of each iterator is empty, and says that more records follow."""
    seen = set[str]()

    def fault(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "GetRecords" or asked["ShardIterator"] in seen:
            return None
        seen.add(asked["ShardIterator"])
        return 200, {"Records": [], "NextShardIterator": asked["ShardIterator"], "MillisBehindLatest": 5000}

    return fault


@pytest.mark.parametrize("begins_empty", [False, True])
@pytest.mark.parametrize("expired", [9, 10, 15])
def test_a_last_record_that_has_expired_is_warned_of(
    expired: int, begins_empty: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that followed the last one which was read may have expired with it, and nobody can see them. The first
    page of an iterator may be empty though records follow."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    if begins_empty:
        service.fault = first_page_empty()
    with service.running():
        with SourceQuery(service.source()) as query:
            query.run(10)
        service.shards["a"].records += records(10, 10)
        service.shards["a"].expire(expired)
        with SourceQuery(service.source(), query.offset) as resumed, caplog.at_level(logging.WARNING):
            rows = resumed.run(10 - max(expired - 10, 0))
            assert resumed.run(0) == []
    assert numbers_of(rows) == list(range(max(expired, 10), 20))
    assert caplog.text.count("does not exist any more") == (expired >= 10)


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_cut_behind_which_no_record_is_left_is_data_loss(
    is_closed: bool, is_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A row limit cut the shard before record 5, which planning saw. Then record 5 and all later records expired. The
    service refuses the position, or goes on silently."""
    service = MemoryService(a=MemoryShard(records(0, 10)))

    def refuse(operation: str, asked: dict[str, Any]) -> Any:
        is_gone = asked.get("StartingSequenceNumber") == str(records(5, 1)[0][0]) and is_expired
        return error("InvalidArgumentException") if is_gone and is_refused else None

    is_expired, service.fault = False, refuse
    with service.running():
        with SourceQuery(service.source(maxRecordsPerTrigger="5")) as query:
            query.planned = query.wait_for_batch()
            assert numbers_of(query.step()) == list(range(5))
        if is_closed:
            service.split("a", "c")
            service.shards["c"].records += records(20, 3)
        service.shards["a"].expire(10)
        is_expired = True
        why = "InvalidArgumentException" if is_refused else "no record is left"
        is_told = pytest.raises(DataLossError, match=f"Records of clicks/a are lost.*{why}")
        with SourceQuery(service.source(), query.offset) as failing, is_told:
            failing.run(1)
        tolerant = service.source(failOnDataLoss="false")
        with SourceQuery(tolerant, query.offset) as going_on, caplog.at_level(logging.WARNING):
            expected = [20, 21, 22] if is_closed else []
            assert numbers_of(going_on.run(len(expected))) == expected
            if not is_closed:
                service.shards["a"].records += records(10, 5)
                assert numbers_of(going_on.run(5)) == list(range(10, 15))
    assert caplog.text.count("Records of clicks/a are lost") == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_first_record_of_a_planned_range_is_known_by_its_number(
    is_restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch behind record 9 was planned. Records 10 to 14 expire before a task reads it, or before it is replayed."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    with service.running():
        with SourceQuery(service.source()) as query:
            query.run(10)
            service.shards["a"].records += records(10, 10)
            start, end = query.wait_for_batch()
            service.shards["a"].expire(15)
            if not is_restarted:
                with pytest.raises(DataLossError, match="were lost while they were read"):
                    query.read_all(start, end)
        if is_restarted:
            with SourceQuery(service.source(), end) as resumed, pytest.raises(DataLossError):
                resumed.read_all(start, end)
        tolerant = service.source(failOnDataLoss="false")
        with SourceQuery(tolerant, end) as going_on, caplog.at_level(logging.WARNING):
            rows = [row for task in going_on.tasks(start, end) for row in going_on.read(task)]
    assert numbers_of(rows) == list(range(15, 20))
    assert caplog.text.count("were lost while they were read") == 1


@pytest.mark.parametrize("hours", [23, 24])
def test_first_records_that_are_about_to_expire_are_warned_of(
    hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The shard was empty when the query was stopped. The retention period is 24 hours."""
    service = MemoryService(a=MemoryShard())
    with service.running():
        with SourceQuery(service.source()) as query:
            assert query.run(0) == []
        assert query.offset["splits"]["clicks/a"][0] == TRIM_HORIZON
        service.shards["a"].records += numbered_records(10, now() - hours * 3_600_000 + 600_000)
        with SourceQuery(service.source(), query.offset) as resumed, caplog.at_level(logging.WARNING):
            assert numbers_of(resumed.run(10)) == list(range(10))
    assert caplog.text.count("Shard clicks/a was empty when it was last planned") == (hours == 24)


@pytest.mark.parametrize("was_doubted", [False, True])
def test_first_records_of_a_stream_that_was_made_again_are_read_once(
    was_doubted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard was empty, or the last record that was read had expired: no position tells the two streams apart. The
    identity of the stream is looked at when records come, and not only when it is time for it."""
    monkeypatch.setattr(enumerator, "_IDENTITY_S", float("inf"))
    service = MemoryService(a=MemoryShard(records(0, 10 if was_doubted else 0)))
    with service.running():
        source = service.source(failOnDataLoss="false")
        with SourceQuery(source) as query:
            query.run(len(service.shards["a"].records))
        service.shards["a"].expire(10)
        with SourceQuery(source, query.offset) as resumed:
            assert resumed.run(0) == []
            service.created, service.shards = 2.0, {"a": MemoryShard(records(100, 5))}
            assert numbers_of(resumed.run(5)) == list(range(100, 105))
            assert set(resumed.offset["splits"]) == {"clicks/a#1"}


def test_a_stream_that_is_being_made_is_waited_for() -> None:
    service = MemoryService(a=MemoryShard(records(0, 10)))
    creating = [error("ResourceInUseException")] * 3
    with service.running(), SourceQuery(service.source(failOnDataLoss="false")) as query:
        query.run(10)
        service.created, service.shards = 2.0, {"a": MemoryShard(records(100, 5))}
        service.fault = lambda operation, _: (
            creating.pop() if operation == "ListShards" and creating else None
        )
        assert numbers_of(query.run(5)) == list(range(100, 105))
    assert not creating


def test_an_empty_child_that_expires_during_a_run_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """AvailableNow lists shards once, so the child is assigned though the service lists it no more."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    service.split("a", "c")
    service.shards["c"].is_closed = True
    rows = list[dict[str, Any]]()
    with service.running():
        source = service.source(maxRecordsPerTrigger="4", failOnDataLoss="false")
        with SourceQuery(source, available_now=True) as query, caplog.at_level(logging.WARNING):
            while (batch := query.next_batch()) is not None:
                service.shards.pop("c", None)
                query.planned = batch
                rows += query.step()
    assert numbers_of(rows) == list(range(10))
    assert caplog.text.count("Records of clicks/c are lost") == 1


def test_a_shard_that_expires_before_a_new_query_looks_at_it() -> None:
    service = MemoryService(a=MemoryShard(records(0, 10)), b=MemoryShard())

    def expire(operation: str, _: dict[str, Any]) -> Any:
        if operation == "GetShardIterator":
            service.shards.pop("a", None)

    with service.running():
        service.fault = expire
        source = service.source(initialPosition="latest", failOnDataLoss="false")
        with SourceQuery(source) as query:
            assert query.run(0) == []
            service.shards["b"].records += numbered_records(3, time.time_ns() // 1_000_000 + 60_000)
            assert numbers_of(query.run(3)) == [0, 1, 2]
            assert set(query.offset["splits"]) == {"clicks/b"}


def test_a_waiting_shard_that_expires_has_no_least_time() -> None:
    service = MemoryService(a=MemoryShard(records(0, 10)))
    service.split("a", "c")
    with service.running(), SourceQuery(service.source()) as query, query.enumerator() as (found, splits):
        assert isinstance(found, TimedKinesisSourceEnumerator)
        ranges = found.split_ranges(dict.fromkeys(splits))
        del service.shards["c"]
        assert found.event_time_positions(PositioningRequest(ranges)).least_to_come() is None


def test_a_refusal_in_the_middle_of_a_range_reads_no_record_again(caplog: pytest.LogCaptureFixture) -> None:
    """The service says that a position does not exist, though records before it do."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    pages = 0

    def refuse(operation: str, asked: dict[str, Any]) -> Any:
        nonlocal pages
        pages += operation == "GetRecords"
        if operation == "GetRecords" and pages == 2:
            return error("ExpiredIteratorException")
        is_first = operation == "GetShardIterator" and pages == 2
        pages += is_first
        return error("InvalidArgumentException") if is_first else None

    with service.running():
        source = service.source(failOnDataLoss="false", maxRecordsPerFetch="4")
        with SourceQuery(source) as query, caplog.at_level(logging.WARNING):
            query.run(10)
            service.shards["a"].records += records(10, 10)
            query.planned = query.wait_for_batch()
            service.fault = refuse
            assert numbers_of(query.step()) == list(range(10, 20))
    assert caplog.text.count("were lost while they were read") == 1


@pytest.mark.parametrize("hours", [23, 24])
def test_records_that_expire_between_two_pages_of_a_task_are_data_loss(
    hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The retention period is 24 hours. Nothing more is asked where it leaves more than an hour."""
    first_time = now() - hours * 3_600_000 + 600_000
    service = MemoryService(a=MemoryShard(numbered_records(20, first_time)))
    tolerant = service.source(failOnDataLoss="false", maxRecordsPerFetch="5")
    with service.running(), SourceQuery(tolerant) as query, caplog.at_level(logging.WARNING):
        query.planned = query.wait_for_batch()
        service.asked.clear()
        if hours == 24:
            service.fault = expiring(service, 15)
        rows = numbers_of(query.step())
        calls = Counter(operation for operation, _ in service.asked)
        if hours == 24:
            assert rows == [*range(5), *range(15, 20)]
            assert caplog.text.count("and the last record that was read has expired since") == 1
        else:
            assert rows == list(range(20))
            assert (calls["GetRecords"], calls["GetShardIterator"]) == (4, 1)


def expiring(service: MemoryService, count: int) -> Any:
    """Returns a fault: the first ``count`` records of shard a expire before the second page."""
    pages = 0

    def fault(operation: str, _: dict[str, Any]) -> Any:
        nonlocal pages
        pages += operation == "GetRecords"
        if operation == "GetRecords" and pages == 2:
            service.shards["a"].expire(count)

    return fault
