"""Decodes zigzag varints (KIP-98; Kafka's ``ByteUtils``), many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s

Bytes = npt.NDArray[np.uint8]

INT_BYTES = 5
"""The greatest number of bytes of an encoded int32; an int64 takes up to 10."""


_LONG_BYTES = 10


class MalformedError(ValueError):
    """The error for bytes that are not records. Its text describes the defect, without the offset."""


def read_varints(buffer: Bytes, at: Int64s, longest: int = INT_BYTES) -> tuple[Int64s, Int64s]:
    """Returns the numbers at the positions ``at``, and the positions after them.

    Nearly all numbers of a record take one or two bytes. Those are decoded for all rows at once, in 16 bits; numbers
    with a third byte are decoded again, together with the others if most rows have one.

    Args:
        buffer: The bytes.
        at: The positions of the numbers.
        longest: The greatest number of bytes of an encoded number.

    Raises:
        MalformedError: A number takes more than ``longest`` bytes, or begins in the buffer and exceeds it.
        IndexError: A number begins behind the buffer.
    """
    try:
        pairs = byte_pairs(buffer)[at]
    except IndexError:  # a number may be the last byte
        return _read_long(buffer, at, longest)
    raw, two, behind = pairs & 0x7F, pairs >> 7 & 1, at + 1
    if not two.any():
        return _unzigzag(raw).astype(np.int64), behind
    behind += two
    raw |= pairs >> 1 & 0x3F80 & -two
    numbers = _unzigzag(raw).astype(np.int64)
    longer = np.flatnonzero(pairs & 0x8080 == 0x8080)
    if 2 * len(longer) > len(at):
        return _read_long(buffer, at, longest)
    if len(longer):
        numbers[longer], behind[longer] = _read_long(buffer, at[longer], longest)
    return numbers, behind


def byte_pairs(buffer: Bytes) -> npt.NDArray[np.uint16]:
    """Returns each byte of a buffer with the next one, as a number whose lower byte comes first. Nothing is copied."""
    pairs: npt.NDArray[np.uint16] = np.ndarray((max(len(buffer) - 1, 0),), "<u2", buffer.data, 0, (1,))
    return pairs


def _read_long(buffer: Bytes, at: Int64s, longest: int) -> tuple[Int64s, Int64s]:
    """Returns the numbers and the positions after them, as :func:`read_varints` does, for numbers of any size.

    A number that exceeds the buffer takes more than ``longest`` bytes, because the last byte is read repeatedly.
    """
    raw, behind = np.zeros(len(at), np.uint64), at
    more: npt.NDArray[Any] = np.ones(len(at), np.uint8)
    for k in range(longest):
        byte = buffer.take(at) if k == 0 else buffer.take(at + k, mode="clip")
        byte *= more
        raw |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        behind = behind + more
        if k == 9 and (byte > 1).any():
            raise MalformedError("a number does not fit 64 bits")
        more = byte >> 7
        if not more.any():
            return _unzigzag(raw), behind
    raise MalformedError(f"a number takes more than {longest} bytes")


def _unzigzag(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the signed numbers that zigzag-encoded numbers stand for: 0, 1, 2, 3, 4 stand for 0, -1, 1, -2, 2."""
    return ((raw >> 1) ^ -(raw & 1)).view(f"i{raw.itemsize}")


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Returns the int32 encoded at ``at``, and the position after it."""
    return _read(data, at, INT_BYTES)


def read_varlong(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Returns the int64 encoded at ``at``, and the position after it."""
    number, behind = _read(data, at, _LONG_BYTES)
    if behind - at == _LONG_BYTES and data[behind - 1] > 1:
        raise MalformedError("a number does not fit 64 bits")
    return number, behind


def _read(data: bytes | memoryview, at: int, longest: int) -> tuple[int, int]:
    raw = data[at]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw &= 0x7F
    for k in range(1, longest):
        byte = data[at + k]
        raw |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + k + 1
    raise MalformedError(f"a number takes more than {longest} bytes")
