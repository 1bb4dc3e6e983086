"""Decodes message sets of magic 0 and 1 (KIP-31, KIP-32), message by message.

Brokers return these formats for topics that were written before Kafka 0.11. The decoder of kafka-python is not used: on
a damaged length it cuts fields short or does not end, and it decompresses without a limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from flip27_stream.connectors.kafka.records.batch_headers import BatchHeader, batch_headers
from flip27_stream.connectors.kafka.records.compression import DecompressionBuffer, expected_room
from flip27_stream.connectors.kafka.records.lz4_frames import with_header_checksum
from flip27_stream.connectors.kafka.records.record_columns import RecordColumns, WantedColumns
from flip27_stream.connectors.kafka.records.record_headers import HEADERS
from flip27_stream.connectors.kafka.records.varints import MalformedError
from flip27_stream.errors import CorruptRecordError

_CRC_FROM = 16
_FIELDS_AT = {0: 18, 1: 26}
_LZ4 = 3
_WORD = 0xFFFFFFFF


class Message(NamedTuple):
    """One message: offset, timestamp (ms), timestamp type, key and value."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


def read_messages(data: bytes | memoryview, header: BatchHeader, check_crcs: bool) -> list[Message]:
    """Returns the message at ``header``, or the messages within it if it is compressed.

    Raises:
        MalformedError: The bytes are damaged.
    """
    message = _message(data, header, check_crcs)
    if not header.codec:
        return [message]
    if message.value is None:
        raise MalformedError("the compressed message has no value")
    inner = _inflate(header, message.value)
    messages = [_message(inner, each, check_crcs) for each in _inner_headers(inner, header)]
    return _absolute(messages, message, header)


def records(messages: Iterable[Message], wanted: WantedColumns) -> RecordColumns:
    """Returns messages as columns."""
    rows = [message for message in messages if wanted.start <= message.offset < wanted.stop]
    return RecordColumns(
        np.array([row.offset for row in rows], np.int64),
        np.array([row.timestamp for row in rows], np.int64),
        np.array([row.timestamp_type for row in rows], np.int32),
        pa.array([row.key for row in rows], pa.binary()) if wanted.keys else None,
        pa.array([row.value for row in rows], pa.binary()) if wanted.values else None,
        pa.nulls(len(rows), HEADERS) if wanted.headers else None,
    )


def _message(data: bytes | memoryview, header: BatchHeader, check_crcs: bool) -> Message:
    message = bytes(data[header.position : header.position + header.size])
    if check_crcs and zlib.crc32(message[_CRC_FROM:]) != header.crc & _WORD:
        raise MalformedError("its checksum (CRC-32) doesn't match")
    key, at = _bytes(message, _FIELDS_AT[header.magic])
    value, at = _bytes(message, at)
    if at != len(message):
        raise MalformedError("the fields of a message do not end at its last byte")
    time_type = int(header.log_append_time) if header.magic else -1
    return Message(header.base_offset, header.base_timestamp, time_type, key, value)


def _bytes(message: bytes, at: int) -> tuple[bytes | None, int]:
    size = int.from_bytes(message[at : at + 4], "big", signed=True)
    at += 4
    if size == -1:
        return None, at
    if not 0 <= size <= len(message) - at:
        raise MalformedError(f"the field has {size} bytes, but {len(message) - at} bytes are left")
    return message[at : at + size], at + size


def _inflate(header: BatchHeader, payload: bytes) -> bytes:
    if header.codec > _LZ4:
        raise MalformedError(f"the compression codec {header.codec} is not known")
    if header.codec == _LZ4 and header.magic == 0:
        payload = with_header_checksum(payload)  # Clients before Kafka 0.10 computed another one (KIP-57).
    buffer = DecompressionBuffer(expected_room([len(payload)]))
    buffer.add(header.codec, np.frombuffer(payload, np.uint8))
    return buffer.bytes.tobytes()


def _inner_headers(inner: bytes, outer: BatchHeader) -> list[BatchHeader]:
    """Returns the headers of the messages within a compressed message.

    Raises:
        MalformedError: A message is cut off, is compressed itself, or has another magic.
    """
    try:
        headers = list(batch_headers(inner))
    except CorruptRecordError as error:
        raise MalformedError(f"a message within it is damaged: {error}") from error
    if sum(each.size for each in headers) != len(inner) or not headers:
        raise MalformedError(
            "the messages within it do not end at its last byte, or there is no message in it"
        )
    if any(each.codec or each.magic != outer.magic for each in headers):
        raise MalformedError("a message within it is compressed again or of another format")
    return headers


def _absolute(messages: list[Message], outer: Message, header: BatchHeader) -> list[Message]:
    """Returns messages with absolute offsets and their final timestamps.

    In magic 1 the offsets within a compressed message are relative, and its own offset is that of its last message. If
    the broker sets timestamps (LogAppendTime), all messages have that of the outer one.
    """
    shift = outer.offset - messages[-1].offset if header.magic else 0
    time = outer.timestamp if header.log_append_time else None
    offsets = [each.offset + shift for each in messages]
    if offsets[0] < 0 or messages[-1].offset > outer.offset or any(b <= a for a, b in pairwise(offsets)):
        raise MalformedError("the offsets of its inner messages don't increase up to its own offset")
    return [
        each._replace(
            offset=offset,
            timestamp=each.timestamp if time is None else time,
            timestamp_type=outer.timestamp_type,
        )
        for each, offset in zip(messages, offsets, strict=True)
    ]
