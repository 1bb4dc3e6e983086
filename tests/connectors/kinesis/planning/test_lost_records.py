"""What is reported of records that expired before they were read, and of shards and streams that are gone."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from flip27_stream.errors import DataLossError
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records

NOW = time.time_ns() // 1_000_000


def records(first: int, count: int) -> list[tuple[int, int]]:
    return numbered_records(count, NOW - 60_000, first=first)


@pytest.mark.parametrize("expired", [9, 10, 15])
def test_a_last_record_that_has_expired_is_warned_of(expired: int, caplog: pytest.LogCaptureFixture) -> None:
    """Records that followed the last one which was read may have expired with it, and nobody can see them."""
    service = MemoryService(a=MemoryShard(records(0, 10)))
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
    """A row limit cut the shard before record 5, which planning saw. It expired with all that followed it. The service
    refuses the position, or goes on silently."""
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
