"""The compression codecs of Kafka, with a limit on the decompressed size of a batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import cramjam
import numpy as np

from flip27_stream.connectors.kafka.records import lz4_frames
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs, by the number in the attributes of a batch."""

LARGEST_BATCH = 256 << 20
"""The greatest decompressed size of one batch, in bytes.

Brokers only limit the compressed size (``message.max.bytes``).
"""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_RATIO = 4
"""An estimate of the decompressed size divided by the compressed size."""


def expected_room(compressed: Sequence[int], enough: int = LARGEST_BATCH) -> int:
    """Returns an estimate of the decompressed bytes of batches, one of which is the last: it reaches ``enough`` bytes.

    Args:
        compressed: The compressed sizes of the batches in bytes, at least one.
        enough: The number of decompressed bytes after which no further batch is decompressed.
    """
    return min(_RATIO * sum(compressed), enough + _RATIO * max(compressed))


class DecompressionBuffer:
    """A buffer of decompressed batches, one after the other.

    Args:
        room: The expected number of decompressed bytes; see :func:`expected_room`.

    Attributes:
        used: The number of bytes in the buffer.
    """

    def __init__(self, room: int) -> None:
        self._buffer: Bytes = np.empty(min(room + 4096, LARGEST_BATCH), np.uint8)
        self.used = 0

    @property
    def bytes(self) -> Bytes:
        """The bytes of all batches that were added."""
        return self._buffer[: self.used]

    def clear(self) -> None:
        """Removes all batches from the buffer, whose memory is used again."""
        self.used = 0

    def add(self, codec: int, payload: Bytes) -> tuple[int, int]:
        """Decompresses ``payload`` and returns its span, the first byte and the end, in :attr:`bytes`.

        Args:
            codec: The number of the codec, see :data:`CODECS`.
            payload: The compressed bytes.

        Raises:
            MalformedError: The codec is not known, or the bytes are damaged or too large.
        """
        if codec >= len(CODECS):
            raise MalformedError(f"the compression codec {codec} is not known")
        while (written := self._decompressed(codec, payload)) is None:
            self._grow()
        self.used += written
        return self.used - written, self.used

    def _decompressed(self, codec: int, payload: Bytes) -> int | None:
        """Returns the number of bytes appended to the buffer; ``None`` if the buffer may be too small."""
        room = self._buffer[self.used : self.used + LARGEST_BATCH]
        try:
            return _decompress(codec, payload, room)
        except cramjam.DecompressionError as error:
            # The error is the same for a buffer that is too small and for damaged bytes, so a larger buffer is tried
            # until it has the greatest size.
            if len(room) < LARGEST_BATCH:
                return None
            raise MalformedError(
                f"{CODECS[codec]} data is damaged, or has more than {LARGEST_BATCH} bytes when it is decompressed, "
                f"the most that this source reads in one batch: {error}"
            ) from error

    def _grow(self) -> None:
        """Makes the buffer larger.

        The used bytes are copied twice, so that the old buffer is freed before the new one is allocated.
        """
        size, used = min(4 * len(self._buffer), self.used + LARGEST_BATCH), self.bytes.copy()
        self._buffer = used
        self._buffer = np.empty(size, np.uint8)
        self._buffer[: self.used] = used


def _decompress(codec: int, payload: Any, room: Any) -> int:
    """Decompresses ``payload`` into ``room`` and returns the number of bytes written."""
    if codec == 0:
        if len(payload) > len(room):
            raise cramjam.DecompressionError("no room")
        room[: len(payload)] = payload
        return len(payload)
    if codec == 2:
        return _snappy(payload, room)
    if codec == 3 and (blocks := lz4_frames.blocks_of(payload)) is not None:
        return lz4_frames.decompress(payload, blocks, room)
    into: Any = (None, cramjam.gzip, None, cramjam.lz4, cramjam.zstd)[codec]
    return int(into.decompress_into(payload, room))


def _snappy(payload: Any, room: Any) -> int:
    """Decompresses raw snappy (librdkafka), or the blocks with lengths that the xerial library writes (Java)."""
    if payload[: len(_XERIAL)].tobytes() != _XERIAL:
        return int(cramjam.snappy.decompress_raw_into(payload, room))
    at, written = _XERIAL_HEADER, 0
    while at < len(payload):
        if at + 4 > len(payload):
            raise MalformedError("the snappy block is cut off")
        (size,) = struct.unpack_from(">i", payload, at)
        at += 4
        if not 0 < size <= len(payload) - at:
            raise MalformedError(f"the snappy block has {size} bytes, but {len(payload) - at} bytes are left")
        written += int(cramjam.snappy.decompress_raw_into(payload[at : at + size], room[written:]))
        at += size
    return written
