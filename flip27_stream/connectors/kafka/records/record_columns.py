"""The records of many batches (magic 2) as columns, with numpy over their bytes instead of a loop over the records.

Three steps: find where each record starts (the only part that has to go from one record to the next), read the fields
of all records together, and let Arrow gather keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.connectors.kafka.records.batch_headers import BatchHeader
from flip27_stream.connectors.kafka.records.binary_columns import gather
from flip27_stream.connectors.kafka.records.record_headers import read_headers
from flip27_stream.connectors.kafka.records.record_starts import find_records
from flip27_stream.connectors.kafka.records.varints import Bytes, Longs, MalformedError, read_varints

_LONG_VARINT = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records asked for (``start`` <= offset < ``stop``), and their columns besides offset and time."""

    start: int
    stop: int
    keys: bool = True
    values: bool = True
    headers: bool = False


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Data records of one contiguous piece of one partition's log, as columns of one length.

    ``offsets`` increase strictly. ``timestamps`` are ms since the epoch, -1 for none. ``timestamp_types`` are Kafka's:
    0 CreateTime, 1 LogAppendTime, -1 none (magic 0). Keys and values may be null. ``headers`` are
    ``list<struct<key: string, value: binary>>``, null for a record without any, as Spark has it. A column that was
    not asked for is None.
    """

    offsets: Longs
    timestamps: Longs
    timestamp_types: npt.NDArray[np.int32]
    keys: pa.BinaryArray | None
    values: pa.BinaryArray | None
    headers: pa.ListArray | None

    def __len__(self) -> int:
        return len(self.offsets)


def read_records(
    buffer: Bytes, spans: Sequence[tuple[int, int]], batches: Sequence[BatchHeader], wanted: Wanted
) -> RecordColumns:
    """Decode ``batches``, whose records (decompressed) are the ``spans`` of ``buffer``; MalformedError if they aren't.

    Memory is bounded by the size of ``buffer``: a record count that it can't hold is refused first.
    """
    try:
        return _read(buffer, spans, batches, wanted)
    except IndexError as error:
        raise MalformedError("a record leaves its batch") from error


def _read(
    buffer: Bytes, spans: Sequence[tuple[int, int]], batches: Sequence[BatchHeader], wanted: Wanted
) -> RecordColumns:
    counts = np.array([batch.record_count for batch in batches], np.int64)
    starts, ends = find_records(buffer, spans, counts)
    lengths, bodies = read_varints(buffer, starts)
    if (bodies + lengths != ends).any():
        raise MalformedError("record lengths contradict each other")
    time_deltas, at = read_varints(buffer, bodies + 1, _LONG_VARINT)
    offset_deltas, at = read_varints(buffer, at)
    key_sizes, key_at = read_varints(buffer, at)
    value_sizes, value_at = read_varints(buffer, key_at + np.maximum(key_sizes, 0))
    header_counts, headers_at = read_varints(buffer, value_at + np.maximum(value_sizes, 0))
    _check_ends(header_counts, headers_at, ends)
    offsets = _offsets(offset_deltas, counts, batches)
    timestamps, types = _times(time_deltas, counts, batches)
    first, last = np.searchsorted(offsets, (wanted.start, wanted.stop)).tolist()
    part = slice(first, last)
    # fmt: off
    return RecordColumns(
        offsets[part], timestamps[part], types[part],
        gather(buffer, key_at[part], key_sizes[part]) if wanted.keys else None,
        gather(buffer, value_at[part], value_sizes[part]) if wanted.values else None,
        read_headers(buffer, headers_at[part], header_counts[part], ends[part]) if wanted.headers else None,
    )
    # fmt: on


def _check_ends(header_counts: Longs, headers_at: Longs, ends: Longs) -> None:
    """Records end behind their headers, of which each takes two bytes at least."""
    without = header_counts == 0
    if (headers_at != ends)[without].any():
        raise MalformedError("the fields of a record don't fill it")
    if not without.all() and ((header_counts < 0) | (headers_at + 2 * header_counts > ends)).any():
        raise MalformedError("a record has an impossible number of headers")


def _offsets(deltas: Longs, counts: Longs, batches: Sequence[BatchHeader]) -> Longs:
    offsets: Longs = deltas + np.repeat([batch.base_offset for batch in batches], counts)
    behind = np.cumsum(counts)
    below = offsets[behind - counts] < [batch.base_offset for batch in batches]
    above = offsets[behind - 1] > [batch.last_offset for batch in batches]
    if below.any() or above.any() or (offsets[1:] <= offsets[:-1]).any():
        raise MalformedError("offsets of records don't rise from the first to the last of their batch")
    return offsets


def _times(
    deltas: Longs, counts: Longs, batches: Sequence[BatchHeader]
) -> tuple[Longs, npt.NDArray[np.int32]]:
    """Timestamps and their types. With a delete horizon (KIP-534) that is the base, and the deltas are made for it."""
    timestamps = deltas + np.repeat([batch.base_timestamp for batch in batches], counts)
    types = np.repeat(np.array([batch.log_append_time for batch in batches], np.int32), counts)
    if types.any():
        appended = np.repeat([batch.max_timestamp for batch in batches], counts)
        timestamps = np.where(types, appended, timestamps)
    return timestamps, types
