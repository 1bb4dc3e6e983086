"""Reads the fields of Protocol Buffers messages, whose types the caller knows."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_MOST_BITS = 63


class DamagedMessageError(ValueError):
    """The error for bytes that are not a message. Its text has the reason, with the message as "it"."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and the value of each field, in the order of the message.

    The value of a number is an unsigned integer; that of any other field is its bytes.

    Raises:
        DamagedMessageError: The message is cut off, or has a field of an unknown wire type.
    """
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = varint(message, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise DamagedMessageError(f"it has a field of the unknown wire type {kind}")
        if at + length > len(message):
            raise DamagedMessageError("it is cut off")
        yield tag >> 3, message[at : at + length]
        at += length


def varints(packed: bytes) -> Iterator[int]:
    """Yields the numbers of a packed field."""
    at = 0
    while at < len(packed):
        value, at = varint(packed, at)
        yield value


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns the unsigned number at position ``at``, and the position after it.

    Raises:
        DamagedMessageError: The message is cut off, or the number has more than 64 bits.
    """
    value = shift = 0
    while at < len(message) and shift <= _MOST_BITS:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise DamagedMessageError(
        "it is cut off" if at >= len(message) else "it has a number of more than 64 bits"
    )
