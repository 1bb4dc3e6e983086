"""Makes record batches as bytes with kafka-python's builders and codecs, and reads their rows."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from crc32c import crc32c
from hypothesis import strategies as st
from kafka import codec as codecs
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import decode_varint

from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode

SOURCE = "partition 3 of topic clicks"
T0 = 1_700_000_000_000
END = 2**62
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


class BatchRow(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def v2(
    rows: Sequence[BatchRow], codec: int = 0, attributes: int = 0, producer: int = -1, **changes: Any
) -> bytes:
    """Returns a batch of these rows in the form in which a broker stores it."""
    base = rows[0].offset
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0, 0, 1 << 30)
    for row in rows:
        builder.append(row.offset - base, row.timestamp, row.key, row.value, list(row.headers))
    return patched(builder.build(), base_offset=base, codec=codec, attributes=attributes, **changes)


def patched(
    batch: bytes | bytearray,
    *,
    base_offset: int | None = None,
    codec: int = 0,
    attributes: int = 0,
    **changes: Any,
) -> bytes:
    """Returns an uncompressed batch with other header fields, compressed records and a correct checksum."""
    records = compressed(changes.pop("records", bytes(batch[61:])), codec)
    header = bytearray(batch[:61])
    struct.pack_into(">i", header, 8, 49 + len(records))
    struct.pack_into(">h", header, 21, attributes | codec)
    if base_offset is not None:
        struct.pack_into(">q", header, 0, base_offset)
    fields = {
        "last_delta": (">i", 23),
        "base_timestamp": (">q", 27),
        "max_timestamp": (">q", 35),
        "count": (">i", 57),
    }
    for name, value in changes.items():
        struct.pack_into(fields[name][0], header, fields[name][1], value)
    struct.pack_into(">I", header, 17, crc32c(bytes(header[21:]) + records))
    return bytes(header) + records


def compressed(data: bytes, codec: int) -> bytes:
    encoders = (bytes, timeless_gzip, raw_snappy, codecs.lz4_encode, codecs.zstd_encode)
    return bytes(encoders[codec](data))


def timeless_gzip(data: bytes) -> bytes:
    """Returns data in gzip without the time, so that the same data always gives the same bytes."""
    return gzip.compress(data, mtime=0)


def raw_snappy(data: bytes) -> bytes:
    """Returns data in Snappy, in librdkafka's form."""
    return bytes(codecs.snappy_encode(data, xerial_compatible=False))


def xerial(data: bytes) -> bytes:
    """Returns data in Snappy, in the framed form of Java's client."""
    return bytes(codecs.snappy_encode(data, xerial_blocksize=700))


def rows_of(decoded: DecodedRecords) -> list[BatchRow]:
    records = decoded.records
    assert records.keys is not None
    assert records.values is not None
    assert records.headers is not None
    for column in (records.keys, records.values, records.headers):
        column.validate(full=True)
        assert len(column) == len(records)
    headers = [tuple((h["key"], h["value"]) for h in each or ()) for each in records.headers.to_pylist()]
    columns = records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_pylist()
    return [BatchRow(*each) for each in zip(*columns, records.values.to_pylist(), headers, strict=True)]


def all_rows(data: bytes, start: int = 0, stop: int = END, **options: Any) -> list[BatchRow]:
    return rows_of(decode(data, start, stop, source=SOURCE, headers=True, **options))


def by_kafka_python(data: bytes) -> list[BatchRow]:
    return [
        BatchRow(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for batch in MemoryRecords(data)
        for record in batch
    ]


def one_by_one(records: bytes, rows: list[BatchRow], count: int) -> list[BatchRow]:
    """Returns the rows that kafka-python should read.

    kafka-python reads the attributes of a record as a varint, and refuses header keys that are not text.
    """
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
        assert at == end
        assert header_count >= 0
        time = (rows[0].timestamp + time + 2**63) % 2**64 - 2**63
        found.append(BatchRow(rows[0].offset + delta, time, key, value, headers))
    assert at == len(records)
    return found


def some_rows(count: int, base: int = 0, value: bytes = b"v" * 100) -> list[BatchRow]:
    return [BatchRow(base + i, T0 + i, None, value) for i in range(count)]


def old(rows: Sequence[BatchRow], magic: int, codec: int = 0) -> bytes:
    """Returns messages, or with a codec one message that contains them (KIP-31: relative offsets in magic 1)."""
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
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def old_rows(magic: int) -> list[BatchRow]:
    rows = [BatchRow(5, T0, b"k", b"v" * 50), BatchRow(6, T0 - 3, None, b""), BatchRow(9, T0 + 1, b"", None)]
    return [row._replace(timestamp=row.timestamp if magic else -1) for row in rows]


blobs = st.none() | st.binary(max_size=12) | st.integers(50, 300).map(lambda size: b"x" * size)
header_lists = st.lists(st.tuples(st.sampled_from(["", "a", "é", "trace"]), blobs), max_size=4).map(tuple)
times = st.integers(T0 - 100, T0 + 10_000) | st.integers(-1, 2**61)


@st.composite
def batches(draw: st.DrawFn, most_rows: int = 90) -> list[list[BatchRow]]:
    """Draws batches with gaps within and between them, and with runs of records of one size."""
    offset, found = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(1, 5))):
            key, value, headers, time = draw(blobs), draw(blobs), draw(header_lists), draw(times)
            for i in range(draw(st.integers(1, most_rows))):
                offset += 1 + draw(st.integers(0, 200)) * (i == 0)
                rows.append(BatchRow(offset, time + i, key, value, headers))
        found.append(rows)
    return found
