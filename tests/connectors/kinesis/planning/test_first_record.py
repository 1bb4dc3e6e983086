"""The first record at or after a time: what planning does if the service refuses the request for it, or is silent."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from flip27_stream.connectors.kinesis.client import shard_pages
from flip27_stream.connectors.kinesis.positions import before, behind
from flip27_stream.errors import OptionError, UnreachableError
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.answers import error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records

BEGAN = time.time_ns() // 1_000_000 - 3_600_000


def test_a_new_query_cannot_begin_in_the_future() -> None:
    """A query that was started before goes on at its offset, whatever the option says."""
    with MemoryService(a=MemoryShard(numbered_records(5, BEGAN))).running() as service:
        later = {"initialPosition": f'{{"at_timestamp": {time.time_ns() // 1_000_000 + 3_600_000}}}'}
        is_refused = pytest.raises(OptionError, match=r"'initialPosition' begins at .* in the future")
        with SourceQuery(service.source(**later)) as query, is_refused:
            query.run(0)
        with SourceQuery(service.source()) as started:
            started.run(5)
        service.shards["a"].records += numbered_records(5, BEGAN, first=5)
        with SourceQuery(service.source(**later), started.offset) as resumed:
            assert numbers_of(resumed.run(5)) == list(range(5, 10))


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_start_that_only_differing_clocks_put_in_the_future_is_the_end_of_the_shard(
    is_refused: bool,
) -> None:
    """The newest record of a history has a time of the service, whose clock may be ahead. The service itself refuses a
    time that is in the future by its own clock.
    """
    now = now_ms()
    service = MemoryService(a=MemoryShard(numbered_records(200, now - 60_000)), b=MemoryShard())

    def refuse(_: str, asked: dict[str, Any]) -> Any:
        return error("InvalidArgumentException") if asked.get("Timestamp") and is_refused else None

    with service.running():
        service.fault = refuse
        with SourceQuery(service.source(initialPosition=f'{{"at_timestamp": {now + 30_000}}}')) as query:
            assert query.run(0) == []
            service.shards["a"].records += numbered_records(5, now + 30_000, first=200)
            service.shards["b"].records += numbered_records(5, now + 30_000, first=300)
            assert sorted(numbers_of(query.run(10))) == [*range(200, 205), *range(300, 305)]


def busy_records() -> list[tuple[int, int]]:
    """Returns records of the last minutes and of the next one, so that the shard stays busy while a test runs."""
    return numbered_records(64_000, time.time_ns() // 1_000_000 - 580_000, 10)


def silent(operation: str, asked: dict[str, Any]) -> Any:
    """Answers as kinesalite does if there is no such record, and as a service does whose answer comes too late."""
    if asked.get("ShardIteratorType") == "AT_TIMESTAMP":
        raise ReadTimeoutError(endpoint_url="the service")


def refusing(count: int, code: str, status: int, shard_id: str = "a") -> Any:
    """Returns a fault: the service refuses the first ``count`` requests for an iterator at a time."""
    left = [None] * count

    def fault(operation: str, asked: dict[str, Any]) -> Any:
        if asked.get("ShardIteratorType") == "AT_TIMESTAMP" and asked["ShardId"] == shard_id and left:
            left.pop()
            return error(code, status)
        return None

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        refusing(1, "ProvisionedThroughputExceededException", 400),
        refusing(2, "InternalFailure", 500),
        silent,
    ],
)
def test_a_time_that_is_refused_or_not_answered_skips_no_record(fault: Any) -> None:
    """A new query begins at the first record at or after the time, never behind the records that it wants."""
    records = numbered_records(3000, BEGAN, 1000)
    with MemoryService(a=MemoryShard(records)).running() as service:
        service.fault = fault
        for wanted in (0, 50, 1000, 2999):
            assert service.log_of("a").begin_at(records[wanted][1]) == before(records[wanted][0])
        assert service.log_of("a").begin_at(records[-1][1] + 1) == behind(records[-1][0])


def test_a_time_that_is_always_refused_fails_the_look() -> None:
    with MemoryService(a=MemoryShard(numbered_records(500, BEGAN))).running(
        requestTimeout="300 ms"
    ) as service:
        service.fault = refusing(1000, "ProvisionedThroughputExceededException", 400)
        with pytest.raises(UnreachableError, match=r"AT_TIMESTAMP.*requestTimeout"):
            service.log_of("a", requestTimeout="300 ms").begin_at(BEGAN + 300)


def read_before(failure: pytest.ExceptionInfo[UnreachableError]) -> str:
    return str(failure.value).partition("planning read ")[2].partition(" ")[0]


def only_empty_pages(operation: str, asked: dict[str, Any]) -> Any:
    """Answers each request for records without records, and says that more follow."""
    if operation == "GetRecords":
        return 200, {"Records": [], "NextShardIterator": asked["ShardIterator"], "MillisBehindLatest": 5000}
    return None


def test_a_first_record_behind_empty_pages_only_fails_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_pages, "_EMPTY_PAGES", 3)
    with MemoryService(a=MemoryShard()).running(requestTimeout="100 ms") as service:
        service.fault = only_empty_pages
        told = r"in 0\.1 s: .* planning read 0 records before it, and then \d\d+ pages without records"
        with pytest.raises(UnreachableError, match=told):
            service.log_of("a", requestTimeout="100 ms").begin_at(BEGAN)


def test_an_end_behind_empty_pages_only_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an end, an AvailableNow run cannot begin; pages without records are not asked for without a pause."""
    monkeypatch.setattr(shard_pages, "_EMPTY_PAGES", 10)
    monkeypatch.setattr(shard_pages, "_LONGEST_EMPTY_S", 0.5)
    with MemoryService(a=MemoryShard()).running(requestTimeout="100 ms") as service:
        service.fault = only_empty_pages
        with pytest.raises(
            UnreachableError, match=r"The end of clicks/a was not found in 0\.5 s: .* \d+ pages"
        ):
            service.log_of("a", requestTimeout="100 ms").look(0, frozen=True)
        assert len(service.asked) < 200


def test_a_first_record_behind_too_many_others_fails_with_a_remedy() -> None:
    """The service does not answer for a time, and gives no end of records that arrived before it."""
    shard = MemoryShard(numbered_records(20_000, BEGAN, 0))

    def silent_and_endless(operation: str, asked: dict[str, Any]) -> Any:
        if operation == "GetRecords":
            shard.records += numbered_records(10_001, BEGAN, 0, first=len(shard.records))
        return silent(operation, asked)

    with MemoryService(a=shard).running(requestTimeout="300 ms") as service:
        service.fault = silent_and_endless
        with pytest.raises(UnreachableError) as failure:
            service.log_of("a", requestTimeout="300 ms").begin_at(BEGAN + 1)
    assert str(failure.value) == (
        f"The first record of clicks/a that arrived at {BEGAN + 1} ms or later was not found in 0.3 s: the service did "
        f"not name it, and planning read {read_before(failure)} records before it, and then 0 pages without records. "
        "Raise option 'requestTimeout', or begin a new query at another 'initialPosition'."
    )
    assert int(read_before(failure)) >= 10_000


@pytest.mark.parametrize("fault", [refusing(5, "ProvisionedThroughputExceededException", 400), silent])
def test_a_cut_is_at_the_horizon_also_where_times_are_refused_or_not_answered(fault: Any) -> None:
    """An earlier cut would let the other shards, which are read up to the horizon, get too far ahead."""
    records = busy_records()
    with MemoryService(a=MemoryShard(records)).running() as service:
        log = service.log_of("a")
        busy = log.look(0, frozen=False)
        service.fault = fault
        middle, moment = records[len(records) // 2]
        assert log.cut_at(moment, busy.end) == before(middle)


def test_the_end_is_looked_for_by_pages_where_times_are_always_refused() -> None:
    """Other readers use up the calls for iterators of a shard. Planning asks twice for the end, then reads a page."""
    records = busy_records()
    with MemoryService(a=MemoryShard(records)).running(requestTimeout="300 ms") as service:
        log = service.log_of("a", requestTimeout="300 ms")
        busy = log.look(0, frozen=False)
        service.fault = refusing(1000, "ProvisionedThroughputExceededException", 400)
        service.asked.clear()
        refused = log.look(busy.position, frozen=False)
        assert refused.end > busy.end
        assert len(service.times_asked()) == 2
        middle, moment = records[len(records) // 2]
        with pytest.raises(UnreachableError, match=r"AT_TIMESTAMP.*requestTimeout"):
            log.cut_at(moment, refused.end)
        service.fault = lambda operation, asked: None
        assert log.cut_at(moment, refused.end) == before(middle)


def test_records_that_arrive_while_the_first_is_looked_for_are_read() -> None:
    """Nothing had arrived at the start time when the service was asked, and something before the tip was found."""
    shard = MemoryShard(numbered_records(1500, BEGAN, 1000))
    start_time = shard.records[-1][1] + 1
    with MemoryService(a=shard).running() as service:

        def write_behind_the_answer(operation: str, asked: dict[str, Any]) -> Any:
            if operation == "GetRecords" and service.times_asked() and len(shard.records) == 1500:
                service.fault = lambda operation, asked: None
                _, answer = 200, service._records(asked)
                shard.records += numbered_records(20, start_time + 10, first=1500)
                return 200, answer
            return None

        service.fault = write_behind_the_answer
        assert service.log_of("a").begin_at(start_time) == before(shard.records[1500][0])
    assert len(shard.records) == 1520


def test_a_refused_or_silent_request_changes_no_other_plan() -> None:
    """A request that is refused is repeated. If requests of one shard get no answer, only the end of this shard is
    looked for by pages, and these have at most 1 MB.
    """
    records = busy_records()
    shards = {name: MemoryShard(records, size=2000) for name in ("a", "b")}
    with MemoryService(**shards).running() as service:
        client = service.client()
        logs = {name: service.log_of(name, client) for name in shards}
        positions = {name: log.look(0, frozen=False).position for name, log in logs.items()}

        def sizes_of_pages() -> set[int]:
            service.asked.clear()
            for name, log in logs.items():
                log.look(positions[name], frozen=False)
            return {asked["Limit"] for operation, asked in service.asked if operation == "GetRecords"}

        usual = sizes_of_pages()
        service.fault = refusing(1, "ProvisionedThroughputExceededException", 400)
        assert sizes_of_pages() == usual
        service.fault = lambda operation, asked: (
            silent(operation, asked) if asked.get("ShardId") == "a" else None
        )
        assert max(sizes_of_pages()) <= (1 << 20) / 2000
        assert max(sizes_of_pages()) <= (1 << 20) / 2000
        assert set(service.times_asked()) == {"b"}


@pytest.mark.parametrize("hours", [0, 22, 30])
@pytest.mark.parametrize("age_hours", [10, 100])
def test_a_start_before_the_retention_period_is_warned_of(
    hours: int, age_hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A history may end longer ago than the stream keeps records: those in between are in neither. A stream that was
    created later had none.
    """
    now = now_ms()
    service = MemoryService(a=MemoryShard(numbered_records(5, now - 60_000)))
    service.created = (now - age_hours * 3_600_000) / 1000
    position = f'{{"at_timestamp": {now - hours * 3_600_000 - 61_000}}}'
    with service.running(), caplog.at_level(logging.WARNING):
        with SourceQuery(service.source(initialPosition=position)) as query:
            assert numbers_of(query.run(5)) == list(range(5))
        with SourceQuery(service.source(initialPosition=position), query.offset) as resumed:
            assert resumed.run(0) == []
    is_told = hours == 30 and age_hours == 100
    assert caplog.text.count("Stream 'clicks' is to be read from") == is_told
