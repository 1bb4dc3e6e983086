"""Mutated record batches: the decoder's rows are kafka-python's, or it raises CorruptRecordError.

Never wrong rows, a hang, a crash, or memory that the bytes at hand don't justify. ``FLIP27_EXPLORE=1`` looks at other
examples with each run.
"""

from __future__ import annotations

import gzip
import resource
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from kafka.errors import CorruptRecordError as TheirCorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from flip27_stream.connectors.kafka import compression, record_batches, record_headers, record_starts
from flip27_stream.connectors.kafka.record_batches import Decoded, decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.batch_bytes import (
    END,
    GZIP,
    LZ4,
    SNAPPY,
    SOURCE,
    ZSTD,
    Row,
    rows_of,
    some_rows,
    v2,
)
from tests.connectors.kafka.damage import logs, old_logs, sealed
from tests.exploring import examples

_MORE_MEMORY = 4 << 30


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory() -> Iterator[None]:
    """Whoever wants far more than the bytes at hand justify gets a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MORE_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST_BATCH", 8 << 20)
    monkeypatch.setattr(record_batches, "LARGEST_BATCH", 8 << 20)


@pytest.fixture(params=["few", "many"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder has other ways for many records, which a few here and there are sent now."""
    if request.param == "many":
        monkeypatch.setattr(record_starts, "_MANY", 1)
        monkeypatch.setattr(record_starts, "_FEWEST_RUNS", 3)
        monkeypatch.setattr(record_starts, "_SHORT_RUN", 2)
        monkeypatch.setattr(record_starts, "_CHUNK", 32)
        monkeypatch.setattr(record_headers, "_FEW_RECORDS", 1)


def by_kafka_python(log: bytes, start: int, stop: int) -> list[Row]:
    """Its rows, times as Java adds them; where it can't read what Java can, those of :func:`as_java`."""
    found: list[Row] = []
    records = MemoryRecords(log)
    reached = start
    while reached < stop and (batch := records.next_batch()) is not None and batch.base_offset < stop:
        reached = batch.last_offset + 1 if isinstance(batch, DefaultRecordBatch) else batch.base_offset + 1
        if reached <= start:
            continue  # nobody looks into what comes before
        if not isinstance(batch, DefaultRecordBatch):
            found += [_row(record, ()) for record in batch]
        elif not batch.is_control_batch:
            found += _rows_of_batch(batch, start, stop)
    return [row for row in found if start <= row.offset < stop]


def _rows_of_batch(batch: DefaultRecordBatch, start: int, stop: int) -> list[Row]:
    try:
        again = DefaultRecordBatch(bytes(batch._buffer))
        return [_row(record, tuple(record.headers)) for record in again]
    except (TheirCorruptRecordError, UnicodeDecodeError):
        return as_java(batch, start, stop)


def as_java(batch: DefaultRecordBatch, start: int, stop: int) -> list[Row]:
    """kafka-python takes the attributes for a number of any size and refuses header names that aren't text.

    Headers of records that nobody asked for are passed over.
    """
    batch._maybe_uncompress()
    records, at, found = bytes(batch._buffer), batch._pos, []

    def number() -> int:
        nonlocal at
        value, at = decode_varint(records, at)
        return int(value)

    def piece() -> bytes | None:
        nonlocal at
        size = number()
        at += max(size, 0)
        assert at <= len(records)
        return records[at - size : at] if size >= 0 else None

    def header() -> tuple[str, bytes | None]:
        name = piece()
        assert name is not None
        return name.decode(errors="replace"), piece()

    for _ in range(batch.records_count):
        end = number() + at
        at += 1
        time = batch.first_timestamp + number()
        offset = batch.base_offset + number()
        row = Row(offset, batch.max_timestamp if batch.timestamp_type else _wrapped(time), piece(), piece())
        if start <= offset < stop:
            row = row._replace(headers=tuple([header() for _ in range(number())]))
            assert at == end
        at = end
        found.append(row)
    assert at == len(records)
    return found


def _wrapped(time: int) -> int:
    return (time + 2**63) % 2**64 - 2**63


def _row(record: Any, headers: tuple[tuple[str, bytes | None], ...]) -> Row:
    time = -1 if record.timestamp is None else _wrapped(record.timestamp)
    return Row(record.offset, time, record.key, record.value, headers)


def check(log: bytes, start: int, stop: int, **options: Any) -> None:
    """Rows and the next position are right, or the error says what is wrong where."""
    try:
        decoded = decode(log, start, stop, source=SOURCE, headers=True, **options)
    except CorruptRecordError:
        return
    # What lies behind ``next_offset`` was not looked at.
    assert rows_of(decoded) == by_kafka_python(log, start, min(stop, decoded.next_offset))
    assert start <= decoded.next_offset <= max(start, stop)
    check_columns(log, start, stop, decoded)


def check_columns(log: bytes, start: int, stop: int, whole: Decoded) -> None:
    """Offsets and times are read alone, too, in another way where they are few; and a little at a time."""
    alone = decode(log, start, stop, source=SOURCE, keys=False, values=False)
    assert alone.next_offset == whole.next_offset
    assert alone.records.offsets.tolist() == whole.records.offsets.tolist()
    assert alone.records.timestamps.tolist() == whole.records.timestamps.tolist()
    found: list[Row] = []
    while start < whole.next_offset:
        some = decode(log, start, stop, source=SOURCE, headers=True, enough=1)
        found += rows_of(some)
        assert some.next_offset > start
        start = some.next_offset
    assert found == rows_of(whole)


@pytest.mark.usefixtures("small_batches", "ways")
@settings(max_examples=examples(400))
@given(logs())
def test_record_batches(log: tuple[bytes, int, int]) -> None:
    check(*log)


@pytest.mark.usefixtures("small_batches")
@settings(max_examples=examples(300))
@given(old_logs())
def test_messages_of_older_formats(log: bytes) -> None:
    check(log, 0, 2**63 - 1)


def test_most_damage_gets_past_the_checksums() -> None:
    """Else the tests above would look at checksums, and at nothing behind them."""
    found: Counter[str] = Counter()

    @settings(max_examples=examples(400))
    @given(logs().map(lambda drawn: drawn[0]) | old_logs())
    def look(log: bytes) -> None:
        try:
            found["rows"] += len(decode(log, 0, END, source=SOURCE, headers=True).records) > 0
        except CorruptRecordError as error:
            found["checksum" if "checksum" in str(error) else "deeper"] += 1

    look()
    assert found["deeper"] > 3 * found["checksum"]
    assert min(found["rows"], found["deeper"]) > found.total() / 5


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_decompression_bomb(codec: int) -> None:
    """Far more zeros than a batch may have, in one that fits a fetch."""
    size = 2 * compression.LARGEST_BATCH
    piece = bytes(1 << 20)
    if codec == ZSTD:
        frames = bytes(cramjam.zstd.compress(piece)) * (size // len(piece))
    elif codec == GZIP:
        frames = gzip.compress(piece) * (size // len(piece))
    elif codec == LZ4:
        frames = bytes(cramjam.lz4.compress(piece)) * (size // len(piece))
    else:
        block = bytes(cramjam.snappy.compress_raw(piece))
        framed = struct.pack(">i", len(block)) + block
        frames = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed * (size // len(piece))
    with pytest.raises(CorruptRecordError, match=f"offset 0 of {SOURCE}.*larger than 268435456 bytes"):
        decode(sealed(v2(some_rows(1)), frames, attributes=codec), 0, END, source=SOURCE)
