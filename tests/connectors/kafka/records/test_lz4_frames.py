"""LZ4 frames of Java's producer are decompressed block by block, all others by a reader of frames."""

from __future__ import annotations

from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import pytest

from flip27_stream.connectors.kafka.records import compression
from flip27_stream.connectors.kafka.records.compression import Inflated
from flip27_stream.connectors.kafka.records.lz4_frames import Block, decompress_blocks
from flip27_stream.connectors.kafka.records.varints import MalformedError

LZ4 = 3
TEXT = np.random.default_rng(27).integers(97, 101, 150_000, np.uint8).tobytes()


def java_frame(data: bytes, **options: Any) -> bytes:
    """Returns a frame with the settings of Java's producer, unless ``options`` say otherwise."""
    given = {
        "block_size": 4,
        "block_linked": False,
        "content_checksum": False,
        "store_size": False,
        **options,
    }
    return bytes(lz4.frame.compress(data, **given))


def inflated(*frames: bytes) -> list[bytes]:
    buffer = Inflated(1)
    spans = [buffer.add(LZ4, np.frombuffer(frame, np.uint8)) for frame in frames]
    return [buffer.bytes[low:high].tobytes() for low, high in spans]


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("size", [1, 100, 65_535, 65_536, 65_537, 150_000])
def test_frames_of_java_are_decompressed_by_block(
    monkeypatch: pytest.MonkeyPatch, size: int, store_size: bool
) -> None:
    blocks: list[int] = []

    def watched(payload: Any, found: list[Block], room: Any) -> int:
        blocks.append(len(found))
        return decompress_blocks(payload, found, room)

    monkeypatch.setattr(compression, "decompress_blocks", watched)
    frames = [java_frame(data, store_size=store_size) for data in (TEXT[:size], TEXT[:50])]
    assert inflated(*frames) == [TEXT[:size], TEXT[:50]]
    assert set(blocks) == {1, -(-size // 65_536)}


@pytest.mark.parametrize(
    "options",
    [
        {"content_checksum": True},
        {"block_checksum": True},
        {"block_linked": True},
        {"block_size": 7},
    ],
    ids=str,
)
def test_other_frames_are_decompressed_as_well(options: dict[str, Any]) -> None:
    assert inflated(java_frame(TEXT, **options)) == [TEXT]


def test_blocks_that_are_not_compressed_are_copied() -> None:
    noise = np.random.default_rng(28).integers(0, 256, 100_000, np.uint8).tobytes()
    assert inflated(java_frame(noise + TEXT)) == [noise + TEXT]


def test_a_frame_that_is_cut_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST_BATCH", 1 << 16)
    for store_size in (False, True):
        frame = java_frame(TEXT[:300], store_size=store_size)
        for size in range(len(frame)):
            with pytest.raises(MalformedError):
                inflated(frame[:size])


def test_damaged_blocks_give_no_more_bytes_than_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST_BATCH", 1 << 16)
    chance, frame = np.random.default_rng(29), java_frame(TEXT[:300], store_size=True)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(frame)
        damaged[chance.integers(len(frame))] = chance.integers(256)
        try:
            (found,) = inflated(bytes(damaged))
        except MalformedError:
            refused += 1
        else:
            assert len(found) <= 1 << 16
    assert 200 < refused < 2000
