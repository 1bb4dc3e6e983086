"""Records of a shard that expire while the shard waits for its parents to be read are reported as data loss."""

from __future__ import annotations

import logging
import re
import time

import pytest

from flip27_stream.errors import DataLossError
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records
from tests.support.module_time import replace_time

HOUR_NS = 3_600_000_000_000
IS_TOLD = r"Records of clicks/{} from .* on may be lost: planning has not read the shard since"


class Clock:
    """The clock of the query and of the service, which :meth:`advance` moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._hours = 0
        replace_time(
            monkeypatch, "flip27_stream.wall_clock", time_ns=lambda: time.time_ns() + self._hours * HOUR_NS
        )

    def advance(self, hours: int) -> None:
        self._hours += hours


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def service() -> MemoryService:
    """Shard a with records 0 to 9 was split into c with records 10 to 14, and d. The retention period is 24 hours."""
    service = MemoryService(a=MemoryShard(numbered_records(10, now_ms() - 60_000)))
    service.split("a", "c", "d")
    service.shards["c"].records += numbered_records(5, now_ms() - 30_000, first=10)
    return service


def read_the_parent(query: SourceQuery) -> None:
    query.planned = query.wait_for_batch()
    assert numbers_of(query.step()) == list(range(10))


def test_the_time_of_the_last_look_does_not_pass_a_shard_that_waits(
    service: MemoryService, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The second run ends before the parent is read to its end, so before it begins the children."""
    source = service.source(maxRecordsPerTrigger="4", failOnDataLoss="false")
    offset = None
    with service.running():
        for first in (0, 4):
            with SourceQuery(source, offset) as stopped:
                stopped.planned = stopped.wait_for_batch()
                assert numbers_of(stopped.step()) == list(range(first, first + 4))
                offset = stopped.offset
            clock.advance(20)
        service.shards["a"].expire(10)
        service.shards["c"].expire(5)
        with caplog.at_level(logging.WARNING), SourceQuery(source, offset) as resumed:
            assert resumed.run(0) == []
    assert "Records of clicks/a are lost" in caplog.text
    assert re.search(IS_TOLD.format("c"), caplog.text)


@pytest.mark.parametrize("age", [0, 20])
def test_a_parent_that_was_read_late_does_not_vouch_for_its_children(
    service: MemoryService, clock: Clock, age: int
) -> None:
    """The first run finds records that are 20 hours old, and looks at an open shard, too."""
    service.shards["b"] = MemoryShard()
    with service.running():
        clock.advance(age)
        with SourceQuery(service.source()) as query:
            read_the_parent(query)
        clock.advance(25 - age)
        service.shards["a"].expire(10)
        service.shards["c"].expire(5)
        is_told = pytest.raises(DataLossError, match=IS_TOLD.format("a"))
        with SourceQuery(service.source(), query.offset) as failing, is_told:
            failing.run(1)


def test_children_that_expire_between_two_plans_are_data_loss(
    service: MemoryService, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        service.running(),
        caplog.at_level(logging.WARNING),
        SourceQuery(service.source()) as query,
        SourceQuery(service.source(failOnDataLoss="false")) as on,
    ):
        for each in (query, on):
            read_the_parent(each)
        clock.advance(25)
        del service.shards["a"]
        service.shards["c"].records = numbered_records(5, now_ms(), first=20)
        with pytest.raises(DataLossError, match=IS_TOLD.format("c")):
            query.run(1)
        assert numbers_of(on.run(5)) == list(range(20, 25))
        assert on.offset["enumerator"][1]["seen"] > now_ms() - HOUR_NS // 1_000_000
    assert "Records of clicks/d from TRIM_HORIZON on may be lost" in caplog.text


def test_no_record_of_a_child_has_expired_while_the_last_one_of_its_parent_exists(
    service: MemoryService, clock: Clock
) -> None:
    with service.running(), SourceQuery(service.source()) as query:
        read_the_parent(query)
        clock.advance(25)
        service.shards["a"].expire(9)
        assert numbers_of(query.run(5)) == list(range(10, 15))
