"""What the header of a record batch tells, without touching its records."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from flip27_stream.errors import CorruptRecordError

HEADER_SIZE = 61
"""Bytes of a batch before its records (magic 2)."""

_LOG_OVERHEAD = 12
_MAGIC_AT = 16
_SMALLEST_MESSAGE = {0: 26, 1: 34}
_LARGEST_OFFSET = 2**63 - 2
_V2 = Struct(">qiibIhiqqqhii")
_V0 = Struct(">qiIbb")
_V1 = Struct(">qiIbbq")


class BatchHeader(NamedTuple):
    """Header of a record batch, or of a message of the formats before it (``DefaultRecordBatch``, ``LegacyRecord``).

    Times are ms since the epoch, -1 for none. ``position`` and ``size`` are bytes in the data scanned; ``complete``
    says whether all of them are there. Of a compressed message with magic 0 or 1 only the last offset is in the
    header: ``base_offset`` equals it, and ``record_count`` is 1.
    """

    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    crc: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
    position: int
    size: int
    complete: bool

    @property
    def codec(self) -> int:
        """Number of the compression codec, 0 for none."""
        return self.attributes & 0x07

    @property
    def log_append_time(self) -> bool:
        """Whether ``max_timestamp``, set by the broker, is the timestamp of every record."""
        return self.attributes & 0x08 != 0

    @property
    def transactional(self) -> bool:
        return self.attributes & 0x10 != 0

    @property
    def control(self) -> bool:
        """Whether the batch is a transaction marker and no data."""
        return self.attributes & 0x20 != 0


def batch_headers(data: bytes | memoryview, source: str = "a fetch response") -> Iterator[BatchHeader]:
    """The headers in ``data``, which begins with a batch and may be cut off anywhere, even right after a header.

    The checksum is not looked at. CorruptRecordError, naming ``source``, on a header that no batch can have.
    """
    at, total = 0, len(data)
    while total - at > _MAGIC_AT:
        magic = data[at + _MAGIC_AT]
        layout = _V2 if magic == 2 else _V1 if magic == 1 else _V0
        if total - at < layout.size:
            return
        header = _v2(data, at, total) if magic == 2 else _legacy(data, at, total, layout)
        _check(header, source)
        yield header
        at += header.size


def _v2(data: bytes | memoryview, at: int, total: int) -> BatchHeader:
    # fmt: off
    (base_offset, length, _epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
     _producer_epoch, _sequence, count) = _V2.unpack_from(data, at)
    # fmt: on
    size = _LOG_OVERHEAD + length
    return BatchHeader(
        base_offset, base_offset + last_delta, magic, attributes, crc, base_timestamp, max_timestamp,
        producer_id, count, at, size, size <= total - at,
    )  # fmt: skip


def _legacy(data: bytes | memoryview, at: int, total: int, layout: Struct) -> BatchHeader:
    offset, length, crc, magic, attributes, *times = layout.unpack_from(data, at)
    size = _LOG_OVERHEAD + length
    time = times[0] if times else -1
    attributes &= 0x0F if times else 0x07
    whole = size <= total - at
    return BatchHeader(offset, offset, magic, attributes, crc, time, time, -1, 1, at, size, whole)


def _check(header: BatchHeader, source: str) -> None:
    smallest = _SMALLEST_MESSAGE.get(header.magic, HEADER_SIZE)
    if not 0 <= header.magic <= 2:
        wrong = f"unknown magic {header.magic}"
    elif header.size < smallest:
        wrong = f"a size of {header.size} bytes is below the least possible, {smallest}"
    elif not 0 <= header.base_offset <= header.last_offset <= _LARGEST_OFFSET:
        wrong = f"its last offset is {header.last_offset}"
    elif header.record_count < 0:
        wrong = f"a record count of {header.record_count}"
    elif header.record_count == 0 and header.size > HEADER_SIZE:
        wrong = f"no records, but {header.size - HEADER_SIZE} bytes of them"
    else:
        return
    raise corrupt(source, header.base_offset, wrong)


def corrupt(source: str, offset: int, wrong: object) -> CorruptRecordError:
    """The error for a batch that can't be decoded."""
    return CorruptRecordError(
        f"Corrupt record batch at offset {offset} of {source}: {wrong}. The log or the network damaged it; "
        "read it with another client to find out which, and start behind it to go on without it."
    )
