"""The batches whose records are decoded together, in columns, and the quick way to find them in an ordinary log."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.batch_headers import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LARGEST_OFFSET,
    LOG_OVERHEAD,
    MAGIC_AT,
    BatchHeader,
)

RECORD_COLUMNS_BYTES = 128
"""About the memory (bytes) that a decoded record takes for places, sizes and times, beside its own bytes."""

_CODEC_OR_CONTROL = 0x27
_APPEND_TIME = 0x08
_FLAGS_AT = 22
_FIELDS = Struct(">qi11xi30xi")  # first offset, length, last offset delta, number of records


class DataBatches(NamedTuple):
    """Record batches of magic 2 that have data records, as columns: one element for each batch.

    Attributes:
        lows: The first byte of the records of each batch in a buffer of decompressed records.
        highs: The end of these records.
        counts: The number of records; at least 1.
        first_offsets: The first offset of each batch.
        last_offsets: The last offset of each batch.
        base_times: The timestamps (ms) from which those of records count.
        greatest_times: The greatest timestamps (ms).
        appended: 1 for a batch of which ``greatest_times`` is the timestamp of every record (LogAppendTime), else 0.
    """

    lows: Int64s
    highs: Int64s
    counts: Int64s
    first_offsets: Int64s
    last_offsets: Int64s
    base_times: Int64s
    greatest_times: Int64s
    appended: npt.NDArray[np.int32]

    @staticmethod
    def of(headers: Sequence[BatchHeader], spans: Sequence[tuple[int, int]]) -> DataBatches:
        """Returns the batches with these headers, whose decompressed records are in these spans of a buffer."""
        rows = [
            (low, high, at.record_count, at.base_offset, at.last_offset, at.base_timestamp, at.max_timestamp)
            for (low, high), at in zip(spans, headers, strict=True)
        ]
        lows, highs, counts, first, last, base_times, greatest = np.array(rows, np.int64).T
        appended = np.array([header.log_append_time for header in headers], np.int32)
        return DataBatches(lows, highs, counts, first, last, base_times, greatest, appended)


def plain_batches(
    view: memoryview, start: int, stop: int, enough: int, *, more_than: int = 0, check_crcs: bool = True
) -> tuple[DataBatches, int] | None:
    """Returns the complete batches with offsets from ``start`` to ``stop``, and the offset of the next fetch.

    Returns ``None`` unless all batches up to the last one of these are ordinary: of magic 2, with records, without
    compression, not damaged, and no transaction markers. Whoever calls then looks at one header after the other.

    Args:
        view: The records of one partition in a FetchResponse.
        start: The first wanted offset.
        stop: The end of the wanted offsets (exclusive).
        enough: The batch with which this number of bytes is reached is the last one. :data:`RECORD_COLUMNS_BYTES` count
            for each record.
        more_than: ``None`` is returned if there are not more records than this.
        check_crcs: Whether checksums are checked.
    """
    found = _places(view, start, stop, enough, more_than)
    if found is None:
        return None
    places, next_offset = found
    at = np.array(places, np.int64)
    buffer = np.frombuffer(view, np.uint8)
    windows = np.ndarray((len(buffer) - HEADER_SIZE + 1,), f"V{HEADER_SIZE}", buffer.data, 0, (1,))
    headers = windows[at].view(HEADER)
    ends = at + headers["size"] + LOG_OVERHEAD
    if check_crcs and not _are_whole(view, places, ends, headers["crc"]):
        return None
    first = headers["base"].astype(np.int64)
    batches = DataBatches(
        at + HEADER_SIZE,
        ends,
        headers["count"].astype(np.int64),
        first,
        first + headers["last_delta"],
        headers["base_time"].astype(np.int64),
        headers["max_time"].astype(np.int64),
        (headers["attributes"] & _APPEND_TIME != 0).astype(np.int32),
    )
    return batches, next_offset


def _places(
    view: memoryview, start: int, stop: int, enough: int, more_than: int
) -> tuple[list[int], int] | None:
    """Returns the position of the first byte of each batch, and the offset of the next fetch.

    Returns ``None`` in the cases in which :func:`plain_batches` does, but for wrong checksums.
    """
    places, at, total, last = list[int](), 0, len(view), -1
    taken = records = 0
    next_offset = None
    while next_offset is None and total - at >= HEADER_SIZE:
        first, length, delta, count = _FIELDS.unpack_from(view, at)
        size = LOG_OVERHEAD + length
        is_sound = last < first <= first + delta <= LARGEST_OFFSET and size >= HEADER_SIZE and count > 0
        if not is_sound or view[at + MAGIC_AT] != 2 or view[at + _FLAGS_AT] & _CODEC_OR_CONTROL:
            return None
        if size > total - at:
            break
        if first >= stop:
            next_offset = stop
            break
        last = first + delta
        if last >= start:
            places.append(at)
            taken += size + count * RECORD_COLUMNS_BYTES
            records += count
        at += size
        if taken >= enough or last >= stop - 1:
            next_offset = last + 1
    if next_offset is None and MAGIC_AT < total - at < HEADER_SIZE and view[at + MAGIC_AT] != 2:
        return None  # A message of magic 0 or 1 may be as small as that.
    return (places, last + 1 if next_offset is None else next_offset) if records > more_than else None


def _are_whole(view: memoryview, places: list[int], ends: Int64s, crcs: npt.NDArray[np.uint32]) -> bool:
    """Returns whether the checksums of all batches match."""
    found = [crc32c(view[at + CRC_FROM : end]) for at, end in zip(places, ends.tolist(), strict=True)]
    return bool((np.array(found, np.uint32) == crcs).all())
