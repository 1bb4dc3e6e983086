"""LZ4 frames are decompressed block by block if they are as Kafka's producers write them, otherwise by the library."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import numpy as np
import pytest

from flip27_stream.connectors.kafka.records import compression, lz4_frames
from flip27_stream.connectors.kafka.records.compression import DecompressionBuffer
from flip27_stream.connectors.kafka.records.varints import MalformedError

LZ4 = 3
BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
"""The sizes of blocks, by the number that the header of a frame has for them."""


def content(size: int, seed: int = 0) -> bytes:
    """Returns ``size`` bytes of text. The third of them in the middle are random, which LZ4 cannot compress."""
    words = random.Random(seed).choices([b"clicks ", b"views ", b"of ", b"a page "], k=size // 4)
    text = b"".join(words)[:size]
    return text[: size // 3] + random.Random(seed).randbytes(size // 3) + text[2 * (size // 3) :]


def frame(data: bytes, block_size: int = 4, **options: bool) -> bytes:
    settings = {"block_linked": False, "store_size": False} | options
    return bytes(lz4.frame.compress(data, block_size=block_size, **settings))


def decompressed(payload: bytes, room: int = 0) -> bytes:
    buffer = DecompressionBuffer(room)
    first, end = buffer.add(LZ4, np.frombuffer(payload, np.uint8))
    return buffer.bytes[first:end].tobytes()


@pytest.fixture
def decompressed_frames(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the frames that the library has decompressed whole."""
    sizes: list[int] = []
    whole = cramjam.lz4.decompress_into

    def recorded(payload: Any, room: Any) -> int:
        sizes.append(len(payload))
        return int(whole(payload, room))

    monkeypatch.setattr(cramjam.lz4, "decompress_into", recorded)
    return sizes


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("blocks", [0.001, 1, 2.5])
def test_ordinary_frames_are_decompressed_block_by_block(
    decompressed_frames: list[int], block_size: int, store_size: bool, blocks: float
) -> None:
    """So it is in a buffer of any size, which grows as it must."""
    data = content(int(blocks * BLOCK_SIZES[block_size]))
    payload = frame(data, block_size, store_size=store_size)
    for room in (0, len(data) // 2, len(data)):
        assert decompressed(payload, room) == data
    assert not decompressed_frames


@pytest.mark.parametrize(
    "options", [{"block_linked": True}, {"block_checksum": True}, {"content_checksum": True}]
)
def test_other_frames_are_left_to_the_library(
    decompressed_frames: list[int], options: dict[str, bool]
) -> None:
    data = content(200_000)
    payload = frame(data, **options)
    assert decompressed(payload, len(data)) == data
    assert decompressed_frames == [len(payload)]


def test_a_frame_of_many_small_blocks_is_left_to_the_library(decompressed_frames: list[int]) -> None:
    """A call for each block would take longer, up to minutes for a large batch."""
    blocks = b"".join(struct.pack("<I", 1 << 31 | 1) + b"v" for _ in range(50_000))
    payload = frame(b"")[:7] + blocks + bytes(4)
    assert decompressed(payload, 50_000) == b"v" * 50_000
    assert decompressed_frames == [len(payload)]


def test_a_second_frame_is_read(decompressed_frames: list[int]) -> None:
    payload = frame(b"clicks") + frame(b" and views")
    assert decompressed(payload, 100) == b"clicks and views"
    assert decompressed_frames


def _without_end(payload: bytes) -> bytes:
    return payload[:-4]


def _with_a_longer_block(payload: bytes) -> bytes:
    return payload[:7] + struct.pack("<I", len(payload)) + payload[11:]


def _with_more_behind(payload: bytes) -> bytes:
    return payload + b"more"


def _with_larger_blocks_than_announced(payload: bytes) -> bytes:
    return _with_right_header(payload[:5] + b"\x40" + payload[6:])


def _with_another_header_checksum(payload: bytes) -> bytes:
    return payload[:6] + bytes([payload[6] ^ 1]) + payload[7:]


def _with_another_size(payload: bytes) -> bytes:
    size = struct.pack("<Q", 200_001)
    return _with_right_header(payload[:4] + bytes([payload[4] | 8]) + payload[5:6] + size + payload[6:])


def _with_right_header(payload: bytes) -> bytes:
    return lz4_frames.with_header_checksum(payload)


@pytest.mark.parametrize(
    "damaged",
    [
        _without_end,
        _with_a_longer_block,
        _with_more_behind,
        _with_larger_blocks_than_announced,
        _with_another_header_checksum,
        _with_another_size,
    ],
)
def test_a_damaged_frame_is_refused(
    monkeypatch: pytest.MonkeyPatch, damaged: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(compression, "LARGEST_BATCH", 1 << 20)
    with pytest.raises(MalformedError, match="lz4 data is damaged"):
        decompressed(damaged(frame(content(200_000), 5)))
