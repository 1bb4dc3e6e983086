"""A partition to which producers write faster than the source reads. The client is pulsar-client's in name only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions

pulsar = pytest.importorskip("pulsar")

BATCH = 3
MOST = 50


@dataclass
class NumberedMessage:
    number: int

    def message_id(self) -> Any:
        return pulsar.MessageId(-1, 7, self.number // BATCH, self.number % BATCH)


class GrowingReader:
    """A reader to which there is always a message to come, up to a number of them."""

    def __init__(self, count: int) -> None:
        self._reader = self
        self._left = count
        self.read = 0

    def has_message_available_async(self, told: Callable[[Any, bool], None]) -> None:
        told(pulsar.Result.Ok, self.read < self._left)

    def read_next(self, timeout_millis: int) -> NumberedMessage:
        assert self.read < MOST, "the end is never reached"
        self.read += 1
        return NumberedMessage(self.read - 1)

    def close(self) -> None:
        """Does nothing."""


@pytest.mark.parametrize(
    ("count", "found", "goes_on"),
    [(1, 0, False), (3, 2, False), (4, 3, False), (5, 3, True), (10 * MOST, 3, True)],
)
def test_the_end_of_a_busy_partition_is_found(
    monkeypatch: pytest.MonkeyPatch, count: int, found: int, goes_on: bool
) -> None:
    """The whole entry that was the last one is read, and at most one message of the next entry."""
    client = PulsarClient(PulsarConnectionOptions(service_url="pulsar://localhost:1"))
    monkeypatch.setattr(client, "_create", lambda *_: GrowingReader(count))
    tip = client.tip("busy")
    assert tip.message == NumberedMessage(found)
    assert tip.goes_on is goes_on
