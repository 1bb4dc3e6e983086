"""``read_varints`` and ``VarintCursor`` decode the same numbers as were encoded, also at the end of a buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.records import record_lanes
from flip27_stream.connectors.kafka.records.varints import (
    MalformedError,
    VarintCursor,
    read_varints,
    read_varlong,
)
from tests.connectors.kafka.support.batch_bytes import BatchRow, v2
from tests.support.exploring import examples

_NUMBERS = st.one_of(st.integers(-70, 70), st.integers(-9000, 9000), st.integers(-(2**63), 2**63 - 1))


def _encoded(number: int) -> bytes:
    raw, data = (number << 1) ^ (number >> 63), bytearray()
    while raw > 0x7F:
        data.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*data, raw])


@settings(max_examples=examples(200))
@given(
    st.integers(1, 6).flatmap(
        lambda columns: st.lists(st.lists(_NUMBERS, min_size=columns, max_size=columns), min_size=1)
    ),
    st.integers(0, 9),
)
def test_a_cursor_reads_the_numbers_of_each_row(rows: list[list[int]], behind: int) -> None:
    """The cursor returns the encoded numbers of 1 to 10 bytes each, also if the buffer ends after the last number."""
    encoded = [b"".join(map(_encoded, row)) for row in rows]
    buffer = np.frombuffer(b"".join(encoded) + bytes(behind), np.uint8)
    ends = np.cumsum([len(row) for row in encoded])
    cursor = VarintCursor(buffer, ends - [len(row) for row in encoded])
    read = [cursor.read(10).tolist() for _ in rows[0]]
    assert [list(row) for row in zip(*read, strict=True)] == rows
    assert cursor.at.tolist() == ends.tolist()


@pytest.mark.parametrize("sizes", [[3, 0, -1], [-1, -1, -1], [0, 0, 0]])
def test_a_cursor_skips_what_a_size_says(sizes: list[int]) -> None:
    """``skip`` moves a row by its size, and a row with a negative size (a null) not at all."""
    rows = [_encoded(size) + b"x" * max(size, 0) + _encoded(1000 + k) for k, size in enumerate(sizes)]
    buffer = np.frombuffer(b"".join(rows) + b"\x01" * 8, np.uint8)
    ends = np.cumsum([len(row) for row in rows])
    cursor = VarintCursor(buffer, ends - [len(row) for row in rows])
    found = cursor.read()
    cursor.skip(found)
    assert found.tolist() == sizes
    assert cursor.read().tolist() == [1000, 1001, 1002]
    assert cursor.at.tolist() == ends.tolist()


@pytest.mark.parametrize("number", [0, -1, 63, -64, 64, 8191, -8192, 8192, 2**31 - 1, -(2**31)])
def test_a_number_may_end_with_the_buffer(number: int) -> None:
    """``read_varints`` decodes a number that ends at the last byte of the buffer, and the number before it."""
    data = _encoded(5) + _encoded(number)
    numbers, behind = read_varints(np.frombuffer(data, np.uint8), np.array([0, 1]))
    assert numbers.tolist() == [5, number]
    assert behind.tolist() == [1, len(data)]
    assert read_varlong(data, 1) == (number, len(data))


@pytest.mark.parametrize("last", [b"\x80", b"\xff", b"\x80\x80"])
def test_a_number_that_exceeds_the_buffer_is_refused(last: bytes) -> None:
    """A varint whose last byte in the buffer has the continuation bit raises MalformedError."""
    buffer = np.frombuffer(b"\x02" + last, np.uint8)
    with pytest.raises(MalformedError, match="more than 5 bytes"):
        read_varints(buffer, np.array([0, 1]))
    with pytest.raises(MalformedError, match="more than 5 bytes"):
        VarintCursor(buffer, np.array([0, 1])).read()


@pytest.mark.parametrize("buffer", [b"", b"\x02", b"\x02\x04", bytes(9)])
def test_a_number_behind_the_buffer_is_refused(buffer: bytes) -> None:
    """A position at or after the end of the buffer raises IndexError."""
    with pytest.raises(IndexError):
        read_varints(np.frombuffer(buffer, np.uint8), np.array([0, len(buffer)]))
    with pytest.raises(IndexError):
        VarintCursor(np.frombuffer(buffer, np.uint8), np.array([0, len(buffer)])).read()


def test_lanes_stop_at_the_end_of_the_buffer() -> None:
    """If the last batch ends with the buffer, the walk takes no more steps than a batch has records, rounded up to
    :data:`record_lanes._STEPS`.
    """
    records, lanes = 60, 120
    batch = v2([BatchRow(k, 1_700_000_000_000 + k, None, b"v" * (40 + 7 * k % 50)) for k in range(records)])
    buffer = np.frombuffer(batch * lanes, np.uint8)
    lows = np.arange(lanes) * len(batch) + 61
    visited = record_lanes._walk(buffer, lows, lows - 61 + len(batch), records * lanes)
    assert records <= visited.shape[1] <= records + record_lanes._STEPS
