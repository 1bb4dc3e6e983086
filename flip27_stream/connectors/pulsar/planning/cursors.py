"""Moves the cursors of the subscription of option ``predefinedSubscription`` after processed messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.planning.partition_log import PartitionLog
from flip27_stream.connectors.pulsar.positions import entry_of, index_of, ledger_of, position_at
from flip27_stream.errors import ConnectorError

log = logging.getLogger(__name__)


class Cursors:
    """A worker that acknowledges entries whose messages are all processed.

    A restart goes on from Spark's offset and not from the cursors, so a failure is only logged as a warning, once until
    the cursor is moved.

    Args:
        client: Makes the consumers.
        subscription: The name of the subscription; ``None`` to do nothing.
    """

    def __init__(self, client: PulsarClient, subscription: str | None) -> None:
        self._client = client
        self._subscription = subscription
        self._processed: Mapping[str, int] = {}
        self._acknowledged: dict[str, int] = {}
        self._consumers: dict[str, Any] = {}
        self._failing: set[str] = set()

    def processed(self, positions: Mapping[str, int]) -> None:
        """Records that everything before ``positions`` is processed."""
        self._processed = positions

    def follow(self, logs: Mapping[str, PartitionLog]) -> None:
        """Moves the cursors after the processed messages.

        Args:
            logs: The partitions by name, with the messages that follow the processed ones.
        """
        if self._subscription is None:
            return
        for topic, partition in logs.items():
            self._try_to_follow(topic, partition, self._subscription)

    def _try_to_follow(self, topic: str, partition: PartitionLog, subscription: str) -> None:
        try:
            self._follow(topic, partition, subscription)
        except ConnectorError as error:
            self._consumers.pop(topic, None)
            if topic not in self._failing:
                log.warning(
                    "The cursor of option 'predefinedSubscription' was not moved; later plans try again: %s",
                    error,
                )
            self._failing.add(topic)
        else:
            self._failing.discard(topic)

    def _follow(self, topic: str, partition: PartitionLog, subscription: str) -> None:
        if topic not in self._consumers:
            self._consumers[topic] = self._client.consumer(topic, subscription)
        position = self._processed.get(topic)
        if position is None:
            return
        entry = last_whole_entry(position, partition.scan.positions[:1])
        if entry is not None and self._acknowledged.get(topic) != entry:
            self._client.acknowledge(self._consumers[topic], entry)
            self._acknowledged[topic] = entry

    def close(self) -> None:
        """Closes the consumers; the subscription stays."""
        for consumer in self._consumers.values():
            self._client.close(consumer)
        self._consumers = {}


def last_whole_entry(position: int, following: list[int]) -> int | None:
    """Returns the position of the last entry whose messages are all before ``position``; ``None`` if it is not known.

    Args:
        position: The position before which all messages are processed.
        following: The position of the message that follows; empty if there is no such message.
    """
    entry = position_at(ledger_of(position), entry_of(position))
    goes_on = any(position_at(ledger_of(p), entry_of(p)) == entry for p in following)
    if index_of(position) > 0 and not goes_on:
        return entry
    return position_at(ledger_of(position), entry_of(position) - 1) if entry_of(position) > 0 else None
