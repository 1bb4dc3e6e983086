"""Gaps between the messages that a reader of pulsar-client returns.

A broker can move an open reader forward and report no error: when messages expire (time to live), or when somebody
clears or skips the backlog of a topic or namespace. The messages still exist. Other gaps are usual: entries of
transactions and markers are not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.positions import ENTRY, position_of

_PAGE = 4096


def count_without_gap(positions: Sequence[int], before: int) -> int:
    """Returns how many messages come directly after each other, the first one directly after ``before``.

    No message can be between two that have neighbouring places in a batch or are in neighbouring entries of a ledger.
    """
    for count, at in enumerate(positions):
        if at != before + 1 and at != (before // ENTRY + 1) * ENTRY:
            return count
        before = at
    return len(positions)


def existing(client: PulsarClient, topic: str, start: int, last: int) -> Iterator[int]:
    """Yields the positions of all messages from ``start`` to ``last``, found by readers of their own, page by page.

    Args:
        client: Makes the calls to the brokers.
        topic: The partition.
        start: The first position.
        last: The position of the last message, which must exist.

    Raises:
        MissingTopicError: The topic was deleted.
        UnreachableError: The broker does not answer.
    """
    while start <= last and (messages := client.read(topic, start, _PAGE, last + 1)):
        found = [position_of(message.message_id()) for message in messages]
        yield from found
        start = found[-1] + 1
