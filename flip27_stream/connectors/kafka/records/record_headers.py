"""Decodes the headers of records (KIP-82) into one Arrow column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.binary_columns import gather
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError, read_varint, read_varints

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The Arrow type of the column, which is that of Spark's Kafka source."""

_FEW_RECORDS = 32


def read_headers(buffer: Bytes, at: Int64s, counts: Int64s, ends: Int64s) -> pa.ListArray:
    """Returns the headers of each record, null for a record without headers.

    All first headers are read together, then all second ones, and so on.

    Args:
        buffer: The decompressed records.
        at: The position of the first header of each record.
        counts: The number of headers of each record.
        ends: The end of each record.

    Raises:
        MalformedError: The headers of a record do not end at its end, or a header has no key.
    """
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    behind = np.cumsum(counts)
    total = int(behind[-1])
    pieces = np.empty((4, total), np.int64)  # Position and size of the key, and of the value.
    rows = np.flatnonzero(counts)
    entries, left, at, ends = (behind - counts)[rows], counts[rows], at[rows], ends[rows]
    while len(rows) > _FEW_RECORDS:
        key_sizes, key_at = read_varints(buffer, at)
        if (key_sizes < 0).any():
            raise MalformedError("a header has no key")
        value_sizes, value_at = read_varints(buffer, key_at + key_sizes)
        pieces[:, entries] = key_at, key_sizes, value_at, value_sizes
        at = value_at + np.maximum(value_sizes, 0)
        _check_ends(at[left == 1], ends[left == 1])
        more = left > 1
        rows, entries, left, at, ends = rows[more], entries[more] + 1, left[more] - 1, at[more], ends[more]
    for entry, count, begin, end in np.stack([entries, left, at, ends], axis=1).tolist():
        _read_one(buffer[begin:end].tobytes(), begin, pieces[:, entry : entry + count])
    entries_column = pa.StructArray.from_arrays(
        [_strings(gather(buffer, *pieces[:2])), gather(buffer, *pieces[2:])], fields=list(HEADERS.value_type)
    )
    offsets = np.zeros(len(counts) + 1, np.int32)
    offsets[1:] = behind
    return pa.ListArray.from_arrays(pa.array(offsets), entries_column, mask=pa.array(counts == 0))


def _read_one(data: bytes, begin: int, pieces: Int64s) -> None:
    """Reads the headers of one record, for records that have more headers than the others."""
    at = 0
    for k in range(pieces.shape[1]):
        key_size, key_at = read_varint(data, at)
        if key_size < 0:
            raise MalformedError("a header has no key")
        value_size, value_at = read_varint(data, key_at + key_size)
        pieces[:, k] = begin + key_at, key_size, begin + value_at, value_size
        at = value_at + max(value_size, 0)
    if at != len(data):
        raise MalformedError("the headers of a record don't end where it ends")


def _check_ends(at: Int64s, ends: Int64s) -> None:
    if (at != ends).any():
        raise MalformedError("the headers of a record don't end where it ends")


def _strings(keys: pa.BinaryArray) -> pa.StringArray:
    """Returns header keys as text; bytes that are not UTF-8 become U+FFFD, as in Kafka's client."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
