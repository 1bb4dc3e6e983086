"""Messages of the formats before record batches (magic 0 and 1) are decoded."""

from __future__ import annotations

import struct

import pytest

from flip27_stream.connectors.kafka.records import lz4_frames
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    END,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    SOURCE,
    T0,
    BatchRow,
    all_rows,
    by_kafka_python,
    compressed,
    old,
    old_rows,
    some_rows,
    v2,
    wrapper,
)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4])
def test_messages_of_old_formats_are_read(magic: int, codec: int) -> None:
    """Old messages lie among record batches, as in a topic that went through an upgrade."""
    rows = old_rows(magic)
    log = old(rows, magic, codec) + v2(some_rows(2, 10)) + old([BatchRow(20, T0, None, b"z")], 1)
    if (magic, codec) != (0, LZ4):  # kafka-python needs one more library for this pair
        theirs = by_kafka_python(old(rows, magic, codec))
        assert [row._replace(timestamp=row.timestamp or -1) for row in theirs] == rows
    assert all_rows(log) == [*rows, *some_rows(2, 10), BatchRow(20, T0, None, b"z")]
    assert all_rows(log, 6, 10) == rows[1:]
    decoded = decode(log, 0, 6, source=SOURCE)
    assert decoded.next_offset == 6
    assert decoded.records.timestamp_types.tolist() == [0 if magic else -1]


def test_old_messages_have_log_append_time() -> None:
    inner = bytes(compressed(old([row._replace(offset=i) for i, row in enumerate(old_rows(1))], 1), GZIP))
    records = decode(wrapper(9, 1, GZIP | LOG_APPEND_TIME, inner, T0 + 77), 0, END, source=SOURCE).records
    assert records.offsets.tolist() == [7, 8, 9]
    assert records.timestamps.tolist() == [T0 + 77] * 3
    assert records.timestamp_types.tolist() == [1] * 3


@pytest.mark.parametrize("before", [old([BatchRow(5, T0, None, b"a")], 0), v2(some_rows(1, 5))])
def test_a_compressed_message_whose_first_offset_came_before_is_refused(before: bytes) -> None:
    """The header of a compressed message has its last offset only. Its first offset was there before and would come
    twice, so it is refused.
    """
    inner = bytes(compressed(old([BatchRow(5, T0, None, b"b"), BatchRow(9, T0, None, b"c")], 0), GZIP))
    with pytest.raises(
        CorruptRecordError, match=r"offset 9 of .*begins at offset 5, the one before it ends at 5"
    ):
        decode(before + wrapper(9, 0, GZIP, inner, T0), 0, END, source=SOURCE)


def test_lz4_frames_of_clients_before_0_10_are_read() -> None:
    """Clients before 0.10 computed the checksum of an LZ4 frame's header over the magic number, too (KIP-57).

    The function that computes the checksum is first checked against a frame whose checksum is right.
    """
    rows = old_rows(0)
    frame = compressed(old(rows, 0), LZ4)
    size = 14 if frame[4] & 8 else 6
    assert lz4_frames._checksum(frame[4:size]) == frame[size]
    wrong = frame[:size] + bytes([lz4_frames._checksum(frame[:size])]) + frame[size + 1 :]
    assert wrong != frame
    assert all_rows(wrapper(9, 0, LZ4, wrong, -1)) == rows


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        old(old_rows(1), 1)[:-1],
        old(old_rows(0), 0),
        old(old_rows(1), 1, GZIP),
        old(old_rows(1), 1)[:30] + b"\xff" + old(old_rows(1), 1)[31:],
        struct.pack(">qi", 0, -12) + bytes(40),
    ],
)
def test_a_damaged_old_message_is_refused(inner: bytes) -> None:
    with pytest.raises(CorruptRecordError, match=f"offset 9 of {SOURCE}"):
        all_rows(wrapper(9, 1, GZIP, compressed(inner, GZIP), T0))
