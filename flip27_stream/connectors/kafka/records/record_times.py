"""Decodes only the offsets and the timestamps of records, of the batches of many logs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.batch_headers import HEADER, HEADER_SIZE
from flip27_stream.connectors.kafka.records.compression import DecompressionBuffer, expected_room
from flip27_stream.connectors.kafka.records.record_lanes import BatchSpans
from flip27_stream.connectors.kafka.records.record_starts import find_records
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError, VarintCursor

_LONG_VARINT = 10
_GROUP_BYTES = 32 << 20
_CODEC, _APPEND_TIME = 0x07, 0x08


class RecordTimes(NamedTuple):
    """The records of batches; those of one batch are next to each other.

    Attributes:
        counts: The number of records of each batch; at least 1.
        offsets: The offset of each record.
        times: The timestamp (ms) of each record; -1 for a missing or negative one.
    """

    counts: Int64s
    offsets: Int64s
    times: Int64s


def record_times(batches: Sequence[bytes | memoryview]) -> RecordTimes:
    """Returns the offsets and the timestamps of the records in batches, which may be of different logs.

    The batches are of magic 2 and have data. Neither checksums nor the fields of a record after its offset are checked.
    The memory for decompressed records is bounded: a part of the batches is decoded at a time.

    Raises:
        MalformedError: The bytes of a batch are not its records.
    """
    headers = np.frombuffer(b"".join([batch[:HEADER_SIZE] for batch in batches]), HEADER)
    parts, begin = list[tuple[Int64s, Int64s]](), 0
    while begin < len(batches):
        buffer, spans = _payloads(batches[begin:], headers["attributes"][begin:] & _CODEC)
        parts.append(_decoded(buffer, spans, headers[begin : begin + len(spans)]))
        begin += len(spans)
    offsets, times = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RecordTimes(headers["count"].astype(np.int64), offsets, np.maximum(times, -1))


def _payloads(batches: Sequence[bytes | memoryview], codecs: npt.NDArray[np.int16]) -> tuple[Bytes, Int64s]:
    """Returns the decompressed records of the first batches, and their span in the result, a row for each batch."""
    sizes = np.fromiter(map(len, batches), np.int64, len(batches))
    some = max(1, int(np.searchsorted(np.cumsum(sizes), _GROUP_BYTES)))
    if not codecs[:some].any():
        highs = np.cumsum(sizes[:some])
        lows = highs - sizes[:some] + HEADER_SIZE
        return np.frombuffer(b"".join(batches[:some]), np.uint8), np.stack([lows, highs], axis=1)
    buffer, spans = (
        DecompressionBuffer(expected_room(sizes[:some].tolist(), _GROUP_BYTES)),
        list[tuple[int, int]](),
    )
    for batch, codec in zip(batches[:some], codecs.tolist(), strict=False):
        spans.append(buffer.add(codec, np.frombuffer(batch, np.uint8)[HEADER_SIZE:]))
        if buffer.used > _GROUP_BYTES:
            break
    return buffer.bytes, np.array(spans, np.int64)


def _decoded(buffer: Bytes, spans: Int64s, headers: npt.NDArray[np.void]) -> tuple[Int64s, Int64s]:
    """Returns the offsets and the timestamps of the records in ``spans`` of ``buffer``."""
    counts, first = headers["count"].astype(np.int64), headers["base"].astype(np.int64)
    try:
        bodies, ends = find_records(buffer, BatchSpans(spans[:, 0], spans[:, 1], counts))
        fields = VarintCursor(buffer, bodies + 1)  # The first byte, the attributes, is not used.
        times, offsets = fields.read(_LONG_VARINT), fields.read()
    except IndexError as error:
        raise MalformedError("a record exceeds its batch") from error
    if (fields.at > ends).any():
        raise MalformedError("the fields of a record exceed it")
    times += np.repeat(headers["base_time"].astype(np.int64), counts)
    if (appended := headers["attributes"] & _APPEND_TIME != 0).any():
        greatest = np.repeat(headers["max_time"].astype(np.int64), counts)
        times = np.where(np.repeat(appended, counts), greatest, times)
    behind = np.cumsum(counts)
    rises = offsets[1:] > offsets[:-1]
    rises[behind[:-1] - 1] = True
    last = headers["last_delta"]
    if not rises.all() or (offsets[behind - counts] < 0).any() or (offsets[behind - 1] > last).any():
        raise MalformedError("offsets of records don't rise from the first to the last of their batch")
    return offsets + np.repeat(first, counts), times
