"""Partitions whose messages have no event time, or only late ones. No test here needs a server."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.pulsar.planning.event_times import SplitEventTimes
from flip27_stream.connectors.pulsar.planning.partition_log import PartitionLog
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.connectors.pulsar.records.columns import PUBLISH_TIME, SCHEMA
from flip27_stream.event_time.assigners import timestamp_assigner
from tests.connectors.pulsar.support.memory_partition import SPLIT, MemoryPartition, MessageAsId

BY_PRODUCER = timestamp_assigner("__eventTime", SCHEMA, record_timestamp_column=PUBLISH_TIME)
COUNT, NOON = 30_000, 1_700_000_000_000


@dataclass(frozen=True)
class TimedMessage(MessageAsId):
    """A message with an event time (ms)."""

    time: int = 0

    def event_timestamp(self) -> int:
        return self.time


def found_in(messages: list[MessageAsId], budget: int | None) -> tuple[SplitEventTimes, PartitionLog]:
    log = PartitionLog(MemoryPartition(messages), SPLIT.topic, pytest.fail)  # type: ignore[arg-type]
    r = log.look(position_at(10, 0), None)
    request = PositioningRequest({SPLIT.split_id: r}, timestamp_assigner=BY_PRODUCER, budget=budget)
    return SplitEventTimes(log, r, request), log


@pytest.mark.parametrize("budget", [None, 25_000])
def test_planning_does_not_keep_messages_without_an_event_time(budget: int | None) -> None:
    times, log = found_in([MessageAsId(10, entry) for entry in range(COUNT)], budget)
    assert (times.times.next, times.times.reach) == (None, None)
    assert len(log.scan) < 3000
    end = position_at(10, COUNT - 1) + 1
    assert times.first_at_or_after(NOON)[0] <= end


def test_the_first_event_time_is_found_behind_many_messages_without_one() -> None:
    messages = [MessageAsId(10, entry) for entry in range(COUNT - 2)]
    timed = [TimedMessage(10, COUNT - 2 + n, NOON + n) for n in range(2)]
    times, log = found_in([*messages, *timed], None)
    assert (times.times.next, times.times.reach) == (NOON, NOON + 1)
    assert len(log.scan) < 3000


def test_a_budget_limits_the_search_for_an_event_time() -> None:
    messages = [MessageAsId(10, entry) for entry in range(COUNT - 1)]
    times, _ = found_in([*messages, TimedMessage(10, COUNT - 1, NOON)], 5000)
    assert (times.times.next, times.times.reach) == (None, NOON)
