"""Reads LZ4 frames as Kafka's producers write them: independent blocks, and no checksum but that of the header.

The library's reader of frames copies the payload first. Blocks are decompressed in place. Frames of any other kind, and
damaged ones, are left to the library.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import cramjam

from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError

_MAGIC = b"\x04\x22\x4d\x18"
_INDEPENDENT, _HAS_SIZE = 0x60, 0x08  # The size of the content takes 8 bytes.
_LARGEST_BLOCK = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
"""The greatest size of a block in bytes, by the byte of the header that tells it."""
_SMALL = 1 << 10
"""The average size (bytes) of compressed blocks below which the library's reader of frames is faster."""
_SMALLEST_FRAME = 15
_WORD = 0xFFFFFFFF


class Block(NamedTuple):
    """A block of a frame: its place in the payload, and whether it is stored without compression."""

    begin: int
    end: int
    is_stored: bool


def blocks_of(payload: Bytes) -> Sequence[Block] | None:
    """Returns the blocks of a frame; ``None`` for one that is left to the library, also if it has many small blocks."""
    view, blocks = payload.data, list[Block]()
    if len(view) < _SMALLEST_FRAME or view[: len(_MAGIC)] != _MAGIC:
        return None
    checksum_at = _checksum_at(view[4])
    if view[4] & ~_HAS_SIZE != _INDEPENDENT or view[5] not in _LARGEST_BLOCK:
        return None
    if view[checksum_at] != _checksum(bytes(view[4:checksum_at])):
        return None
    at, most, largest = checksum_at + 1, 16 + len(view) // _SMALL, _LARGEST_BLOCK[view[5]]
    while at + 4 <= len(view) and len(blocks) < most:
        (word,) = struct.unpack_from("<I", view, at)
        begin, size = at + 4, word & 0x7FFFFFFF
        at = begin + size
        if not word:
            return blocks if at == len(view) else None
        if size > largest:
            return None
        blocks.append(Block(begin, at, is_stored=bool(word >> 31)))
    return None


def decompress(payload: Any, blocks: Sequence[Block], room: Any) -> int:
    """Decompresses the blocks of a frame into ``room`` and returns the number of bytes written.

    Raises:
        DecompressionError: A block is damaged, or ``room`` is too small.
        MalformedError: The size of the content is not that in the header.
    """
    written, largest = 0, _LARGEST_BLOCK[int(payload[5])]
    for begin, end, is_stored in blocks:
        block, left = payload[begin:end], room[written : written + largest]
        if not is_stored:
            written += int(cramjam.lz4.decompress_block_into(block, left, output_len=len(left)))
        elif len(block) > len(left):
            raise cramjam.DecompressionError("no room")
        else:
            left[: len(block)] = block
            written += len(block)
    if payload[4] & _HAS_SIZE and written != struct.unpack_from("<Q", payload, 6)[0]:
        raise MalformedError(f"lz4 data is damaged: its {written} bytes are not as many as its header tells")
    return written


def with_header_checksum(payload: bytes) -> bytes:
    """Returns a copy of a frame in which the checksum of the header is the right one.

    Raises:
        MalformedError: The frame is cut off.
    """
    if len(payload) < _SMALLEST_FRAME:
        raise MalformedError("the LZ4 frame is cut off")
    at = _checksum_at(payload[4])
    return payload[:at] + bytes([_checksum(payload[4:at])]) + payload[at + 1 :]


def _checksum_at(flags: int) -> int:
    return 14 if flags & _HAS_SIZE else 6


@functools.lru_cache(maxsize=64)
def _checksum(header: bytes) -> int:
    """Returns the checksum of a header without its magic number: the second byte of its xxHash32 with seed 0."""
    words = len(header) & ~3
    value = 0x165667B1 + len(header)
    for i in range(0, words, 4):
        value += int.from_bytes(header[i : i + 4], "little") * 0xC2B2AE3D
        value = _rotate(value, 17) * 0x27D4EB2F
    for byte in header[words:]:
        value = _rotate(value + byte * 0x165667B1, 11) * 0x9E3779B1
    value &= _WORD
    value = (value ^ value >> 15) * 0x85EBCA77 & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE3D & _WORD
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotate(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> (32 - bits)) & _WORD
