"""Decoding stops, and large batches are divided, where the memory for records is used up."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.kafka.records.compression import expected_room
from flip27_stream.connectors.kafka.records.data_batches import RECORD_COLUMNS_BYTES
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    END,
    GZIP,
    LZ4,
    SOURCE,
    T0,
    BatchRow,
    old,
    rows_of,
    some_rows,
    v2,
)


@pytest.mark.parametrize("headers", [(), (("trace", b"0123456789abcdef"),)])
def test_a_large_batch_is_decoded_in_parts(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    """The parts have about the same size, at most as many bytes as asked for. The offsets lead on if one starts anew
    there.
    """
    rows = some_rows(3, 0) + [BatchRow(i, T0 + i, b"k", b"v" * 900, headers) for i in range(3, 1000)]
    log = v2(rows[:3]) + v2(rows[3:])
    found: list[BatchRow] = []
    sizes: list[int] = []
    some = decode(log, 0, END, source=SOURCE, headers=True, enough=100_000)
    while True:
        found += rows_of(some)
        sizes.append(len(some.records))
        assert some.end == 1000
        again = decode(log, some.next_offset, END, source=SOURCE, headers=True)
        assert rows_of(again) == rows[len(found) :]
        if some.more is None:
            break
        some = some.more()
    assert found == rows
    assert some.next_offset == 1000
    assert len(sizes) > 8
    assert all(70 < size < 100 for size in sizes), sizes


@pytest.mark.parametrize("codec", [0, LZ4])
def test_decoding_stops_at_the_memory_that_small_records_take(codec: int) -> None:
    """Decoding stops at the memory of bytes and columns together: those of small records take more than their bytes."""
    log = b"".join(v2(some_rows(100, base, b""), codec) for base in range(0, 10_000, 100))
    some = decode(log, 0, END, source=SOURCE, enough=1000 * RECORD_COLUMNS_BYTES)
    assert 900 <= some.next_offset <= 1000
    assert len(some.records) == some.next_offset
    assert some.more is None


def test_decoding_stops_at_the_memory_that_old_messages_without_values_take() -> None:
    rows = [[BatchRow(base + i, T0, b"k", None) for i in range(100)] for base in range(0, 10_000, 100)]
    log = b"".join(old(some, 1, GZIP) for some in rows)
    assert 900 <= decode(log, 0, END, source=SOURCE, enough=1000 * RECORD_COLUMNS_BYTES).next_offset <= 1000


def test_a_large_batch_of_small_records_is_divided_by_the_memory_of_their_columns() -> None:
    log = v2(some_rows(10_000, 0, b""))
    some = decode(log, 0, END, source=SOURCE, enough=1000 * RECORD_COLUMNS_BYTES)
    assert 900 <= some.next_offset <= 1250
    assert some.more is not None


def test_a_batch_that_goes_a_little_beyond_the_limit_is_not_divided() -> None:
    log = b"".join(v2(some_rows(10, base), LZ4) for base in range(0, 1000, 10))
    some = decode(log, 0, END, source=SOURCE, enough=12_001)
    assert 50 <= len(some.records) == some.next_offset < 70
    assert some.more is None


def test_room_for_decompressed_batches_is_bounded_by_what_is_decoded_at_once() -> None:
    assert expected_room([1000, 3000]) == 16_000
    assert expected_room([1000] * 1_000_000, enough=20_000) == 24_000


def test_damaged_headers_in_a_later_part_are_an_error() -> None:
    rows = [BatchRow(i, T0 + i, None, b"v" * 900, (("k", b"x"),)) for i in range(1000)]
    log = bytearray(v2(rows))
    log[-2] = 9  # the size of the last header's value
    some = decode(bytes(log), 0, END, source=SOURCE, headers=True, check_crcs=False, enough=50_000)
    with pytest.raises(CorruptRecordError, match=r"at offset 9[0-9]+ of"):
        _to_the_end(some)


def test_damage_in_small_records_with_headers_is_named_by_the_offset_of_its_batch() -> None:
    """The columns of small records take more memory than their bytes; that hides no record from the search."""
    rows = [BatchRow(i, T0 + i, None, b"", (("k", b"x"),)) for i in range(200)]
    log = bytearray(v2(rows[:100]) + v2(rows[100:]))
    log[-2] = 9  # the size of the last header's value
    with pytest.raises(CorruptRecordError, match="at offset 100 of"):
        decode(bytes(log), 0, END, source=SOURCE, headers=True, check_crcs=False)


def _to_the_end(some: DecodedRecords) -> None:
    while some.more is not None:
        some = some.more()
