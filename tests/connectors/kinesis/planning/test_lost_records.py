"""What is reported of records that expired before they were read, and of shards and streams that are gone."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.kinesis.planning import enumerator, shard_log
from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator
from flip27_stream.errors import DataLossError
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.answers import error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records


def records(first: int, count: int) -> list[tuple[int, int]]:
    return numbered_records(count, now_ms() - 60_000, first=first)


def first_page_empty() -> Any:
    """Returns a fault: the first page of each iterator is empty, and says that more records follow."""
    seen = set[str]()

    def fault(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "GetRecords" or asked["ShardIterator"] in seen:
            return None
        seen.add(asked["ShardIterator"])
        return 200, {"Records": [], "NextShardIterator": asked["ShardIterator"], "MillisBehindLatest": 5000}

    return fault


def looked_at(offset: dict[str, Any], hours: int) -> dict[str, Any]:
    """Returns an offset as if planning had last looked at the shards ``hours`` ago; the retention period is 24."""
    version, state = offset["enumerator"]
    assert abs(state["seen"] - now_ms()) < 60_000
    return {**offset, "enumerator": [version, {**state, "seen": now_ms() - hours * 3_600_000}]}


@pytest.mark.parametrize("begins_empty", [False, True])
@pytest.mark.parametrize(("read", "expired"), [(10, 9), (10, 10), (10, 15), (0, 5), (0, 0)])
@pytest.mark.parametrize("hours", [22, 24])
def test_records_that_may_have_expired_since_the_last_look_are_data_loss(
    hours: int, read: int, expired: int, begins_empty: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that followed the last one which was read may have expired with it, or the shard was empty, and nobody
    can see them. The time since the last look tells: records that came after it are younger. The first page of an
    iterator may be empty though records follow.
    """
    service = MemoryService(a=MemoryShard(records(0, read)))
    if begins_empty:
        service.fault = first_page_empty()
    left = list(range(max(read, expired), read + 10))
    may_be_lost = hours == 24 and expired >= read
    with service.running(), caplog.at_level(logging.WARNING):
        with SourceQuery(service.source()) as query:
            query.run(read)
        service.shards["a"].records += records(read, 10)
        service.shards["a"].expire(expired)
        offset = looked_at(query.offset, hours)
        if may_be_lost:
            is_told = pytest.raises(DataLossError, match=r"Records of clicks/a from .* on may be lost")
            with SourceQuery(service.source(), offset) as failing, is_told:
                failing.run(1)
        with SourceQuery(service.source(failOnDataLoss="false"), offset) as resumed:
            assert numbers_of(resumed.run(len(left))) == left
            assert resumed.run(0) == []
        with SourceQuery(service.source(), resumed.offset) as again:
            assert again.run(0) == []
    assert caplog.text.count("may be lost") == may_be_lost


def test_the_time_of_the_last_look_is_renewed_once_an_hour() -> None:
    """The renewal makes an empty micro-batch, also where no record came."""
    service = MemoryService(a=MemoryShard(records(0, 10)), b=MemoryShard())
    with service.running():
        with SourceQuery(service.source()) as query:
            query.run(10)
            (_, state), began = query.offset["enumerator"], now_ms()
            assert query.next_batch() is None
        with SourceQuery(service.source(), looked_at(query.offset, 2), available_now=True) as resumed:
            planned = resumed.next_batch()
            assert planned is not None
            assert resumed.tasks(*planned) == []
            resumed.offset = planned[1]
            assert resumed.next_batch() is None
        assert resumed.offset["enumerator"][1]["seen"] >= began
        positions = [{name: s[0] for name, s in q.offset["splits"].items()} for q in (query, resumed)]
        assert positions[0] == positions[1]
        assert state["cut"] == []


def test_a_cut_whose_next_record_is_not_known_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have one record, and planning has no time to count up to the limit. Then the record before the cut expires,
    and nobody can say whether the one behind it has expired, too.
    """
    monkeypatch.setattr(shard_log, "_COUNTING_S", -1)
    service = MemoryService(a=MemoryShard(numbered_records(100, now_ms() - 60_000, 1000)))

    def short_pages(operation: str, asked: dict[str, Any]) -> Any:
        asked |= {"Limit": 1} if operation == "GetRecords" else {}

    with service.running():
        service.fault = short_pages
        source = service.source(maxRecordsPerTrigger="10", settlingTime="20 s")
        with SourceQuery(source) as query:
            query.planned = query.wait_for_batch()
            assert numbers_of(query.step()) == [0]
        assert query.offset["enumerator"][1]["cut"] == ["clicks/a"]
        service.shards["a"].expire(2)
        is_told = pytest.raises(DataLossError, match=r"Records of clicks/a from .* on may be lost")
        with SourceQuery(service.source(), query.offset) as failing, is_told:
            failing.run(1)
        service.fault = lambda operation, asked: None
        with SourceQuery(service.source(failOnDataLoss="false"), query.offset) as going_on:
            assert numbers_of(going_on.run(98)) == list(range(2, 100))
        assert going_on.offset["enumerator"][1]["cut"] == []


@pytest.mark.parametrize("read", [0, 10])
def test_a_checkpoint_of_version_2_does_not_say_when_the_shards_were_looked_at(
    read: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = MemoryService(a=MemoryShard(records(0, read)))
    with service.running(), caplog.at_level(logging.WARNING):
        with SourceQuery(service.source()) as query:
            query.run(read)
        _, state = query.offset["enumerator"]
        older = {name: value for name, value in state.items() if name not in ("seen", "cut")}
        service.shards["a"].records += records(read, 10)
        service.shards["a"].expire(read)
        with SourceQuery(service.source(), {**query.offset, "enumerator": [2, older]}) as resumed:
            assert numbers_of(resumed.run(10)) == list(range(read, read + 10))
            assert resumed.run(0) == []
    assert caplog.text.count("the checkpoint is of an older release") == 1


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_cut_behind_which_no_record_is_left_is_data_loss(
    is_closed: bool, is_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A row limit cut the shard before record 5, which planning saw. Then record 5 and all later records expired. The
    service refuses the position, or goes on silently.
    """
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
        why = "InvalidArgumentException" if is_refused else "no record exists any more"
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


@pytest.mark.parametrize("was_doubted", [False, True])
def test_first_records_of_a_stream_that_was_made_again_are_read_once(
    was_doubted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard was empty, or the last record that was read had expired: no position tells the two streams apart. The
    identity of the stream is looked at when records come, and not only when it is time for it.
    """
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


@pytest.mark.parametrize("refused", ["ListShards", "GetShardIterator", "GetRecords"])
def test_a_stream_that_is_being_created_is_waited_for(refused: str) -> None:
    service = MemoryService(a=MemoryShard(records(0, 10)))
    creating = [error("ResourceInUseException")] * 3
    with service.running(), SourceQuery(service.source(failOnDataLoss="false")) as query:
        query.run(10)
        service.created, service.shards = 2.0, {"a": MemoryShard(records(100, 5))}
        service.fault = lambda operation, _: creating.pop() if operation == refused and creating else None
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
            service.shards["b"].records += numbered_records(3, now_ms() + 60_000)
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


def test_any_number_of_empty_pages_within_a_range_is_passed_over() -> None:
    """A shard had no records for hours. The service searches these hours in many steps, and answers without records."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    empty = iter(range(250))

    def gap(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "GetRecords" or next(empty, None) is None:
            return None
        return 200, {"Records": [], "NextShardIterator": asked["ShardIterator"], "MillisBehindLatest": 5000}

    with service.running(), SourceQuery(service.source()) as query:
        query.planned = query.wait_for_batch()
        service.fault = gap
        assert numbers_of(query.step()) == list(range(10))
    assert next(empty, None) is None


def test_a_tip_before_the_planned_end_is_data_loss_only_if_the_last_record_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The service says once that nothing follows, but has the record. Then the records have really expired."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
    told = [None]

    def tip(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "GetRecords" or not told:
            return None
        told.pop()
        return 200, {"Records": [], "NextShardIterator": asked["ShardIterator"], "MillisBehindLatest": 0}

    tolerant = service.source(failOnDataLoss="false")
    with service.running(), SourceQuery(tolerant) as query, caplog.at_level(logging.WARNING):
        query.planned = query.wait_for_batch()
        service.fault = tip
        assert numbers_of(query.step()) == list(range(10))
        assert "were lost" not in caplog.text
        service.shards["a"].records += records(10, 5)
        query.planned = query.wait_for_batch()
        service.shards["a"].expire(15)
        assert query.step() == []
    number = records(14, 1)[0][0]
    assert caplog.text.count(f"and sequence number {number} does not exist") == 1


@pytest.mark.parametrize("hours", [23, 24])
def test_records_that_expire_between_two_pages_of_a_task_are_data_loss(
    hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The retention period is 24 hours. Nothing more is asked where it leaves more than an hour."""
    first_time = now_ms() - hours * 3_600_000 + 600_000
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
            assert caplog.text.count("and the last record that was read has expired") == 1
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
