"""Reads the headers of record batches, without their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from flip27_stream.errors import CorruptRecordError

HEADER_SIZE = 61
"""The size of the header of a batch (magic 2), in bytes."""

LOG_OVERHEAD = 12
"""The bytes of a header that its size does not count."""
CRC_FROM = 21
"""The first byte of a batch that its checksum covers."""
MAGIC_AT = 16
"""The byte of a header that has the version of the format, in each version."""
_SMALLEST_MESSAGE = {0: 26, 1: 34}
LARGEST_OFFSET = 2**63 - 2
_V2 = Struct(">qiibIhiqqqhii")
_V0 = Struct(">qiIbb")
_V1 = Struct(">qiIbbq")
_V2_OFFSETS = Struct(">qi4xb4xhi")  # base offset, length, magic, attributes, last offset delta
_CONTROL = 0x20
HEADER = np.dtype(
    {
        "names": [
            "base",
            "size",
            "magic",
            "crc",
            "attributes",
            "last_delta",
            "base_time",
            "max_time",
            "count",
        ],
        "formats": [">i8", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i4"],
        "offsets": [0, 8, 16, 17, 21, 23, 27, 35, 57],
        "itemsize": HEADER_SIZE,
    }
)
"""The fields of a header of magic 2, for columns of headers."""


class BatchHeader(NamedTuple):
    """The header of a record batch, or of a message of magic 0 or 1 (``DefaultRecordBatch``, ``LegacyRecord``).

    The header of a compressed message of magic 0 or 1 only has the last offset: ``base_offset`` equals it, and
    ``record_count`` is 1.

    Attributes:
        base_offset: The first offset.
        last_offset: The last offset.
        magic: The version of the format.
        attributes: The flags as they are in the header.
        crc: The checksum as it is in the header.
        base_timestamp: The timestamp from which those of records count (ms since the epoch); -1 for no timestamp.
        max_timestamp: The greatest timestamp (ms since the epoch); -1 for no timestamp.
        producer_id: The id of the producer; -1 for no id.
        record_count: The number of records.
        position: The first byte of the batch in the data.
        size: The size of the batch in bytes, with its header.
        complete: Whether the data has all bytes of the batch.
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
        """The number of the compression codec; 0 for no compression."""
        return self.attributes & 0x07

    @property
    def log_append_time(self) -> bool:
        """Whether ``max_timestamp``, which the broker set, is the timestamp of every record."""
        return self.attributes & 0x08 != 0

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & 0x10 != 0

    @property
    def control(self) -> bool:
        """Whether the batch is a transaction marker and not data."""
        return self.attributes & 0x20 != 0


def batch_headers(data: bytes | memoryview, source: str = "a fetch response") -> Iterator[BatchHeader]:
    """Yields the headers of the batches in ``data``. Checksums are not checked.

    Args:
        data: Begins with a batch, and may be cut off at any byte.
        source: The partition, for errors.

    Raises:
        CorruptRecordError: A header is impossible.
    """
    at, total = 0, len(data)
    while total - at > MAGIC_AT:
        magic = data[at + MAGIC_AT]
        layout = _V2 if magic == 2 else _V1 if magic == 1 else _V0
        if total - at < layout.size:
            return
        header = _v2(data, at, total) if magic == 2 else _legacy(data, at, total, layout)
        _check(header, source)
        yield header
        at += header.size


class CompleteBatches(NamedTuple):
    """The complete batches of a piece of a log.

    Attributes:
        end: The greatest offset after a batch; 0 without a batch.
        size: The size of all batches, in bytes.
        least: The least size of a batch that is no transaction marker, in bytes; 0 without such a batch.
        greatest: The greatest size of such a batch, in bytes; 0 without such a batch.
    """

    end: int
    size: int
    least: int
    greatest: int

    @staticmethod
    def of(end: int, size: int, sizes: Sequence[int]) -> CompleteBatches:
        """Returns the batches, of which those that are no markers have these sizes."""
        return CompleteBatches(end, size, min(sizes, default=0), max(sizes, default=0))


def complete_batches(data: bytes | memoryview, source: str) -> CompleteBatches:
    """Returns end and sizes of the complete batches of ``data``.

    Raises:
        CorruptRecordError: The size or the offsets of a batch of magic 2 are impossible, or any header of another
            magic.
    """
    at, total, end = 0, len(data), 0
    sizes: list[int] = []
    while total - at >= HEADER_SIZE:
        base_offset, length, magic, attributes, last_delta = _V2_OFFSETS.unpack_from(data, at)
        size = LOG_OVERHEAD + length
        if magic != 2 or size < HEADER_SIZE or base_offset < 0 or last_delta < 0:
            break
        if size > total - at:
            return CompleteBatches.of(end, at, sizes)
        at, end = at + size, max(end, base_offset + last_delta + 1)
        if not attributes & _CONTROL:
            sizes.append(size)
    for header in batch_headers(data[at:], source):
        if header.complete:
            at, end = at + header.size, max(end, header.last_offset + 1)
            if not header.control:
                sizes.append(header.size)
    return CompleteBatches.of(end, at, sizes)


def batch_at(data: bytes | memoryview, offset: int) -> int | None:
    """Returns the first byte of the batch that ends at or after ``offset``.

    Returns ``None`` if the data has no such batch that is complete and of magic 2, or a batch of another magic or an
    impossible size before it.
    """
    at, total = 0, len(data)
    while total - at >= HEADER_SIZE:
        base_offset, length, magic, _, last_delta = _V2_OFFSETS.unpack_from(data, at)
        size = LOG_OVERHEAD + length
        if magic != 2 or not HEADER_SIZE <= size <= total - at:
            break
        if base_offset + last_delta >= offset:
            return at
        at += size
    return None


def _v2(data: bytes | memoryview, at: int, total: int) -> BatchHeader:
    # fmt: off
    (base_offset, length, _epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
     _producer_epoch, _sequence, count) = _V2.unpack_from(data, at)
    # fmt: on
    size = LOG_OVERHEAD + length
    return BatchHeader(
        base_offset, base_offset + last_delta, magic, attributes, crc, base_timestamp, max_timestamp,
        producer_id, count, at, size, size <= total - at,
    )  # fmt: skip


def _legacy(data: bytes | memoryview, at: int, total: int, layout: Struct) -> BatchHeader:
    offset, length, crc, magic, attributes, *times = layout.unpack_from(data, at)
    size = LOG_OVERHEAD + length
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
    elif not 0 <= header.base_offset <= header.last_offset <= LARGEST_OFFSET:
        wrong = f"its last offset is {header.last_offset}"
    elif header.record_count < 0:
        wrong = f"a record count of {header.record_count}"
    elif header.record_count == 0 and header.size > HEADER_SIZE:
        wrong = f"no records, but {header.size - HEADER_SIZE} bytes of them"
    else:
        return
    raise corrupt(source, header.base_offset, wrong)


def corrupt(source: str, offset: int, wrong: object) -> CorruptRecordError:
    """Returns the error for a batch that cannot be decoded."""
    return CorruptRecordError(
        f"Corrupt record batch at offset {offset} of {source}: {wrong}. Read it with another client to find out "
        "whether it was damaged in the log or on the network; start after the batch to go on without it."
    )
