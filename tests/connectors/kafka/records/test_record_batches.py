"""Record batches (magic 2) decoded into columns have the records that kafka-python reads one by one."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.records.batch_headers import complete_batches
from flip27_stream.connectors.kafka.records.binary_columns import gather
from flip27_stream.connectors.kafka.records.record_batches import batch_headers, decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    CONTROL,
    DELETE_HORIZON,
    END,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    SOURCE,
    T0,
    TRANSACTIONAL,
    BatchRow,
    all_rows,
    batches,
    by_kafka_python,
    old,
    old_rows,
    one_by_one,
    patched,
    rows_of,
    some_rows,
    v2,
    xerial,
)
from tests.support.exploring import examples


@settings(max_examples=examples(180))
@given(batches(), st.lists(st.integers(0, 4), min_size=4, max_size=4), st.data())
def test_rows_are_those_of_kafka_python(
    groups: list[list[BatchRow]], codec_ids: list[int], data: st.DataObject
) -> None:
    """The rows are kafka-python's for any records and codecs, with both ends trimmed, and with
    the last batch cut off.
    """
    plain = b"".join(v2(rows) for rows in groups)
    expected = by_kafka_python(plain)
    assert expected == [row for rows in groups for row in rows]
    assert one_by_one(v2(groups[0])[61:], groups[0], len(groups[0])) == groups[0]
    low = data.draw(st.integers(expected[0].offset - 2, expected[-1].offset + 2))
    high = data.draw(st.integers(low, expected[-1].offset + 2))
    log = b"".join(v2(rows, codec) for rows, codec in zip(groups, codec_ids, strict=False))
    assert all_rows(log) == expected
    assert all_rows(log, low, high) == [row for row in expected if low <= row.offset < high]
    cut = decode(log[:-1], 0, END, source=SOURCE, headers=True)
    assert rows_of(cut) == [row for rows in groups[:-1] for row in rows]
    assert cut.next_offset == (groups[-2][-1].offset + 1 if len(groups) > 1 else 0)


@pytest.mark.parametrize("count", [1, 47, 48, 64, 65, 1025, 9000])
@pytest.mark.parametrize("codec", range(5))
def test_many_records_of_one_size_are_read(count: int, codec: int) -> None:
    """Runs of records of one size are read, also where the varints of offset and time grow."""
    rows = some_rows(count, base=7)
    assert all_rows(v2(rows, codec)) == rows


@pytest.mark.parametrize("size", [100, 20_000])
def test_gaps_between_pieces_are_left_out(size: int) -> None:
    """Large pieces are joined and small ones are gathered, with nulls and empty pieces among them."""
    sizes = np.array([size, -1, 0, size + 1, size // 2])
    at = np.cumsum(np.maximum(sizes, 0) + 7) - np.maximum(sizes, 0)
    buffer = np.random.default_rng(5).integers(0, 256, int(at[-1] + sizes[-1]), np.uint8)
    found = gather(buffer, at, sizes)
    found.validate(full=True)
    pieces = [None if n < 0 else buffer[a : a + n].tobytes() for a, n in zip(at, sizes, strict=True)]
    assert found.to_pylist() == pieces


def test_the_end_and_the_sizes_of_batches_are_those_of_their_headers() -> None:
    """Transaction markers, which are small, do not count for the sizes of batches."""
    marker = patched(v2(some_rows(1, 50)), attributes=0x30)
    log = v2(some_rows(5, 0)) + v2(some_rows(40, 5)) + v2(some_rows(5, 45)) + marker
    for size in range(0, len(log) + 1, 7):
        headers = [header for header in batch_headers(log[:size]) if header.complete]
        end = max((header.last_offset + 1 for header in headers), default=0)
        sizes = [header.size for header in headers if not header.control]
        least, greatest = min(sizes, default=0), max(sizes, default=0)
        total = sum(header.size for header in headers)
        assert complete_batches(memoryview(log)[:size], SOURCE) == (end, total, least, greatest)
    assert complete_batches(log, SOURCE).end == 51


@pytest.mark.parametrize("changes", [{"last_delta": -1}, {"base_offset": -9}])
def test_the_end_of_batches_with_impossible_offsets_is_an_error(changes: dict[str, int]) -> None:
    """Otherwise a reader would wait for the records of this batch up to its time limit."""
    log = v2(some_rows(5, 0)) + patched(v2(some_rows(2, 5)), **changes)
    with pytest.raises(CorruptRecordError, match="last offset is"):
        complete_batches(log, SOURCE)


def test_lengths_of_every_width_are_read() -> None:
    rows = [
        BatchRow(i, T0, b"k" * (size // 3), b"v" * size)
        for i, size in enumerate([0, 55, 63, 64, 8191, 8192, 1 << 20])
    ]
    assert all_rows(v2(rows)) == rows


def test_memoryviews_and_unaligned_bytes_are_read() -> None:
    rows = some_rows(200)
    data = b"abc" + v2(rows)
    assert rows_of(decode(memoryview(data)[3:], 0, END, source=SOURCE, headers=True)) == rows


def test_snappy_frames_of_java_are_read() -> None:
    rows = some_rows(100)
    plain = v2(rows)
    framed = patched(plain, attributes=SNAPPY, records=xerial(plain[61:]))
    assert all_rows(framed) == rows
    cut = patched(plain, attributes=SNAPPY, records=xerial(plain[61:])[:-3])
    with pytest.raises(CorruptRecordError, match="snappy"):
        all_rows(cut)


def test_columns_not_asked_for_are_none() -> None:
    records = decode(v2(some_rows(3)), 0, END, source=SOURCE, keys=False, values=False).records
    assert (records.keys, records.values, records.headers) == (None, None, None)
    assert len(records) == 3


@pytest.mark.parametrize("data", [b"", b"\x00" * 11, v2(some_rows(5))[:70]])
def test_no_complete_batch_leaves_the_position(data: bytes) -> None:
    decoded = decode(data, 5, 9, source=SOURCE, headers=True)
    assert rows_of(decoded) == []
    assert decoded.next_offset == 5
    assert decoded.records.values is not None
    assert decoded.records.values.type == pa.binary()


def test_headers_are_null_where_a_record_has_none() -> None:
    """The column of headers is null for a record without headers, as in Spark's own source."""
    rows = [BatchRow(0, T0, None, b"a"), BatchRow(1, T0, None, b"b", (("k", None), ("k", b""), ("k", b"2")))]
    headers = decode(v2(rows), 0, END, source=SOURCE, headers=True).records.headers
    assert headers is not None
    assert headers.to_pylist() == [
        None,
        [{"key": "k", "value": None}, {"key": "k", "value": b""}, {"key": "k", "value": b"2"}],
    ]


def test_many_headers_are_read() -> None:
    """More records have headers, and one record has more headers, than one of the ways to read them allows."""
    many = tuple((f"h{i}", b"%d" % i) for i in range(300))
    rows = [BatchRow(i, T0, None, b"v", many if i == 40 else many[: i % 5]) for i in range(100)]
    assert all_rows(v2(rows)) == rows


def test_a_header_key_that_is_not_utf8_has_replacement_characters() -> None:
    """A header key that is not UTF-8 has U+FFFD in it, as in Kafka's own client."""
    batch = v2([BatchRow(0, T0, None, b"v", (("key!", b"1"),))])
    broken = patched(batch, records=batch[61:].replace(b"key!", b"key\xff"))
    assert all_rows(broken) == [BatchRow(0, T0, None, b"v", (("key\ufffd", b"1"),))]


def test_log_append_time_is_that_of_the_header() -> None:
    """A batch with LogAppendTime has one time, in its header. The other batch keeps its producer's times."""
    log = v2(some_rows(3), attributes=LOG_APPEND_TIME, max_timestamp=T0 + 99) + v2(some_rows(2, base=3))
    records = decode(log, 0, END, source=SOURCE).records
    assert records.timestamps.tolist() == [T0 + 99] * 3 + [T0, T0 + 1]
    assert records.timestamp_types.tolist() == [1, 1, 1, 0, 0]
    assert records.timestamp_types.dtype == np.int32


def test_delete_horizon_is_the_base_of_the_deltas() -> None:
    """KIP-534 keeps the delete horizon in the base timestamp, and writes the deltas relative to it. Reading
    needs no other rule.
    """
    rows = [BatchRow(0, T0 + 500, b"k", None), BatchRow(1, T0 - 500, b"k", None)]
    assert all_rows(v2(rows, attributes=DELETE_HORIZON)) == rows


def test_timestamps_wrap_as_in_kafka() -> None:
    """A delta that fits 64 bits only by wrapping gives the time that the producer set."""
    batch = v2([BatchRow(0, 2**62, None, b"")], base_timestamp=-(2**62))
    grown = bytearray(batch[61:])
    assert grown[:3] == bytes([12, 0, 0])
    delta = bytes([0xFF] * 9 + [0x01])  # the least number, -2**63
    wrapped = patched(batch, base_timestamp=-5, records=bytes([12 + 18, 0]) + delta + bytes(grown[3:]))
    assert decode(wrapped, 0, END, source=SOURCE).records.timestamps.tolist() == [2**63 - 5]


# Transactions: I12, markers and aborted records are no data


def marker(offset: int, producer: int, kind: int) -> bytes:
    row = BatchRow(offset, T0 + 10**9, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return v2([row], attributes=TRANSACTIONAL | CONTROL, producer=producer)


def in_transaction(offset: int, producer: int, codec: int = 0) -> bytes:
    return v2(some_rows(2, offset), codec, TRANSACTIONAL, producer)


def transactional_log() -> bytes:
    """Returns a log: producer 7 aborts 0..1 and 5..6, then commits 9..10; producer 8 commits 2..3, producer
    9 writes 12 plainly.
    """
    return b"".join([
        in_transaction(0, 7), in_transaction(2, 8, LZ4), marker(4, 8, 1), in_transaction(5, 7), marker(7, 7, 0),
        v2([BatchRow(8, T0, None, b"p")]), in_transaction(9, 7), marker(11, 7, 1), v2(some_rows(1, 12), producer=9),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("aborted", "expected"),
    [
        (None, [0, 1, 2, 3, 5, 6, 8, 9, 10, 12]),
        ([], [0, 1, 2, 3, 5, 6, 8, 9, 10, 12]),
        ([(7, 0)], [2, 3, 8, 9, 10, 12]),
        ([(7, 9), (7, 0)], [2, 3, 8, 12]),
        ([(8, 2), (9, 12)], [0, 1, 5, 6, 8, 9, 10, 12]),
    ],
)
def test_records_of_aborted_transactions_are_left_out(
    aborted: list[tuple[int, int]] | None, expected: list[int]
) -> None:
    """I12: markers are never rows. Aborted records are rows of read_uncommitted only, and plain records of a
    producer always are.
    """
    decoded = decode(transactional_log(), 0, END, source=SOURCE, aborted=aborted)
    assert decoded.records.offsets.tolist() == expected
    assert decoded.next_offset == 13


def test_a_transaction_that_began_before_the_fetch_is_left_out() -> None:
    assert (
        decode(in_transaction(5, 7) + marker(7, 7, 0), 5, END, source=SOURCE, aborted=[(7, 1)]).next_offset
        == 8
    )


def test_marker_without_a_type_is_corrupt() -> None:
    bad = v2([BatchRow(7, T0, b"x", b"")], attributes=TRANSACTIONAL | CONTROL, producer=7)
    with pytest.raises(CorruptRecordError, match=f"offset 7 of {SOURCE}: a transaction marker"):
        decode(bad, 0, END, source=SOURCE, aborted=[(7, 1)])


def test_next_offset_goes_behind_batches_without_data() -> None:
    """I12: batches of markers, and batches that compaction emptied, move the position, but not beyond ``stop``."""
    empty = patched(v2(some_rows(5, 20)), records=b"", count=0)
    log = v2(some_rows(2, 10)) + marker(12, 1, 1) + empty
    assert decode(log, 0, END, source=SOURCE).next_offset == 25
    assert decode(log, 12, 22, source=SOURCE).next_offset == 22
    assert decode(log, 11, 12, source=SOURCE).next_offset == 12
    assert decode(log, 13, 15, source=SOURCE).next_offset == 15
    assert decode(empty, 30, 40, source=SOURCE).next_offset == 30


# Header scan


def test_batch_headers_of_truncated_bytes_are_read() -> None:
    """Planning fetches little data. The headers are known as soon as the 61 bytes of a batch's header are there."""
    first = v2(some_rows(3, 5), LZ4, LOG_APPEND_TIME, max_timestamp=T0 + 9)
    second = v2(some_rows(4, 10), 0, TRANSACTIONAL | CONTROL, producer=77)
    one, two = batch_headers(first + second[:61])
    assert (one.base_offset, one.last_offset, one.record_count, one.complete) == (5, 7, 3, True)
    assert (one.codec, one.log_append_time, one.control, one.transactional) == (LZ4, True, False, False)
    assert (one.base_timestamp, one.max_timestamp, one.producer_id, one.magic) == (T0, T0 + 9, -1, 2)
    assert (two.position, two.size, two.complete) == (len(first), len(second), False)
    assert (two.base_offset, two.last_offset, two.max_timestamp) == (10, 13, T0 + 3)
    assert (two.control, two.transactional, two.producer_id) == (True, True, 77)
    assert len(list(batch_headers(first + second[:60]))) == 1
    assert list(batch_headers(b"")) == []


def test_batch_headers_of_old_formats_are_read() -> None:
    zero, one = batch_headers(old([BatchRow(3, -1, None, b"v")], 0) + old(old_rows(1), 1, GZIP))
    assert (zero.base_offset, zero.last_offset, zero.max_timestamp, zero.codec) == (3, 3, -1, 0)
    assert (one.last_offset, one.max_timestamp, one.codec, one.complete) == (9, T0 + 1, GZIP, True)
