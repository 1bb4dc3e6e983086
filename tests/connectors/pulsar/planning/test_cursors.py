"""The cursor of ``predefinedSubscription`` that cannot be moved. No test here needs a server."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flip27_stream.connectors.pulsar.planning.cursors import Cursors
from flip27_stream.connectors.pulsar.planning.partition_log import PartitionLog
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.errors import ConnectorError
from tests.connectors.pulsar.support.memory_partition import MemoryPartition


class Refusing(MemoryPartition):
    """A partition whose subscription is busy, until it is free."""

    is_free = False

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: list[int] = []

    def consumer(self, topic: str, subscription: str) -> Any:
        if not self.is_free:
            raise ConnectorError("ConsumerBusy")
        return topic

    def acknowledge(self, consumer: Any, entry: int) -> None:
        self.acknowledged.append(entry)


def test_a_subscription_that_stays_busy_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The warning does not come at each plan, and there is one a second. Later plans move the cursor once they can."""
    partition = Refusing()
    logs = {"t": PartitionLog(partition, "t", print)}  # type: ignore[arg-type]
    cursors = Cursors(partition, "ours")  # type: ignore[arg-type]
    cursors.processed({"t": position_at(10, 4) + 1})
    with caplog.at_level(logging.WARNING):
        for partition.is_free in (False, False, False, True, True):
            cursors.follow(logs)
    assert caplog.text.count("was not moved") == 1
    assert partition.acknowledged == [position_at(10, 4)]
