"""Positions in a shard: a sequence number and one more decimal digit.

``...0`` is the place before the record with that sequence number, ``...1`` the place behind it, where the next record
is not known yet. So positions grow along the shard, and each names a record that exists. :data:`TRIM_HORIZON` is the
beginning of a shard in which no record has been seen yet; nothing is read from or up to it.
"""

from __future__ import annotations

TRIM_HORIZON = 0


def before(sequence_number: str | int) -> int:
    """Returns the position before a record."""
    return int(sequence_number) * 10


def behind(sequence_number: str | int) -> int:
    """Returns the position behind a record."""
    return int(sequence_number) * 10 + 1


def sequence_number(position: int) -> str:
    """Returns the sequence number of the record that a position names."""
    return str(position // 10)


def is_behind(position: int) -> bool:
    """Returns whether a position is behind its record."""
    return position % 10 == 1


def iterator_type(position: int) -> str:
    """Returns the service's name for iterators at such a position."""
    if position == TRIM_HORIZON:
        return "TRIM_HORIZON"
    return "AFTER_SEQUENCE_NUMBER" if is_behind(position) else "AT_SEQUENCE_NUMBER"


def described(position: int) -> str:
    """Returns the position in the words of the service's iterator types."""
    kind = iterator_type(position)
    return kind if position == TRIM_HORIZON else f"{kind} {sequence_number(position)}"
