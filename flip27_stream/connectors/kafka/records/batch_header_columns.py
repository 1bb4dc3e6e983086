"""Reads the headers of the record batches of many partitions together, and the first record of each batch.

The header of a batch has the greatest timestamp of its records, which the broker computes when it appends the batch
(``LogValidator``), and from which it makes its own time index. The checksum of the batch covers it. So the header and
the first record have the event times of most logs, and the other records need not be decoded. Of compressed batches
only the first one of each log is decompressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

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
)
from flip27_stream.connectors.kafka.records.compression import DecompressionBuffer, expected_room
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError, read_varints

_LONG_VARINT = 10
_FIRST_BYTES = 32
"""The bytes of a record that have its timestamp and its offset, 21 at most, and some more to read numbers from."""
_LARGEST_COMPRESSED = 128 << 10
# A first record may be cut off: its fields are read before the size is checked.
_PADDING = bytes(HEADER_SIZE + 32)
_CODEC, _APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20


@dataclass(frozen=True)
class BatchHeaderColumns:
    """The complete batches of many logs, in columns; those of one log are next to each other, in order.

    Attributes:
        logs: The index of the log of each batch, ascending.
        stops: The offset after each batch.
        greatest: The greatest timestamp (ms) of each batch.
        first_offsets: The offset of the first record of each batch.
        first_times: The timestamp (ms) of the first record of each batch.
        has_first: Whether the first record is known; false for a compressed batch that is not the first one of its log
            with data, or is large.
        has_data: Whether the batch has records that are data; false for transaction markers and for batches that
            compaction has emptied. Their other columns have no meaning.
        places: The first byte of each batch in the bytes of its log.
        sizes: The size of each batch with its header, in bytes.
    """

    logs: Int64s
    stops: Int64s
    greatest: Int64s
    first_offsets: Int64s
    first_times: Int64s
    has_first: npt.NDArray[np.bool_]
    has_data: npt.NDArray[np.bool_]
    places: Int64s
    sizes: Int64s

    @staticmethod
    def empty() -> BatchHeaderColumns:
        """Returns an object without batches."""
        none, no = np.empty(0, np.int64), np.empty(0, bool)
        return BatchHeaderColumns(none, none, none, none, none, no, no, none, none)

    def only(self, kept: npt.NDArray[np.bool_]) -> BatchHeaderColumns:
        """Returns the batches for which ``kept`` is true."""
        return self if kept.all() else BatchHeaderColumns(*(column[kept] for column in self._columns()))

    def _columns(self) -> list[npt.NDArray[Any]]:
        return [getattr(self, field.name) for field in fields(self)]


def batch_header_columns(
    logs: Sequence[bytes | memoryview], starts: Int64s
) -> tuple[BatchHeaderColumns, npt.NDArray[np.bool_]]:
    """Returns the batches of many logs, and for each log whether its batches can be used.

    A log whose batches cannot be used has a damaged batch, or one of magic 0 or 1, and must be decoded record by
    record. An incomplete batch at the end of a log is left out.

    Args:
        logs: The records of each partition in a FetchResponse.
        starts: The offset of the fetch of each partition; batches before it are left out.
    """
    data = b"".join([*logs, _PADDING])
    buffer = np.frombuffer(data, np.uint8)
    ends = np.cumsum(np.fromiter(map(len, logs), np.int64, len(logs)))
    usable = np.ones(len(logs), bool)
    at, log, places = _walk(buffer, ends, usable)
    headers = places.view(HEADER)[:, 0] if len(places) else np.empty(0, HEADER)
    _check_order(headers, log, usable)
    kept = headers["base"] + headers["last_delta"] >= starts[log]
    at, log, headers = at[kept], log[kept], headers[kept]
    _check_crcs(data, at, headers, log, usable)
    try:
        found = _columns(buffer, at, log, headers, usable, ends)
    except (MalformedError, IndexError):
        return BatchHeaderColumns.empty(), np.zeros(len(logs), bool)
    return found.only(usable[found.logs]), usable


def _walk(buffer: Bytes, ends: Int64s, usable: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s, Bytes]:
    """Returns the place, the log and the header of all complete batches; one step takes a batch of each log."""
    header_at = np.lib.stride_tricks.sliding_window_view(buffer, HEADER_SIZE)
    at, log = np.append(0, ends[:-1])[: len(ends)], np.arange(len(ends))
    steps: list[tuple[Int64s, Int64s, Bytes]] = []
    while len(log := log[inside := at + HEADER_SIZE <= ends[log]]):
        at = at[inside]
        headers = header_at[at]
        fields_of = headers.view(HEADER)[:, 0]
        sizes = fields_of["size"].astype(np.int64) + LOG_OVERHEAD
        count = fields_of["count"]
        sound = (fields_of["magic"] == 2) & (sizes >= HEADER_SIZE) & (count >= 0)
        sound &= (count > 0) | (sizes == HEADER_SIZE)
        usable[log[~sound]] = False
        complete = sound & (at + sizes <= ends[log])
        steps.append((at[complete], log[complete], headers[complete]))
        at, log = (at + sizes)[complete], log[complete]
    if not steps:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, HEADER_SIZE), np.uint8)
    places, logs, headers = (np.concatenate(column) for column in zip(*steps, strict=True))
    order = np.argsort(places)
    return places[order], logs[order], headers[order]


def _check_order(headers: npt.NDArray[np.void], log: Int64s, usable: npt.NDArray[np.bool_]) -> None:
    """Marks the logs whose offsets do not rise from batch to batch."""
    base, last = headers["base"].astype(np.int64), (headers["base"] + headers["last_delta"]).astype(np.int64)
    wrong = (base < 0) | (last < base) | (last > LARGEST_OFFSET)
    wrong[1:] |= (log[1:] == log[:-1]) & (base[1:] <= last[:-1])
    usable[log[wrong]] = False


def _check_crcs(
    data: bytes, at: Int64s, headers: npt.NDArray[np.void], log: Int64s, usable: npt.NDArray[np.bool_]
) -> None:
    view = memoryview(data)
    begins, ends = (at + CRC_FROM).tolist(), (at + headers["size"] + LOG_OVERHEAD).tolist()
    found = [crc32c(view[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    usable[log[np.array(found, np.int64) != headers["crc"]]] = False


def _columns(
    buffer: Bytes,
    at: Int64s,
    log: Int64s,
    headers: npt.NDArray[np.void],
    usable: npt.NDArray[np.bool_],
    log_ends: Int64s,
) -> BatchHeaderColumns:
    base, greatest = headers["base"].astype(np.int64), headers["max_time"].astype(np.int64)
    last = base + headers["last_delta"]
    has_data = (headers["attributes"] & _CONTROL == 0) & (headers["count"] > 0)
    is_plain = headers["attributes"] & _CODEC == 0
    first_offsets, first_times = base.copy(), greatest.copy()
    has_first = has_data & is_plain
    plain = np.flatnonzero(has_first)
    stops = at + headers["size"] + LOG_OVERHEAD
    packed = _first_of_logs(np.flatnonzero(has_data & usable[log]), log)
    packed = packed[~is_plain[packed] & (headers["size"][packed] <= _LARGEST_COMPRESSED)]
    heads, sizes = _decompressed_heads(buffer, at[packed] + HEADER_SIZE, stops[packed], headers[packed])
    usable[log[packed[sizes < 0]]] = False
    packed, heads, sizes = packed[sizes >= 0], heads[sizes >= 0], sizes[sizes >= 0]
    begins = _FIRST_BYTES * np.arange(len(packed))
    for batches, records, places, ends in (
        (plain, buffer, at[plain] + HEADER_SIZE, stops[plain]),
        (packed, heads.reshape(-1), begins, begins + sizes),
    ):
        if len(batches):
            time_deltas, offset_deltas, wrong = _first_records(records, places, ends)
            first_offsets[batches] += offset_deltas
            first_times[batches] = headers["base_time"][batches] + time_deltas
            has_first[batches] = True
            wrong |= (offset_deltas < 0) | (first_offsets > last)[batches]
            usable[log[batches[wrong]]] = False
    appended = headers["attributes"] & _APPEND_TIME != 0
    first_times = np.where(appended, greatest, first_times)
    places = at - np.append(0, log_ends)[log]
    # fmt: off
    return BatchHeaderColumns(
        log, last + 1, greatest, first_offsets, first_times, has_first, has_data, places, stops - at,
    )
    # fmt: on


def _first_records(records: Bytes, at: Int64s, stops: Int64s) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Returns the timestamp deltas and offset deltas of the records at ``at``, and which of them are wrong.

    Args:
        records: The bytes of uncompressed records.
        at: The place of each record.
        stops: The end of the batch of each record.
    """
    sizes, behind = read_varints(records, at)
    ends = behind + sizes
    time_deltas, behind = read_varints(records, behind + 1, _LONG_VARINT)
    offset_deltas, behind = read_varints(records, behind)
    return time_deltas, offset_deltas, (behind > ends) | (ends > stops)


def _first_of_logs(batches: Int64s, log: Int64s) -> Int64s:
    """Returns those of ``batches`` that are the first ones of their logs; ``log`` has the log of each batch."""
    logs = log[batches]
    firsts: Int64s = batches[np.append(True, logs[1:] != logs[:-1])[: len(logs)]]
    return firsts


def _decompressed_heads(
    buffer: Bytes, begins: Int64s, ends: Int64s, headers: npt.NDArray[np.void]
) -> tuple[Bytes, Int64s]:
    """Decompresses batches, and keeps only the first bytes of each.

    Returns:
        The first 32 bytes of the records of each batch, one row for each, filled up with zeros; and the number of bytes
        of all records of each batch, -1 for a batch that cannot be decompressed.
    """
    heads, sizes = np.zeros((len(begins), _FIRST_BYTES), np.uint8), np.full(len(begins), -1)
    codecs = (headers["attributes"] & _CODEC).tolist()
    decompressed = DecompressionBuffer(expected_room([_LARGEST_COMPRESSED]))
    for row, (codec, begin, end) in enumerate(zip(codecs, begins.tolist(), ends.tolist(), strict=True)):
        decompressed.clear()
        with suppress(MalformedError):
            _, sizes[row] = decompressed.add(codec, buffer[begin:end])
            found = decompressed.bytes[:_FIRST_BYTES]
            heads[row, : len(found)] = found
    return heads, sizes
