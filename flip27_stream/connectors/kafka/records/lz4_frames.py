"""LZ4 frames, block by block. A reader of frames takes 20 µs to begin, as long as for 40 KB."""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

import cramjam

from flip27_stream.connectors.kafka.records.varints import MalformedError

_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS = {b"\x60\x40": 6, b"\x68\x40": 14}
"""The flags of frames of usual producers, with the place of the header's checksum: blocks of at most 64 KiB, which do
not refer to each other and have no checksums; and in the second case the size of the content."""
_LARGEST_BLOCK = 1 << 16
_PLAIN = 1 << 31
_WORD = 0xFFFFFFFF


class Block(NamedTuple):
    """A block of a frame: its first byte, its end, and whether it is not compressed."""

    low: int
    high: int
    is_plain: bool


def blocks_of(payload: Any) -> list[Block]:
    """Returns the blocks of a frame of a usual producer; nothing for a frame of another kind, or a damaged one."""
    header = payload[:15].tobytes()
    at = _FLAGS.get(header[4:6], 0)
    if not at or header[:4] != _MAGIC or header[at:][:1] != _checksum(header[4:at]):
        return []
    blocks: list[Block] = []
    at += 1
    while at + 4 < len(payload):
        (word,) = struct.unpack_from("<I", payload, at)
        low, at = at + 4, at + 4 + (word & ~_PLAIN)
        blocks.append(Block(low, at, word >= _PLAIN))
    is_whole = payload[at:].tobytes() == bytes(4) and all(low < high for low, high, _ in blocks)
    return blocks if is_whole else []


def decompress_blocks(payload: Any, blocks: list[Block], room: Any) -> int:
    """Decompresses the blocks of a frame into ``room``, and returns the number of bytes written.

    Raises:
        cramjam.DecompressionError: There is no room for them, or they are damaged.
    """
    written = 0
    for low, high, is_plain in blocks:
        left, block = room[written : written + _LARGEST_BLOCK], payload[low:high]
        if not is_plain:
            written += int(cramjam.lz4.decompress_block_into(block, left, output_len=len(left)))
        elif len(block) > len(left):
            raise cramjam.DecompressionError("no room")
        else:
            left[: len(block)] = block
            written += len(block)
    if payload[4] & 0x08 and struct.unpack_from("<Q", payload, 6) != (written,):
        raise cramjam.DecompressionError(f"{written} bytes, which is not the size in the header")
    return written


def with_header_checksum(payload: bytes) -> bytes:
    """Returns a frame with a correct header checksum; clients before Kafka 0.10 computed another one (KIP-57)."""
    if len(payload) < 15:
        raise MalformedError("LZ4 frame cut off")
    at = 14 if payload[4] & 0x08 else 6  # The header is longer if it has the size of the content.
    return payload[:at] + _checksum(payload[4:at]) + payload[at + 1 :]


@functools.lru_cache(maxsize=1024)
def _checksum(descriptor: bytes) -> bytes:
    """Returns the checksum of a header, which is one byte, for the bytes between the magic number and itself."""
    return bytes([_xxh32(descriptor) >> 8 & 0xFF])


def _xxh32(data: bytes) -> int:
    """Returns the xxHash32 of fewer than 16 bytes with seed 0. One of its bytes is the header checksum of LZ4."""
    words = len(data) & ~3
    value = 0x165667B1 + len(data)
    for i in range(0, words, 4):
        value += int.from_bytes(data[i : i + 4], "little") * 0xC2B2AE3D
        value = _rotate(value, 17) * 0x27D4EB2F
    for byte in data[words:]:
        value = _rotate(value + byte * 0x165667B1, 11) * 0x9E3779B1
    value &= _WORD
    value = (value ^ value >> 15) * 0x85EBCA77 & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE3D & _WORD
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> (32 - bits)) & _WORD
