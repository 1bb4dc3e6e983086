"""Offsets and times of a few records, one record after the other.

Reading columns with numpy takes some hundred microseconds however few records there are; a planner that looks at one
record of each of a thousand partitions would spend its time there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flip27_stream.connectors.kafka.batch_headers import HEADER_SIZE, BatchHeader
from flip27_stream.connectors.kafka.record_columns import Records, Wanted
from flip27_stream.connectors.kafka.varints import MalformedError

_FEW = 32
_LONGEST = 10


def are_few(batches: Sequence[BatchHeader], wanted: Wanted) -> bool:
    """Whether :func:`read_few` can read ``batches``, and is faster."""
    if wanted.keys or wanted.values or wanted.headers or sum(batch.record_count for batch in batches) > _FEW:
        return False
    return all(batch.magic == 2 and not batch.codec for batch in batches)


def read_few(view: memoryview, batches: Sequence[BatchHeader], wanted: Wanted) -> Records:
    """As :func:`~flip27_stream.connectors.kafka.record_columns.read_records`, without keys, values and headers."""
    rows: list[tuple[int, int, int]] = []
    try:
        for batch in batches:
            _read(view, batch, rows)
    except IndexError as error:
        raise MalformedError("a record leaves its batch") from error
    if any(rows[i][0] <= rows[i - 1][0] for i in range(1, len(rows))):
        raise MalformedError("offsets of records don't rise from the first to the last of their batch")
    columns = [row for row in rows if wanted.start <= row[0] < wanted.stop]
    offsets, times, types = zip(*columns, strict=True) if columns else ((), (), ())
    return Records(
        np.array(offsets, np.int64), np.array(times, np.int64), np.array(types, np.int32), None, None, None
    )


def _read(view: memoryview, batch: BatchHeader, rows: list[tuple[int, int, int]]) -> None:
    at, end = batch.position + HEADER_SIZE, batch.position + batch.size
    appended = batch.log_append_time
    for _ in range(batch.record_count):
        size, body = _varint(view, at)
        delta, offset_at = _varint(view, body + 1)
        offset_delta, behind = _varint(view, offset_at)
        at = body + size
        offset = batch.base_offset + offset_delta
        if not behind <= at <= end or not batch.base_offset <= offset <= batch.last_offset:
            raise MalformedError("a record contradicts its batch")
        rows.append(
            (offset, batch.max_timestamp if appended else _wrapped(batch.base_timestamp + delta), appended)
        )
    if at != end:
        raise MalformedError("the records don't fill their batch")


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    raw = shift = 0
    for i in range(at, at + _LONGEST):
        byte = view[i]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), i + 1
        shift += 7
    raise MalformedError(f"a number takes more than {_LONGEST} bytes")


def _wrapped(number: int) -> int:
    """As Java adds longs."""
    return (number + 2**63) % 2**64 - 2**63
