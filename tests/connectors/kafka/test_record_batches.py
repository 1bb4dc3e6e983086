"""Columns out of record batches: they equal what kafka-python reads record by record, or decoding fails with a clear error."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import decode_varint

from flip27_stream.connectors.kafka import compression, legacy
from flip27_stream.connectors.kafka.record_batches import Decoded, batch_headers, decode
from flip27_stream.errors import CorruptRecordError

SOURCE = "partition 3 of topic clicks"
T0 = 1_700_000_000_000
END = 2**62
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


class Row(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def v2(rows: Sequence[Row], codec: int = 0, attributes: int = 0, producer: int = -1, **changes: Any) -> bytes:
    """A batch of these rows as a broker keeps it."""
    base = rows[0].offset
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0, 0, 1 << 30)
    for row in rows:
        builder.append(row.offset - base, row.timestamp, row.key, row.value, list(row.headers))
    return patched(builder.build(), base_offset=base, codec=codec, attributes=attributes, **changes)


def patched(
    batch: bytes | bytearray, *, base_offset: int | None = None, codec: int = 0, attributes: int = 0, **changes: Any
) -> bytes:
    """An uncompressed batch with other header fields, its records compressed, and its checksum made to fit."""
    records = compressed(changes.pop("records", bytes(batch[61:])), codec)
    header = bytearray(batch[:61])
    struct.pack_into(">i", header, 8, 49 + len(records))
    struct.pack_into(">h", header, 21, attributes | codec)
    if base_offset is not None:
        struct.pack_into(">q", header, 0, base_offset)
    fields = {"last_delta": (">i", 23), "base_timestamp": (">q", 27), "max_timestamp": (">q", 35), "count": (">i", 57)}
    for name, value in changes.items():
        struct.pack_into(fields[name][0], header, fields[name][1], value)
    struct.pack_into(">I", header, 17, crc32c(bytes(header[21:]) + records))
    return bytes(header) + records


def compressed(data: bytes, codec: int) -> bytes:
    modules: list[Any] = [None, cramjam.gzip, None, cramjam.lz4, cramjam.zstd]
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    return bytes(modules[codec].compress(data)) if codec else data


def xerial(data: bytes) -> bytes:
    """Snappy as Java's client frames it."""
    blocks = [bytes(cramjam.snappy.compress_raw(data[i : i + 700])) for i in range(0, len(data), 700)]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def rows_of(decoded: Decoded) -> list[Row]:
    records = decoded.records
    assert records.keys is not None and records.values is not None and records.headers is not None
    for column in (records.keys, records.values, records.headers):
        column.validate(full=True)
        assert len(column) == len(records)
    headers = [tuple((h["key"], h["value"]) for h in each or ()) for each in records.headers.to_pylist()]
    columns = records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_pylist()
    return [Row(*each) for each in zip(*columns, records.values.to_pylist(), headers)]


def all_rows(data: bytes, start: int = 0, stop: int = END, **options: Any) -> list[Row]:
    return rows_of(decode(data, start, stop, source=SOURCE, headers=True, **options))


def by_kafka_python(data: bytes) -> list[Row]:
    found = []
    for batch in MemoryRecords(data):
        for record in batch:
            found.append(Row(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)))
    return found


def one_by_one(records: bytes, rows: list[Row], count: int) -> list[Row]:
    """What kafka-python should read; it takes the attributes for a varint and refuses header keys that aren't text."""
    at, found = 0, []

    def piece() -> bytes | None:
        nonlocal at
        size, at = decode_varint(records, at)
        at += max(size, 0)
        assert at <= len(records)
        return records[at - size : at] if size >= 0 else None

    for _ in range(count):
        size, at = decode_varint(records, at)
        end = at + size
        time, at = decode_varint(records, at + 1)
        delta, at = decode_varint(records, at)
        key, value = piece(), piece()
        header_count, at = decode_varint(records, at)
        headers = tuple(((piece() or b"").decode(errors="replace"), piece()) for _ in range(header_count))
        assert at == end and header_count >= 0
        time = (rows[0].timestamp + time + 2**63) % 2**64 - 2**63
        found.append(Row(rows[0].offset + delta, time, key, value, headers))
    assert at == len(records)
    return found


def some_rows(count: int, base: int = 0, value: bytes = b"v" * 100) -> list[Row]:
    return [Row(base + i, T0 + i, None, value) for i in range(count)]


blobs = st.none() | st.binary(max_size=12) | st.integers(50, 300).map(lambda size: b"x" * size)
header_lists = st.lists(st.tuples(st.sampled_from(["", "a", "é", "trace"]), blobs), max_size=4).map(tuple)
times = st.integers(T0 - 100, T0 + 10_000) | st.integers(-1, 2**61)


@st.composite
def batches(draw: st.DrawFn, most_rows: int = 90) -> list[list[Row]]:
    """Batches with gaps within and between them, runs of records of one size among others."""
    offset, found = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(1, 5))):
            key, value, headers, time = draw(blobs), draw(blobs), draw(header_lists), draw(times)
            for i in range(draw(st.integers(1, most_rows))):
                offset += 1 + draw(st.integers(0, 200)) * (i == 0)
                rows.append(Row(offset, time + i, key, value, headers))
        found.append(rows)
    return found


@settings(max_examples=60, deadline=None)
@given(batches(), st.lists(st.integers(0, 4), min_size=4, max_size=4), st.data())
def test_equals_kafka_python(groups: list[list[Row]], codecs: list[int], data: st.DataObject) -> None:
    """Any records, any codecs side by side, trimmed at both ends, the last batch cut off."""
    plain = b"".join(v2(rows) for rows in groups)
    expected = by_kafka_python(plain)
    assert expected == [row for rows in groups for row in rows]
    assert one_by_one(v2(groups[0])[61:], groups[0], len(groups[0])) == groups[0]
    low = data.draw(st.integers(expected[0].offset - 2, expected[-1].offset + 2))
    high = data.draw(st.integers(low, expected[-1].offset + 2))
    encoded = [v2(rows, codec) for rows, codec in zip(groups, codecs)]
    log = b"".join(encoded)
    assert all_rows(log) == expected
    assert all_rows(log, low, high) == [row for row in expected if low <= row.offset < high]
    cut = decode(log[:-1], 0, END, source=SOURCE, headers=True)
    assert rows_of(cut) == [row for rows in groups[:-1] for row in rows]
    assert cut.next_offset == (groups[-2][-1].offset + 1 if len(groups) > 1 else 0)


@pytest.mark.parametrize("count", [1, 47, 48, 64, 65, 1025, 9000])
@pytest.mark.parametrize("codec", range(5))
def test_many_records_of_one_size(count: int, codec: int) -> None:
    """Runs of equal records, broken where the varints of offset and time grow."""
    rows = some_rows(count, base=7)
    assert all_rows(v2(rows, codec)) == rows


def test_lengths_of_every_width() -> None:
    rows = [Row(i, T0, b"k" * (size // 3), b"v" * size) for i, size in enumerate([0, 55, 63, 64, 8191, 8192, 1 << 20])]
    assert all_rows(v2(rows)) == rows


def test_memoryview_and_unaligned_input() -> None:
    rows = some_rows(200)
    data = b"abc" + v2(rows)
    assert rows_of(decode(memoryview(data)[3:], 0, END, source=SOURCE, headers=True)) == rows


def test_xerial_snappy() -> None:
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
    assert rows_of(decoded) == [] and decoded.next_offset == 5
    assert decoded.records.values is not None and decoded.records.values.type == pa.binary()


def test_headers_are_null_where_a_record_has_none() -> None:
    """As in Spark's own source."""
    rows = [Row(0, T0, None, b"a"), Row(1, T0, None, b"b", (("k", None), ("k", b""), ("k", b"2")))]
    headers = decode(v2(rows), 0, END, source=SOURCE, headers=True).records.headers
    assert headers is not None and headers.to_pylist() == [
        None,
        [{"key": "k", "value": None}, {"key": "k", "value": b""}, {"key": "k", "value": b"2"}],
    ]


def test_many_headers() -> None:
    """More records with headers, and more headers in one record, than one way of reading them takes."""
    many = tuple((f"h{i}", b"%d" % i) for i in range(300))
    rows = [Row(i, T0, None, b"v", many if i == 40 else many[: i % 5]) for i in range(100)]
    assert all_rows(v2(rows)) == rows


def test_header_key_that_is_no_text() -> None:
    """Kafka's own client puts U+FFFD where a key isn't UTF-8."""
    batch = v2([Row(0, T0, None, b"v", (("key!", b"1"),))])
    broken = patched(batch, records=batch[61:].replace(b"key!", b"key\xff"))
    assert all_rows(broken) == [Row(0, T0, None, b"v", (("key\ufffd", b"1"),))]


def test_log_append_time() -> None:
    """The broker's time stands once, in the header; the other batch keeps its producer's times."""
    log = v2(some_rows(3), attributes=LOG_APPEND_TIME, max_timestamp=T0 + 99) + v2(some_rows(2, base=3))
    records = decode(log, 0, END, source=SOURCE).records
    assert records.timestamps.tolist() == [T0 + 99] * 3 + [T0, T0 + 1]
    assert records.timestamp_types.tolist() == [1, 1, 1, 0, 0]
    assert records.timestamp_types.dtype == np.int32


def test_delete_horizon_is_the_base_of_the_deltas() -> None:
    """KIP-534 keeps the horizon in the base timestamp and writes the deltas for it: no other rule for reading."""
    rows = [Row(0, T0 + 500, b"k", None), Row(1, T0 - 500, b"k", None)]
    assert all_rows(v2(rows, attributes=DELETE_HORIZON)) == rows


def test_timestamps_wrap_as_in_kafka() -> None:
    """A delta that only fits 64 bits by wrapping gives the time that the producer set."""
    batch = v2([Row(0, 2**62, None, b"")], base_timestamp=-(2**62))
    grown = bytearray(batch[61:])
    assert grown[:3] == bytes([12, 0, 0])
    delta = bytes([0xFF] * 9 + [0x01])  # the least of all, -2**63
    wrapped = patched(batch, base_timestamp=-5, records=bytes([12 + 18, 0]) + delta + bytes(grown[3:]))
    assert decode(wrapped, 0, END, source=SOURCE).records.timestamps.tolist() == [2**63 - 5]


# Transactions: I12, markers and aborted records are no data


def marker(offset: int, producer: int, kind: int) -> bytes:
    row = Row(offset, T0 + 10**9, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return v2([row], attributes=TRANSACTIONAL | CONTROL, producer=producer)


def in_transaction(offset: int, producer: int, codec: int = 0) -> bytes:
    return v2(some_rows(2, offset), codec, TRANSACTIONAL, producer)


def transactional_log() -> bytes:
    """Producer 7 aborts 0..1 and 5..6, then commits 9..10; producer 8 commits 2..3, producer 9 writes plainly at 12."""
    return b"".join([
        in_transaction(0, 7), in_transaction(2, 8, LZ4), marker(4, 8, 1), in_transaction(5, 7), marker(7, 7, 0),
        v2([Row(8, T0, None, b"p")]), in_transaction(9, 7), marker(11, 7, 1), v2(some_rows(1, 12), producer=9),
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
def test_aborted_transactions(aborted: list[tuple[int, int]] | None, expected: list[int]) -> None:
    """I12: markers never show, aborted records only when read_uncommitted asks; plain records of a producer always."""
    decoded = decode(transactional_log(), 0, END, source=SOURCE, aborted=aborted)
    assert decoded.records.offsets.tolist() == expected
    assert decoded.next_offset == 13


def test_transaction_that_began_before_the_fetch() -> None:
    assert decode(in_transaction(5, 7) + marker(7, 7, 0), 5, END, source=SOURCE, aborted=[(7, 1)]).next_offset == 8


def test_marker_without_a_type_is_corrupt() -> None:
    bad = v2([Row(7, T0, b"x", b"")], attributes=TRANSACTIONAL | CONTROL, producer=7)
    with pytest.raises(CorruptRecordError, match=f"offset 7 of {SOURCE}: a transaction marker"):
        decode(bad, 0, END, source=SOURCE, aborted=[(7, 1)])


def test_next_offset_goes_behind_batches_without_data() -> None:
    """I12: a tail of markers and of batches emptied by compaction moves the position, but not beyond ``stop``."""
    empty = patched(v2(some_rows(5, 20)), records=b"", count=0)
    log = v2(some_rows(2, 10)) + marker(12, 1, 1) + empty
    assert decode(log, 0, END, source=SOURCE).next_offset == 25
    assert decode(log, 12, 22, source=SOURCE).next_offset == 22
    assert decode(log, 11, 12, source=SOURCE).next_offset == 12
    assert decode(log, 13, 15, source=SOURCE).next_offset == 15
    assert decode(empty, 30, 40, source=SOURCE).next_offset == 30


# Formats before record batches


def old(rows: Sequence[Row], magic: int, codec: int = 0) -> bytes:
    """Messages, or with a codec one message with the others in it (KIP-31: relative offsets in magic 1)."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 30)
    shift = rows[0].offset if codec and magic else 0
    for row in rows:
        builder.append(row.offset - shift, row.timestamp, row.key, row.value)
    plain = bytes(builder.build())
    if not codec:
        return plain
    inner = xerial(plain) if codec == SNAPPY else compressed(plain, codec)
    return wrapper(rows[-1].offset, magic, codec, inner, max(row.timestamp for row in rows))


def wrapper(offset: int, magic: int, attributes: int, inner: bytes, time: int) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    body += struct.pack(">ii", -1, len(inner)) + inner
    crc = legacy.zlib.crc32(body)
    return struct.pack(">qiI", offset, 4 + len(body), crc) + body


def old_rows(magic: int) -> list[Row]:
    rows = [Row(5, T0, b"k", b"v" * 50), Row(6, T0 - 3, None, b""), Row(9, T0 + 1, b"", None)]
    return [row._replace(timestamp=row.timestamp if magic else -1) for row in rows]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4])
def test_old_formats(magic: int, codec: int) -> None:
    """Among record batches, too, as in a topic that lived through an upgrade."""
    rows = old_rows(magic)
    log = old(rows, magic, codec) + v2(some_rows(2, 10)) + old([Row(20, T0, None, b"z")], 1)
    if codec in (0, GZIP):
        assert [row._replace(timestamp=row.timestamp or -1) for row in by_kafka_python(old(rows, magic, codec))] == rows
    assert all_rows(log) == [*rows, *some_rows(2, 10), Row(20, T0, None, b"z")]
    assert all_rows(log, 6, 10) == rows[1:]
    decoded = decode(log, 0, 6, source=SOURCE)
    assert decoded.next_offset == 6 and decoded.records.timestamp_types.tolist() == [0 if magic else -1]


def test_old_format_with_log_append_time() -> None:
    inner = bytes(compressed(old([row._replace(offset=i) for i, row in enumerate(old_rows(1))], 1), GZIP))
    records = decode(wrapper(9, 1, GZIP | LOG_APPEND_TIME, inner, T0 + 77), 0, END, source=SOURCE).records
    assert records.offsets.tolist() == [7, 8, 9]
    assert records.timestamps.tolist() == [T0 + 77] * 3 and records.timestamp_types.tolist() == [1] * 3


def test_lz4_frame_of_clients_before_0_10() -> None:
    """KIP-57: they took the checksum over the magic number as well; the frame's own one proves our arithmetic."""
    rows = old_rows(0)
    frame = compressed(old(rows, 0), LZ4)
    size = 14 if frame[4] & 8 else 6
    assert legacy._xxh32(frame[4:size]) >> 8 & 0xFF == frame[size]
    wrong = frame[:size] + bytes([legacy._xxh32(frame[:size]) >> 8 & 0xFF]) + frame[size + 1 :]
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
def test_old_format_damaged_within(inner: bytes) -> None:
    with pytest.raises(CorruptRecordError, match=f"offset 9 of {SOURCE}"):
        all_rows(wrapper(9, 1, GZIP, compressed(inner, GZIP), T0))


# Damage


def test_checksum_is_checked_unless_told_otherwise() -> None:
    batch = bytearray(v2(some_rows(2, 40)))
    batch[-10] ^= 1
    with pytest.raises(CorruptRecordError, match=f"offset 40 of {SOURCE}: its checksum") as caught:
        all_rows(bytes(batch))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert len(all_rows(bytes(batch), check_crcs=False)) == 2


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"count": 2**31 - 1}, "2147483647 records can't be in"),
        ({"count": -1}, "record count of -1"),
        ({"count": 1}, "lengths contradict"),
        ({"count": 3}, "leaves its batch|contradict|bytes are left"),
        ({"last_delta": 0}, "don't rise"),
        ({"last_delta": -1}, "last offset is 99"),
        ({"attributes": 5}, "unknown compression codec 5"),
        ({"attributes": ZSTD}, "zstd data is damaged"),
        ({"attributes": LZ4}, "lz4 data is damaged"),
        ({"attributes": GZIP}, "gzip data is damaged"),
        ({"attributes": SNAPPY}, "snappy data is damaged"),
        ({"records": bytes([12, 0, 0, 0, 1, 1, 1]) * 2}, "header|fields"),
        ({"records": bytes([12, 0, 0, 0, 1, 1, 0]) * 2}, "don't rise"),
        ({"records": b"\xff" * 40}, "more than 5 bytes"),
        ({"records": bytes([11, 0, 0, 0, 1, 1, 0]) * 2}, "contradict"),
    ],
)
def test_damage_is_named(changes: dict[str, Any], wrong: str) -> None:
    """A checksum that fits does not make a batch right; the batch before it is not to blame."""
    log = v2(some_rows(90)) + patched(v2(some_rows(2, 100)), **changes)
    with pytest.raises(CorruptRecordError, match=f"offset 100 of {SOURCE}.*({wrong})"):
        all_rows(log)


def test_unknown_magic_and_impossible_size() -> None:
    batch = bytearray(v2(some_rows(2, 100)))
    batch[16] = 3
    with pytest.raises(CorruptRecordError, match="unknown magic 3"):
        all_rows(bytes(batch))
    batch[16] = 2
    struct.pack_into(">i", batch, 8, 10)
    with pytest.raises(CorruptRecordError, match="size of 22 bytes"):
        all_rows(bytes(batch))


def test_batches_out_of_order() -> None:
    with pytest.raises(CorruptRecordError, match="offset 4 .*ends at offset 4"):
        all_rows(v2(some_rows(5)) + v2(some_rows(1, 4)))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_decompression_is_bounded(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch that grows too far is refused; several that do so together are left for the next fetch."""
    monkeypatch.setattr(compression, "LARGEST_BATCH", 1 << 20)
    monkeypatch.setattr("flip27_stream.connectors.kafka.record_batches.LARGEST_BATCH", 1 << 20)
    with pytest.raises(CorruptRecordError, match="larger than 1048576 bytes"):
        all_rows(v2([Row(0, T0, None, bytes(2 << 20))], codec))
    rows = [Row(i, T0, None, bytes(700_000)) for i in range(5)]
    log = b"".join(v2([row], codec) for row in rows)
    decoded = decode(log, 0, END, source=SOURCE, headers=True)
    assert rows_of(decoded) == rows[:2] and decoded.next_offset == 2
    assert all_rows(log, 2) == rows[2:4]


@settings(max_examples=300, deadline=None)
@given(batches(most_rows=50), st.data())
def test_damaged_bytes(groups: list[list[Row]], data: st.DataObject) -> None:
    """Where the checksum can't help (it is made to fit), the rows are what is there, or there is an error; never a crash."""
    rows = groups[0]
    batch = v2(rows)
    records = bytearray(batch[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(records) - 1, 400)))
        records[at] = data.draw(st.integers(0, 255))
    codec = data.draw(st.sampled_from([0, GZIP, ZSTD]))
    mutated = patched(batch, base_offset=rows[0].offset, codec=codec, records=bytes(records))
    try:
        found = all_rows(mutated)
    except CorruptRecordError:
        return
    assert found == one_by_one(bytes(records), rows, len(rows))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 4), st.integers(0, 40))
def test_random_bytes(records: bytes, codec: int, count: int) -> None:
    """Bytes that never were records, compressed or not: an error, or they happen to be records."""
    batch = v2(some_rows(1))
    log = patched(batch, codec=codec, records=records, count=count, last_delta=2**31 - 1)
    try:
        found = all_rows(log)
    except CorruptRecordError:
        return
    assert not count or found == one_by_one(records, some_rows(1), count)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise(noise: bytes) -> None:
    for check in (True, False):
        try:
            decode(noise, 0, END, source=SOURCE, aborted=[(0, 0)], headers=True, check_crcs=check)
        except CorruptRecordError:
            pass


# Header scan


def test_batch_headers_of_truncated_data() -> None:
    """Planning fetches little: all that a header says is known as soon as its 61 bytes are there."""
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


def test_batch_headers_of_old_formats() -> None:
    zero, one = batch_headers(old([Row(3, -1, None, b"v")], 0) + old(old_rows(1), 1, GZIP))
    assert (zero.base_offset, zero.last_offset, zero.max_timestamp, zero.codec) == (3, 3, -1, 0)
    assert (one.last_offset, one.max_timestamp, one.codec, one.complete) == (9, T0 + 1, GZIP, True)
