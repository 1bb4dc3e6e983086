"""What planning says of ledgers that were trimmed: an error if messages are lost, or may be, and a warning if this
process saw that nothing followed. No test here needs a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.client.client import Tip
from flip27_stream.connectors.pulsar.planning import scan
from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator
from flip27_stream.connectors.pulsar.positions import ledger_of, position_at, position_of
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.errors import DataLossError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext

SPLIT = PulsarPartitionSplit("persistent://public/default/clicks", initial=False)
DRAINED = "Nothing of persistent://public/default/clicks followed 10:4:1 at the last look"
END = position_at(10, 4) + 1


@dataclass(frozen=True)
class Message:
    """A message that is its own id."""

    ledger: int
    entry: int

    def message_id(self) -> Message:
        return self

    def ledger_id(self) -> int:
        return self.ledger

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return -1

    def data(self) -> bytes:
        return b""


@dataclass
class Partition:
    """A partition in memory, with the calls that planning makes to it.

    Attributes:
        messages: The messages that are there.
        hidden: The last entry, if it is of a transaction.
        trims: Whether all messages are trimmed behind the next call that finds the last message.
    """

    messages: list[Message] = field(default_factory=list)
    hidden: Message | None = None
    trims: bool = False

    def tip(self, topic: str, *, was_hidden: bool = False) -> Tip:
        found = (
            Tip(None, is_hidden=True) if self.hidden else Tip(self.messages[-1] if self.messages else None)
        )
        if self.trims:
            self.messages.clear()
        return found

    def read(self, topic: str, position: int, most: int, *, is_hidden: bool = False) -> Sequence[Message]:
        return [m for m in self.messages if position_of(m) >= position][:most]

    def has_ledger(self, topic: str, ledger: int, *, is_hidden: bool = False) -> bool:
        return any(m.ledger == ledger for m in self.messages)

    def last_entry(self, topic: str) -> int:
        return position_of(self.hidden or self.messages[-1])

    def consumer(self, topic: str, subscription: str) -> Any:
        return None

    def close(self, consumer: Any) -> None:
        """Does nothing."""


@pytest.fixture(autouse=True)
def _without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        scan.Scan, "add", lambda self, messages: self.positions.extend(map(position_of, messages))
    )


@pytest.fixture
def partition() -> Partition:
    return Partition([Message(10, 3), Message(10, 4)])


@pytest.fixture
def enumerator(partition: Partition) -> Iterator[PulsarSourceEnumerator]:
    yield from enumerators(partition)


def enumerators(partition: Partition, **more: str) -> Iterator[PulsarSourceEnumerator]:
    options = {"service.url": "pulsar://localhost:1", "topic": "clicks", **more}
    enumerator = PulsarSource(options).create_enumerator(CoordinatorContext(1, "localhost"))
    assert isinstance(enumerator, PulsarSourceEnumerator)
    enumerator._client = enumerator._cursors._client = partition  # type: ignore[assignment]
    yield enumerator
    enumerator.close()


def look(enumerator: PulsarSourceEnumerator, position: int = END) -> tuple[int, int]:
    found = enumerator.split_ranges({SPLIT: position})[SPLIT.split_id]
    return found.position, found.end


@pytest.mark.parametrize("more", [{}, {"predefinedSubscription": "ours"}])
def test_a_drained_query_warns_once(
    partition: Partition, caplog: pytest.LogCaptureFixture, more: dict[str, str]
) -> None:
    """With a subscription, too: messages expire, and others may skip them."""
    for enumerator in enumerators(partition, **more):
        assert look(enumerator) == (END, END)
        assert not caplog.text
        partition.messages = [Message(15, 0)]
        for _ in range(3):
            assert look(enumerator) == (position_at(15, 0), position_at(15, 0) + 1)
    assert caplog.text.count(DRAINED) == 1


def test_the_end_of_the_last_range_was_seen(
    enumerator: PulsarSourceEnumerator, partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    """The query has not looked since it read the last message. It saw at its last look that nothing followed that."""
    assert look(enumerator, position_at(10, 3)) == (position_at(10, 3), END)
    partition.messages = []
    assert [look(enumerator) for _ in range(3)] == [(END, END)] * 3
    assert caplog.text.count(f"{DRAINED}, and ledger 10 does not exist any more, and no message is left") == 1


def test_a_query_that_was_started_again_fails(
    enumerator: PulsarSourceEnumerator, partition: Partition
) -> None:
    """It fails whether or not messages came since."""
    for partition.messages in ([], [Message(15, 0)]):
        with pytest.raises(DataLossError, match="wanted from 10:4:1 on, and ledger 10 does not exist"):
            look(enumerator)


def test_messages_that_were_seen_and_trimmed_are_lost(
    enumerator: PulsarSourceEnumerator, partition: Partition
) -> None:
    """Nothing followed at the look before, but this look has seen a message that it cannot read any more."""
    look(enumerator)
    partition.messages, partition.trims = [Message(15, 0)], True
    with pytest.raises(DataLossError, match="are lost, or may be"):
        look(enumerator)


def test_ids_below_the_position_are_of_another_topic(
    enumerator: PulsarSourceEnumerator, partition: Partition
) -> None:
    look(enumerator)
    partition.messages = [Message(3, 0), Message(3, 1)]
    with pytest.raises(DataLossError, match="the last message there is now is at 3:1:0, before that"):
        look(enumerator)


def test_a_query_that_may_lose_messages_warns_once(
    partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    partition.messages = []
    for enumerator in enumerators(partition, failOnDataLoss="false"):
        assert [look(enumerator) for _ in range(3)] == [(END, END)] * 3
        partition.messages = [Message(15, 0)]
        assert ledger_of(look(enumerator)[0]) == 15
    assert caplog.text.count("are lost, or may be") == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_entry_of_a_transaction_shows_that_its_ledger_exists(
    enumerator: PulsarSourceEnumerator, partition: Partition
) -> None:
    partition.messages, partition.hidden = [], Message(10, 7)
    assert look(enumerator) == (END, END)
    partition.hidden = Message(15, 0)
    assert look(enumerator) == (END, END), "seen in this process"
    partition.hidden = None
    assert look(enumerator) == (END, END), "warned of"


def test_behind_an_entry_of_a_transaction_a_missing_ledger_is_found(
    enumerator: PulsarSourceEnumerator, partition: Partition
) -> None:
    partition.messages, partition.hidden = [], Message(15, 0)
    with pytest.raises(DataLossError, match="wanted from 10:4:1 on"):
        look(enumerator)
