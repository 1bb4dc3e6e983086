"""Ledgers whose first message comes late, since it is read from a disk or from tiered storage. The client is
pulsar-client's in name only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.options.start import AtTime, Begin, StartKind
from flip27_stream.connectors.pulsar.planning.partition_log import LostLedger, PartitionLog
from flip27_stream.connectors.pulsar.positions import EARLIEST, position_at
from tests.connectors.pulsar.support.memory_partition import MessageAsId

pulsar = pytest.importorskip("pulsar")

SLOW_MS = 20_000
LIMIT_MS = 30_000
END = position_at(10, 1) + 1


@dataclass
class SlowReader:
    """A reader whose first message comes after ``SLOW_MS`` only. The last entry of the partition is hidden."""

    left: list[MessageAsId]
    has_begun: bool = False

    def __post_init__(self) -> None:
        self._reader = self

    def has_message_available_async(self, told: Callable[[Any, bool], None]) -> None:
        told(pulsar.Result.Ok, True)

    def read_next(self, timeout_millis: int) -> MessageAsId:
        if not self.left or (timeout_millis < SLOW_MS and not self.has_begun):
            raise pulsar.Timeout("nothing came")
        self.has_begun = True
        return self.left.pop(0)

    def close(self) -> None:
        """Does nothing."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> PulsarClient:
    client = PulsarClient(PulsarConnectionOptions("pulsar://localhost:1", operation_timeout_ms=LIMIT_MS))
    monkeypatch.setattr(client, "last_entry", lambda _: position_at(20, 0))
    return client


def hold(client: PulsarClient, monkeypatch: pytest.MonkeyPatch, *messages: MessageAsId) -> None:
    def create(topic: str, start: Any, queue: int) -> SlowReader:
        return SlowReader(
            [m for m in messages if (m.ledger, m.entry) >= (start.ledger_id(), start.entry_id())]
        )

    monkeypatch.setattr(client, "_create", create)


def test_a_slow_ledger_is_there(client: PulsarClient, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(client, monkeypatch, MessageAsId(10, 0), MessageAsId(10, 1))
    assert client.has_ledger("t", 10, is_hidden=True)
    lost: list[LostLedger] = []
    assert PartitionLog(client, "t", lost.append).look(END, None).end == END
    assert not lost


def test_a_slow_partition_is_no_end_to_a_query_that_begins(
    client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last message, the first one and the first one of a time all come late."""
    messages = [MessageAsId(10, 0), MessageAsId(10, 1)]
    hold(client, monkeypatch, *messages)
    monkeypatch.setattr(SlowReader, "seek", lambda reader, _: reader.left.extend(messages), raising=False)
    begins: list[tuple[Begin, int]] = [(StartKind.EARLIEST, EARLIEST), (AtTime(0), position_at(10, 0))]
    for begin, position in begins:
        log = PartitionLog(client, "t", lambda lost: pytest.fail(str(lost)))
        assert log.begin(begin) == position
        assert log.look(position, None).end == END


def test_reading_ends_at_a_known_message(client: PulsarClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind it the broker may count an entry that it does not send."""
    messages = [MessageAsId(10, 0), MessageAsId(10, 1)]
    monkeypatch.setattr(SlowReader, "read_next", lambda reader, _: reader.left.pop(0))
    hold(client, monkeypatch, *messages)
    assert client.read("t", EARLIEST, 100, END) == messages
