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
    BatchHeader,
)

_CODEC_OR_CONTROL = 0x27
_APPEND_TIME = 0x08
_LENGTH = Struct(">i")
_LENGTH_AT = 8


class DataBatches(NamedTuple):
    """Batches of magic 2 with records that are data, in columns.

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
    view: memoryview, start: int, stop: int, enough: int, *, check_crcs: bool
) -> tuple[DataBatches, int] | None:
    """Returns the complete batches with offsets from ``start`` to ``stop``, and the offset of the next fetch.

    Returns ``None`` unless all of these are ordinary batches: of magic 2, with records, without compression, not
    damaged, and no transaction markers. Whoever calls then looks at one header after the other.

    Args:
        view: The records of one partition in a FetchResponse.
        start: The first wanted offset.
        stop: The end of the wanted offsets (exclusive).
        enough: The number of bytes that end the batches: those before this number is reached are returned.
        check_crcs: Whether checksums are checked.
    """
    places = _complete(view)
    if not places:
        return None
    buffer = np.frombuffer(view, np.uint8)
    at = np.array(places, np.int64)
    headers = np.ndarray((len(buffer) - HEADER_SIZE + 1,), f"V{HEADER_SIZE}", buffer.data, 0, (1,))[at].view(
        HEADER
    )
    first = headers["base"].astype(np.int64)
    last = first + headers["last_delta"]
    if (headers["magic"] != 2).any() or not _rise(first, last):
        return None
    begin, end = int(np.searchsorted(last, start)), int(np.searchsorted(first, stop))
    sizes = headers["size"].astype(np.int64) + LOG_OVERHEAD
    reached = int(np.searchsorted(np.cumsum(sizes[begin:end]), enough)) + 1
    next_offset = stop if end < len(at) and begin + reached > end else 0
    part = slice(begin, min(end, begin + reached))
    at, headers, ends = at[part], headers[part], (at + sizes)[part]
    is_plain = (headers["attributes"] & _CODEC_OR_CONTROL == 0) & (headers["count"] > 0)
    if not len(at) or not is_plain.all():
        return None
    if check_crcs and not _are_whole(view, at, ends, headers["crc"]):
        return None
    found = DataBatches(
        at + HEADER_SIZE,
        ends,
        headers["count"].astype(np.int64),
        first[part],
        last[part],
        headers["base_time"].astype(np.int64),
        headers["max_time"].astype(np.int64),
        (headers["attributes"] & _APPEND_TIME != 0).astype(np.int32),
    )
    return found, next_offset or int(found.last_offsets[-1]) + 1


def _complete(view: memoryview) -> list[int]:
    """Returns the places of the complete batches; an empty list if a size is impossible."""
    places, at, total = list[int](), 0, len(view)
    while total - at >= HEADER_SIZE:
        size = LOG_OVERHEAD + _LENGTH.unpack_from(view, at + _LENGTH_AT)[0]
        if size < HEADER_SIZE:
            return []
        if size > total - at:
            break
        places.append(at)
        at += size
    return places


def _rise(first: Int64s, last: Int64s) -> bool:
    """Returns whether offsets rise within batches and from batch to batch."""
    sound = (first >= 0) & (first <= last) & (last <= LARGEST_OFFSET)
    return bool(sound.all() and (first[1:] > last[:-1]).all())


def _are_whole(view: memoryview, at: Int64s, ends: Int64s, crcs: npt.NDArray[np.uint32]) -> bool:
    """Returns whether the checksums of all batches match."""
    found = [
        crc32c(view[begin:end]) for begin, end in zip((at + CRC_FROM).tolist(), ends.tolist(), strict=True)
    ]
    return bool((np.array(found, np.uint32) == crcs).all())
