"""Decodes a few small records into columns, one record after the other.

The decoder with numpy takes some hundred microseconds even for a single record. That is too slow for a planner that
reads one record of each of a thousand partitions, and for the tasks of a query without a backlog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_stream.arrow_columns import binaries
from flip27_stream.connectors.kafka.records.batch_headers import BatchHeader
from flip27_stream.connectors.kafka.records.record_columns import RecordColumns, WantedColumns
from flip27_stream.connectors.kafka.records.record_headers import HEADERS
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError, read_varint, read_varlong

FEW = 32
_SMALL = 1 << 16

Row = tuple[int, int, int, bytes | None, bytes | None, list[dict[str, Any]] | None]
"""The fields of a record: offset, timestamp (ms), timestamp type, key, value, headers."""


def are_few(spans: Sequence[tuple[int, int]], batches: Sequence[BatchHeader], wanted: WantedColumns) -> bool:
    """Returns whether :func:`read_few` is faster than reading columns with numpy."""
    if sum(batch.record_count for batch in batches) > FEW:
        return False
    is_light = not (wanted.keys or wanted.values or wanted.headers)
    return is_light or sum(high - low for low, high in spans) <= _SMALL


def read_few(
    buffer: Bytes, spans: Sequence[tuple[int, int]], batches: Sequence[BatchHeader], wanted: WantedColumns
) -> RecordColumns:
    """Returns the wanted records of the batches as columns.

    If neither keys nor values nor headers are wanted, the bytes of a record after its offset are not checked.
    """
    rows: list[Row] = []
    try:
        for (low, high), batch in zip(spans, batches, strict=True):
            _read_batch(buffer[low:high].data, batch, wanted, rows)
    except IndexError as error:
        raise MalformedError("a record lies outside the bytes of its batch") from error
    if any(rows[i][0] <= rows[i - 1][0] for i in range(1, len(rows))):
        raise MalformedError("offsets of records don't rise from the first to the last of their batch")
    return _columns([row for row in rows if wanted.start <= row[0] < wanted.stop], wanted)


def _columns(rows: list[Row], wanted: WantedColumns) -> RecordColumns:
    offsets, times, types, keys, values, headers = zip(*rows, strict=True) if rows else ((),) * 6
    return RecordColumns(
        np.array(offsets, np.int64),
        np.array(times, np.int64),
        np.array(types, np.int32),
        binaries(keys) if wanted.keys else None,
        binaries(values) if wanted.values else None,
        pa.array(headers, HEADERS) if wanted.headers else None,
    )


def _read_batch(data: memoryview, batch: BatchHeader, wanted: WantedColumns, rows: list[Row]) -> None:
    at, appended = 0, batch.log_append_time
    is_light = not (wanted.keys or wanted.values or wanted.headers)
    for _ in range(batch.record_count):
        size, body = read_varint(data, at)
        delta, behind = read_varlong(data, body + 1)
        offset_delta, behind = read_varint(data, behind)
        at = body + size
        offset = batch.base_offset + offset_delta
        if not behind <= at <= len(data) or not batch.base_offset <= offset <= batch.last_offset:
            raise MalformedError("a record lies outside the offsets or the bytes of its batch")
        time = batch.max_timestamp if appended else _wrapped(batch.base_timestamp + delta)
        fields = (None, None, None) if is_light else _fields(data, behind, at, wanted, offset)
        rows.append((offset, time, appended, *fields))
    if at != len(data):
        raise MalformedError("the records don't fill their batch")


def _fields(
    data: memoryview, at: int, end: int, wanted: WantedColumns, offset: int
) -> tuple[bytes | None, bytes | None, list[dict[str, Any]] | None]:
    """Returns the key and the value of a record, and its headers if they are wanted."""
    key, at = _blob(data, at)
    value, at = _blob(data, at)
    count, at = read_varint(data, at)
    if count < 0 or at + 2 * count > end or (count == 0 and at != end):
        raise MalformedError("a record has an impossible number of headers")
    headers = None
    if count and wanted.headers and wanted.start <= offset < wanted.stop:
        headers = _headers(data, at, end, count)
    return key, value, headers


def _headers(data: memoryview, at: int, end: int, count: int) -> list[dict[str, Any]]:
    headers: list[dict[str, Any]] = []
    for _ in range(count):
        key, at = _blob(data, at)
        if key is None:
            raise MalformedError("a header has no key")
        value, at = _blob(data, at)
        headers.append({"key": key.decode(errors="replace"), "value": value})
    if at != end:
        raise MalformedError("the headers of a record don't end where it ends")
    return headers


def _blob(data: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise MalformedError("a record lies outside the bytes of its batch")
    return bytes(data[at : at + size]), at + size


def _wrapped(number: int) -> int:
    """Returns a number as a 64-bit integer with Java's overflow."""
    return (number + 2**63) % 2**64 - 2**63
