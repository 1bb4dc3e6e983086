"""Positions in a partition: a message id as one number, from ledger, entry and index in the entry's batch.

Message ids of a partition only grow, over entries and over ledgers, so these numbers grow along the partition. The
position of a message names the message itself; the position after the message is greater by 1. A message that is not
in a batch has index 0. :data:`EARLIEST` is the beginning of every partition.
"""

from __future__ import annotations

from typing import Protocol

EARLIEST = 0

_INDEX_BITS = 32
_ENTRY_BITS = 64
_INDEX_MASK = (1 << _INDEX_BITS) - 1
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1

ENTRY = 1 << _INDEX_BITS
"""The difference between the positions of an entry and of the next entry in its ledger."""


class MessageIdParts(Protocol):
    """A message id of pulsar-client, or another object with the same methods."""

    def ledger_id(self) -> int: ...

    def entry_id(self) -> int: ...

    def batch_index(self) -> int: ...


def position_at(ledger: int, entry: int, index: int = 0) -> int:
    """Returns the position of a message; a negative part counts as 0."""
    return max(ledger, 0) << (_ENTRY_BITS + _INDEX_BITS) | max(entry, 0) << _INDEX_BITS | max(index, 0)


def position_of(message_id: MessageIdParts) -> int:
    """Returns the position of the message with this id."""
    ledger, entry, index = message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
    if ledger < 0 or entry < 0 or index < 0:
        return position_at(ledger, entry, index)
    return ledger << (_ENTRY_BITS + _INDEX_BITS) | entry << _INDEX_BITS | index


def ledger_of(position: int) -> int:
    """Returns the id of the ledger in which a position is."""
    return position >> (_ENTRY_BITS + _INDEX_BITS)


def entry_of(position: int) -> int:
    """Returns the id of the entry, within its ledger, in which a position is."""
    return position >> _INDEX_BITS & _ENTRY_MASK


def index_of(position: int) -> int:
    """Returns the index of a position in the batch of its entry; see :func:`is_behind_entry` for the greatest one."""
    return position & _INDEX_MASK


def behind_entry(position: int) -> int:
    """Returns the position that follows all messages of the entry of ``position``."""
    return position | _INDEX_MASK


def is_behind_entry(position: int) -> bool:
    """Returns whether :func:`behind_entry` made a position. All other positions are of messages that were read."""
    return index_of(position) == _INDEX_MASK


def described(position: int) -> str:
    """Returns a position in the form that users know: ``ledger:entry:index``, or ``earliest``."""
    if position == EARLIEST:
        return "earliest"
    return f"{ledger_of(position)}:{entry_of(position)}:{index_of(position)}"
