"""Decodes zigzag varints (KIP-98; Kafka's ``ByteUtils``), many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

INT_BYTES = 5
"""The greatest number of bytes of an encoded int32; an int64 takes up to 10."""


_LONG_BYTES = 10


class MalformedError(ValueError):
    """The error for bytes that are not records. Its text says what is wrong, and not where."""


def read_varints(buffer: Bytes, at: Longs, longest: int = INT_BYTES) -> tuple[Longs, Longs]:
    """Returns the numbers at the positions ``at``, and the positions after them.

    Nearly all numbers of a record take one or two bytes. Those are decoded for all rows at once; the third and later
    bytes are decoded only for the rows that have them.

    Args:
        buffer: the bytes.
        at: the positions of the numbers.
        longest: the greatest number of bytes of an encoded number.

    Raises:
        MalformedError: a number takes more than ``longest`` bytes.
        IndexError: a number leaves the buffer.
    """
    first = buffer.take(at)
    long = first >> 7
    if not long.any():
        return unzigzag(first.astype(np.uint64)), at + 1
    second = buffer.take(at + 1, mode="clip")
    second *= long
    raw = (first & 0x7F) | ((second & 0x7F).astype(np.uint64) << np.uint64(7))
    behind = at + 1 + long
    longer = np.flatnonzero(second > 0x7F)
    if longer.size:
        _finish(buffer, at, raw, behind, longer, longest)
    return unzigzag(raw), behind


def _finish(buffer: Bytes, at: Longs, raw: Any, behind: Longs, rows: Longs, longest: int) -> None:
    """Adds the third and later bytes of the numbers in ``rows`` to ``raw`` and ``behind``."""
    for k in range(2, longest):
        byte = buffer.take(at[rows] + k)
        raw[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        behind[rows] += 1
        if k == 9 and (byte > 1).any():
            raise MalformedError("a number does not fit 64 bits")
        rows = rows[byte > 0x7F]
        if not rows.size:
            return
    raise MalformedError(f"a number takes more than {longest} bytes")


def unzigzag(raw: npt.NDArray[np.uint64]) -> Longs:
    """Returns the signed numbers of zigzag-encoded ones: 0, 1, 2, 3, 4 stand for 0, -1, 1, -2, 2."""
    halves: Longs = (raw >> np.uint64(1)).view(np.int64)
    halves ^= -(raw & np.uint64(1)).view(np.int64)
    return halves


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
