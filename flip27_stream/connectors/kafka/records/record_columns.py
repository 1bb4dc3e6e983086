"""Decodes the records of many batches (magic 2) into columns, with numpy instead of a loop over the records.

There are three steps: find where each record begins, read the fields of all records together, and let Arrow copy keys
and values. Only the first step goes from record to record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.binary_columns import gather
from flip27_stream.connectors.kafka.records.data_batches import RECORD_COLUMNS_BYTES, DataBatches
from flip27_stream.connectors.kafka.records.record_headers import read_headers
from flip27_stream.connectors.kafka.records.record_lanes import BatchSpans
from flip27_stream.connectors.kafka.records.record_starts import find_records
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError, VarintCursor

_LONG_VARINT = 10


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The records and columns to decode. Offsets and timestamps are always decoded.

    Attributes:
        start: The first offset.
        stop: The end of the offsets (exclusive).
        keys: Whether keys are decoded.
        values: Whether values are decoded.
        headers: Whether headers are decoded.
    """

    start: int
    stop: int
    keys: bool = True
    values: bool = True
    headers: bool = False


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The data records of one contiguous piece of the log of one partition, as columns of one length.

    Attributes:
        offsets: The offsets, strictly increasing.
        timestamps: The timestamps (ms since the epoch); -1 for a record without a timestamp.
        timestamp_types: 0 for CreateTime, 1 for LogAppendTime, -1 for magic 0, which has no timestamps.
        keys: The keys, with nulls; ``None`` if the column is not wanted.
        values: The values, with nulls; ``None`` if the column is not wanted.
        headers: ``list<struct<key: string, value: binary>>``, as in Spark, null for a record without headers; ``None``
            if the column is not wanted.
    """

    offsets: Int64s
    timestamps: Int64s
    timestamp_types: npt.NDArray[np.int32]
    keys: pa.BinaryArray | None
    values: pa.BinaryArray | None
    headers: pa.ListArray | None

    def __len__(self) -> int:
        return len(self.offsets)


class LocatedRecords:
    """The records of batches. Their keys, values and headers are not copied yet.

    Memory is bounded by the size of ``buffer``: a record count that does not fit in it is refused first.

    Args:
        buffer: The decompressed records.
        batches: The batches, with their places in ``buffer``.
        wanted: The offsets and columns to decode.

    Raises:
        MalformedError: The bytes are not the records of these batches.
    """

    def __init__(
        self,
        buffer: Bytes,
        batches: DataBatches,
        wanted: WantedColumns,
    ) -> None:
        self._buffer = buffer
        self._wanted = wanted
        try:
            self._locate(batches)
        except IndexError as error:
            raise MalformedError("a record exceeds its batch") from error

    def _locate(self, batches: DataBatches) -> None:
        buffer = self._buffer
        spans = BatchSpans(batches.lows, batches.highs, batches.counts)
        bodies, self._ends = find_records(buffer, spans)
        fields = VarintCursor(buffer, bodies + 1)  # The first byte, the attributes, is not used.
        time_deltas, offset_deltas = fields.read(_LONG_VARINT), fields.read()
        self._key_sizes, self._key_at = fields.read(), fields.at
        fields.skip(self._key_sizes)
        self._value_sizes, self._value_at = fields.read(), fields.at
        fields.skip(self._value_sizes)
        if (fields.at == self._ends - 1).all() and not buffer.take(fields.at).any():
            self._header_counts, self._headers_at = (
                np.zeros_like(self._ends),
                self._ends,
            )  # No record has headers.
        else:
            self._header_counts, self._headers_at = fields.read(), fields.at
            _check_ends(self._header_counts, self._headers_at, self._ends)
        self._offsets = _offsets(offset_deltas, batches)
        self._timestamps, self._types = _times(time_deltas, batches)
        self._next, self._stop = np.searchsorted(
            self._offsets, (self._wanted.start, self._wanted.stop)
        ).tolist()

    @property
    def next_offset(self) -> int | None:
        """The offset of the next wanted record; ``None`` if all were taken."""
        return int(self._offsets[self._next]) if self._next < self._stop else None

    def take(self, enough: int) -> RecordColumns:
        """Returns the next wanted records as columns, at least one.

        Args:
            enough: The greatest size of a part in bytes, with :data:`RECORD_COLUMNS_BYTES` for each record. The
                records that are left are divided if they take more than 1.25 times as many. The parts have about the
                same size, unless single records are large.

        Raises:
            MalformedError: The headers of a record are damaged.
        """
        first, last = self._next, self._stop
        size = self._size(first, last)
        if size > enough + enough // 4:
            share = size // math.ceil(size / enough)
            sizes = self._ends[first:last] + RECORD_COLUMNS_BYTES * np.arange(last - first)
            last = first + int(np.searchsorted(sizes, self._ends[first] + share, side="right"))
        self._next, part = last, slice(first, last)
        buffer, wanted = self._buffer, self._wanted
        try:
            # fmt: off
            return RecordColumns(
                self._offsets[part], self._timestamps[part], self._types[part],
                gather(buffer, self._key_at[part], self._key_sizes[part]) if wanted.keys else None,
                gather(buffer, self._value_at[part], self._value_sizes[part]) if wanted.values else None,
                read_headers(buffer, self._headers_at[part], self._header_counts[part], self._ends[part])
                if wanted.headers else None,
            )
            # fmt: on
        except IndexError as error:
            raise MalformedError("a record lies outside the bytes of its batch") from error

    def _size(self, first: int, last: int) -> int:
        """Returns the memory (bytes) that the records of these rows take, without the bytes of the first record."""
        bytes_after = int(self._ends[last - 1] - self._ends[first]) if first < last else 0
        return bytes_after + RECORD_COLUMNS_BYTES * (last - first)


def _check_ends(header_counts: Int64s, headers_at: Int64s, ends: Int64s) -> None:
    """Checks that each record ends after its headers, each of which takes at least two bytes."""
    without = header_counts == 0
    if (without & (headers_at != ends)).any():
        raise MalformedError("the fields of a record do not end at its last byte")
    if not without.all() and ((header_counts < 0) | (headers_at + 2 * header_counts > ends)).any():
        raise MalformedError("a record has an impossible number of headers")


def _offsets(deltas: Int64s, batches: DataBatches) -> Int64s:
    offsets: Int64s = deltas + np.repeat(batches.first_offsets, batches.counts)
    behind = np.cumsum(batches.counts)
    below = offsets[behind - batches.counts] < batches.first_offsets
    above = offsets[behind - 1] > batches.last_offsets
    if below.any() or above.any() or (offsets[1:] <= offsets[:-1]).any():
        raise MalformedError("offsets of records don't rise from the first to the last of their batch")
    return offsets


def _times(deltas: Int64s, batches: DataBatches) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """Returns timestamps (ms) and their types.

    The base timestamp of a batch may be a delete horizon (KIP-534); the deltas are relative to it, so the sum is right.
    """
    timestamps: Int64s = deltas + np.repeat(batches.base_times, batches.counts)
    types = np.repeat(batches.appended, batches.counts)
    if batches.appended.any():
        appended = np.repeat(batches.greatest_times, batches.counts)
        timestamps = np.where(types, appended, timestamps)
    return timestamps, types
