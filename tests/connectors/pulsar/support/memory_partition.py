"""A partition in memory, for tests of planning that need no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.client.client import SEEN_MS
from flip27_stream.connectors.pulsar.client.looks import Tip, VisibleMessages
from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator
from flip27_stream.connectors.pulsar.positions import position_of
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext

SPLIT = PulsarPartitionSplit("persistent://public/default/clicks", initial=False)


@dataclass(frozen=True)
class MessageAsId:
    """A message without content that is its own id."""

    ledger: int
    entry: int

    def message_id(self) -> MessageAsId:
        return self

    def ledger_id(self) -> int:
        return self.ledger

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return -1

    def serialize(self) -> bytes:
        return b""

    def data(self) -> bytes:
        return b""

    def has_null_value(self) -> bool:
        return False

    def encryption_context(self) -> None:
        return None

    def topic_name(self) -> str:
        return SPLIT.topic

    def partition_key(self) -> str:
        return ""

    def properties(self) -> Mapping[str, str]:
        return {}

    def publish_timestamp(self) -> int:
        return 0

    def event_timestamp(self) -> int:
        return 0


@dataclass
class MemoryPartition:
    """A partition, with the calls that planning makes to it.

    Attributes:
        messages: The existing messages.
        hidden: The last entry, if it is of a transaction.
        trims: Whether all messages are trimmed after the next call that finds the last message.
        silences_ms: How long (ms) each look waits for a message, while the last entry is hidden.
        first_ms: The time (ms) after which the first message of a look comes.
        longest_ms: The time limit (ms) of an operation.
    """

    messages: list[MessageAsId] = field(default_factory=list)
    hidden: MessageAsId | None = None
    trims: bool = False
    silences_ms: list[int] = field(default_factory=list)
    first_ms: int = 1
    longest_ms: int = 30_000

    def tip(self, topic: str, silence_ms: int = SEEN_MS) -> Tip:
        found = (
            Tip(None, is_hidden=True) if self.hidden else Tip(self.messages[-1] if self.messages else None)
        )
        if self.trims:
            self.messages.clear()
        return found

    def read(self, topic: str, position: int, most: int, until: int | None = None) -> Sequence[MessageAsId]:
        end = until or position_of(MessageAsId(1 << 62, 0))
        return [m for m in self.messages if position <= position_of(m) < end][:most]

    def read_visible(self, topic: str, position: int, most: int, *, silence_ms: int) -> VisibleMessages:
        self.silences_ms.append(silence_ms)
        if silence_ms < self.first_ms:
            return VisibleMessages([], goes_on=False)
        found = self.read(topic, position, most)
        return VisibleMessages(found, len(found) == most, self.first_ms if found else 0)

    def has_ledger(self, topic: str, ledger: int, *, is_hidden: bool = False) -> bool:
        first = next((m for m in self.messages if m.ledger >= ledger), None)
        return first is not None and first.ledger == ledger

    def last_entry(self, topic: str) -> int:
        return position_of(self.hidden or self.messages[-1])

    def consumer(self, topic: str, subscription: str) -> Any:
        return None

    def close(self, consumer: Any) -> None:
        """Does nothing."""


def enumerators(partition: MemoryPartition, **more: str) -> Iterator[PulsarSourceEnumerator]:
    """Yields an enumerator whose partitions are all ``partition``, and closes it."""
    topic = {} if "topicsPattern" in more else {"topic": "clicks"}
    options = {"service.url": "pulsar://localhost:1", **topic, **more}
    enumerator = PulsarSource(options).create_enumerator(CoordinatorContext(1, "localhost"))
    assert isinstance(enumerator, PulsarSourceEnumerator)
    enumerator._client = enumerator._cursors._client = partition  # type: ignore[assignment]
    yield enumerator
    enumerator.close()
