"""Positions in a shard: the sequence number of a record, followed by one more decimal digit.

With the digit 0 the position is before the record, with 1 it is after the record; the latter is used if the next
record is not known yet. So positions grow along the shard, and each names a record that exists.
:data:`TRIM_HORIZON` is the beginning of a shard in which no record has been seen yet; no range that has records begins
or ends there.
"""

from __future__ import annotations

TRIM_HORIZON = 0


def before(sequence_number: str | int) -> int:
    """Returns the position before a record."""
    return int(sequence_number) * 10


def behind(sequence_number: str | int) -> int:
    """Returns the position after a record."""
    return int(sequence_number) * 10 + 1


def sequence_number(position: int) -> str:
    """Returns the sequence number of the record that a position names."""
    return str(position // 10)


def is_behind(position: int) -> bool:
    """Returns whether a position is after its record."""
    return position % 10 == 1


def iterator_type(position: int) -> str:
    """Returns the service's name of the type of iterators at such a position."""
    if position == TRIM_HORIZON:
        return "TRIM_HORIZON"
    return "AFTER_SEQUENCE_NUMBER" if is_behind(position) else "AT_SEQUENCE_NUMBER"


def described(position: int) -> str:
    """Returns a position for users: the type of iterators there, and the sequence number if it has one."""
    kind = iterator_type(position)
    return kind if position == TRIM_HORIZON else f"{kind} {sequence_number(position)}"
