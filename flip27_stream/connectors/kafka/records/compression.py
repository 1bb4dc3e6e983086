"""Kafka's compression codecs, with a bound on what a batch may grow to."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import numpy as np

from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by the codec's number in a batch's attributes."""

LARGEST_BATCH = 256 << 20
"""Bytes that one batch may decompress to; brokers bound only its compressed size (``message.max.bytes``)."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_ROOM_AT_FIRST = 4


class Inflated:
    """Batches decompressed into one buffer, one behind the other.

    ``compressed`` is the number of bytes to come, a hint for the first size of the buffer.
    """

    def __init__(self, compressed: int) -> None:
        self._buffer: Bytes = np.empty(min(_ROOM_AT_FIRST * compressed + 4096, LARGEST_BATCH), np.uint8)
        self.used = 0

    @property
    def bytes(self) -> Bytes:
        """All that was added so far."""
        return self._buffer[: self.used]

    def add(self, codec: int, payload: Bytes) -> tuple[int, int]:
        """Decompress ``payload``; the span of the result in :attr:`bytes`. MalformedError if that can't be done."""
        if codec >= len(CODECS):
            raise MalformedError(f"unknown compression codec {codec}")
        while (written := self._decompressed(codec, payload)) is None:
            self._grow()
        self.used += written
        return self.used - written, self.used

    def _decompressed(self, codec: int, payload: Bytes) -> int | None:
        """The number of bytes written behind those that are there, None if there may be too little room."""
        room = self._buffer[self.used : self.used + LARGEST_BATCH]
        try:
            return _decompress(codec, payload, room)
        except cramjam.DecompressionError as error:
            # A buffer that is too small can't be told from damaged bytes, so only the largest one decides.
            if len(room) < LARGEST_BATCH:
                return None
            raise MalformedError(
                f"{CODECS[codec]} data is damaged or larger than {LARGEST_BATCH} bytes: {error}"
            ) from error

    def _grow(self) -> None:
        """A larger buffer; the old one goes before the new one comes, what it had in use is copied twice for that."""
        size, used = min(4 * len(self._buffer), self.used + LARGEST_BATCH), self.bytes.copy()
        self._buffer = used
        self._buffer = np.empty(size, np.uint8)
        self._buffer[: self.used] = used


def _decompress(codec: int, payload: Any, room: Any) -> int:
    """Decompress ``payload`` into ``room``; the number of bytes written."""
    if codec == 0:
        if len(payload) > len(room):
            raise cramjam.DecompressionError("no room")
        room[: len(payload)] = payload
        return len(payload)
    if codec == 2:
        return _snappy(payload, room)
    into: Any = (None, cramjam.gzip, None, cramjam.lz4, cramjam.zstd)[codec]
    return int(into.decompress_into(payload, room))


def _snappy(payload: Any, room: Any) -> int:
    """Raw snappy (librdkafka), or the blocks with lengths that the xerial library writes (Java)."""
    if payload[: len(_XERIAL)].tobytes() != _XERIAL:
        return int(cramjam.snappy.decompress_raw_into(payload, room))
    at, written = _XERIAL_HEADER, 0
    while at < len(payload):
        if at + 4 > len(payload):
            raise MalformedError("snappy block cut off")
        (size,) = struct.unpack_from(">i", payload, at)
        at += 4
        if not 0 < size <= len(payload) - at:
            raise MalformedError(f"snappy block of {size} bytes, {len(payload) - at} are left")
        written += int(cramjam.snappy.decompress_raw_into(payload[at : at + size], room[written:]))
        at += size
    return written
