"""What planning asks of a busy shard whose records alignment holds back."""

from __future__ import annotations

import time

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kinesis.planning import shard_log
from flip27_stream.connectors.kinesis.planning.shard_log import ShardLog
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON, before, behind
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records

RECORDS, STEP_MS = 64_000, 10


def busy_shard(service: MemoryService) -> tuple[ShardLog, list[tuple[int, int]], SplitRange]:
    """Returns the log of shard ``a``, after two looks have found that it is busy, its records, and its range."""
    log, records = service.log_of("a"), service.shards["a"].records
    log.look(TRIM_HORIZON, frozen=False)
    return log, records, log.look(TRIM_HORIZON, frozen=False)


def a_busy_shard() -> MemoryShard:
    """Returns a shard with records of the last minutes and of the next one, so that it stays busy in a test."""
    return MemoryShard(numbered_records(RECORDS, time.time_ns() // 1_000_000 - 580_000, STEP_MS))


def test_a_shard_that_is_held_back_costs_two_calls() -> None:
    """Each plan asks for the first record at the horizon, and not for the end, which lies behind it."""
    with MemoryService(a=a_busy_shard()).running() as service:
        log, records, known = busy_shard(service)
        position = known.position
        for plan in range(1, 21):
            asked = len(service.asked)
            found = log.look(position, frozen=False)
            horizon = records[plan * 1000][1]
            position = log.cut_at(horizon, found.end)
            assert position == before(records[plan * 1000][0])
            assert plan == 1 or len(service.asked) - asked == 2


def test_the_end_is_looked_for_again_when_the_horizon_has_reached_it() -> None:
    with MemoryService(a=a_busy_shard()).running() as service:
        log, records, known = busy_shard(service)
        log.cut_at(records[1000][1], known.end)
        assert log.look(known.position, frozen=False).end == known.end
        assert log.cut_at(records[-1][1], known.end) == known.end
        asked = len(service.times_asked())
        log.look(known.position, frozen=False)
        assert len(service.times_asked()) == asked + 1


def test_the_end_is_looked_for_again_in_a_plan_after_one_without_a_horizon() -> None:
    with MemoryService(a=a_busy_shard()).running() as service:
        log, records, known = busy_shard(service)
        log.cut_at(records[1000][1], known.end)
        log.look(known.position, frozen=False)
        asked = len(service.times_asked())
        log.look(known.position, frozen=False)
        assert len(service.times_asked()) == asked + 1


def test_a_run_that_ends_is_read_up_to_the_last_record_also_if_it_was_held_back() -> None:
    with MemoryService(a=a_busy_shard()).running() as service:
        log, records, known = busy_shard(service)
        log.cut_at(records[1000][1], known.end)
        assert log.look(known.position, frozen=True).end == behind(records[-1][0])


def test_the_end_of_a_shard_that_is_held_back_is_looked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of records to come stays known, however long the shard is held back."""
    monkeypatch.setattr(shard_log, "_HELD_S", 0)
    with MemoryService(a=a_busy_shard()).running() as service:
        log, records, known = busy_shard(service)
        log.cut_at(records[1000][1], known.end)
        asked = len(service.times_asked())
        log.look(known.position, frozen=False)
        assert len(service.times_asked()) == asked + 1
