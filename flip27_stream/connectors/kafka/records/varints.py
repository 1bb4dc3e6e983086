"""Decodes zigzag varints (KIP-98; Kafka's ``ByteUtils``), many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s

Bytes = npt.NDArray[np.uint8]
_Pairs = npt.NDArray[np.uint16]

INT_BYTES = 5
"""The greatest number of bytes of an encoded int32; an int64 takes up to 10."""

_LONG_BYTES = 10
_WORD_BYTES = 8
_NO_ROWS = np.empty(0, np.int64)
_CONTINUED = 0x8000
"""The upper byte in the pair of a buffer's last byte. It makes a number that goes on there one of three bytes, which
:func:`_read_long` refuses because it exceeds the buffer.
"""


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
        IndexError: A number begins after the buffer.
    """
    try:
        pairs = byte_pairs(buffer)[at]
    except IndexError:  # The last byte has no next one.
        last = len(buffer) - 1
        if not last or at.max() > last:
            return _read_long(buffer, at, longest)
        pairs = byte_pairs(buffer)[np.minimum(at, last - 1)]
        pairs[at == last] = _CONTINUED | int(buffer[last])
    numbers, two, longer = _short(pairs)
    if 2 * len(longer) > len(at):
        return _read_long(buffer, at, longest)
    behind = at + 1
    if two is not None:
        behind += two
    if len(longer):
        numbers[longer], behind[longer] = _read_long(buffer, at[longer], longest)
    return numbers, behind


class VarintCursor:
    """Reads the varints of many rows, one varint of each row per call; a row is a place in a buffer.

    :func:`read_varints` spends most of its time on access to memory that is far apart. The cursor therefore copies
    eight bytes of each row once, and takes the first varints of a row from this copy.

    Args:
        buffer: The bytes.
        at: The position of the first varint of each row, ascending.

    Attributes:
        at: The position of the next varint of each row.
    """

    def __init__(self, buffer: Bytes, at: Int64s) -> None:
        self.at = at
        self._buffer = buffer
        self._load()

    def _load(self) -> None:
        size = max(len(self._buffer) - _WORD_BYTES + 1, 0)
        words: npt.NDArray[np.uint64] = np.ndarray((size,), "<u8", self._buffer.data, 0, (1,))
        self._left = 0  # The number of bytes that are left in each word at least.
        if len(self.at) and self.at[-1] < size:
            self._words, self._left = words[self.at], _WORD_BYTES

    def read(self, longest: int = INT_BYTES) -> Int64s:
        """Returns the next number of each row.

        Args:
            longest: The greatest number of bytes of an encoded number.

        Raises:
            MalformedError: A number takes more than ``longest`` bytes, or begins in the buffer and exceeds it.
            IndexError: A number begins after the buffer.
        """
        if self._left < 2:
            numbers, self.at = read_varints(self._buffer, self.at, longest)
            return numbers
        numbers, two, longer = _short(self._words.astype(np.uint16))
        if len(longer):
            numbers, self.at = read_varints(self._buffer, self.at, longest)
            self._load()
            return numbers
        self.at = self.at + 1
        self._words >>= np.uint64(8)
        self._left -= 1
        if two is not None:
            self.at += two
            self._words >>= two.astype(np.uint64) << np.uint64(3)
            self._left -= 1
        return numbers

    def skip(self, sizes: Int64s) -> None:
        """Moves each row past as many bytes as its size says. A negative size stands for a null, which has no bytes."""
        if (sizes > 0).any():
            self._left = 0
            self.at = self.at + np.maximum(sizes, 0)


def _short(pairs: _Pairs) -> tuple[Int64s, _Pairs | None, Int64s]:
    """Decodes varints of one or two bytes.

    Args:
        pairs: The first two bytes of each varint, the first one in the lower bits.

    Returns:
        The numbers; 1 for each varint with a second byte and 0 for the others (``None`` if no varint has one); and the
        rows whose varint has a third byte, for which the number is not valid.
    """
    raw, two = pairs & 0x7F, pairs >> 7 & 1
    if not two.any():
        return _unzigzag(raw).astype(np.int64), None, _NO_ROWS
    raw |= pairs >> 1 & 0x3F80 & -two
    longer: Int64s = np.flatnonzero(pairs & 0x8080 == 0x8080).astype(np.int64, copy=False)
    return _unzigzag(raw).astype(np.int64), two.astype(np.uint16, copy=False), longer


def byte_pairs(buffer: Bytes) -> _Pairs:
    """Returns each byte of a buffer with the next one, as a number whose lower byte comes first. Nothing is copied."""
    pairs: _Pairs = np.ndarray((max(len(buffer) - 1, 0),), "<u2", buffer.data, 0, (1,))
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
            raise MalformedError("the number does not fit 64 bits")
        more = byte >> 7
        if not more.any():
            return _unzigzag(raw), behind
    raise MalformedError(f"the number takes more than {longest} bytes")


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
        raise MalformedError("the number does not fit 64 bits")
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
    raise MalformedError(f"the number takes more than {longest} bytes")
