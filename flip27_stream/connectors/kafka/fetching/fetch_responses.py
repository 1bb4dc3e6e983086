"""Reads Fetch responses (versions 4 to 13) without copying the records."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import errors as kafka_errors

from flip27_stream.connectors.kafka.client.protocol import (
    FETCH_BY_TOPIC_ID,
    FetchedPartition,
    FetchFrom,
    refusal,
    retriable,
)
from flip27_stream.connectors.kafka.fetching.response_fields import FlexibleFields, ResponseFields
from flip27_stream.connectors.kafka.split import TopicPartition

LEAST_VERSION = 4
"""The first version of Fetch with record batches (Kafka 0.11)."""

_THROTTLED_BY_CLIENT = 8  # In lower versions the broker itself waits before it answers (KIP-219).
_FLEXIBLE = 12
_INT = struct.Struct(">i")
_ERROR_AND_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_PARTITION = struct.Struct(">ihqq")
_LOG_START = struct.Struct(">q")
_UUID_BYTES = 16


@dataclass(frozen=True)
class FetchResponse:
    """The response of a broker to a fetch.

    Attributes:
        partitions: The answer by partition. Its records are views of the response.
        throttle_ms: The time for which the broker accepts no further request, in ms.
    """

    partitions: Mapping[TopicPartition, FetchedPartition]
    throttle_ms: int = 0


def read_fetch_response(
    body: memoryview, version: int, asked: Mapping[TopicPartition, FetchFrom]
) -> FetchResponse:
    """Returns the parsed response to a fetch.

    Args:
        body: The bytes after the correlation id.
        version: The version of request and response.
        asked: The partitions of the request, which give the names of topic ids from version 13 on.

    Raises:
        ConnectorError: The broker refused the whole request.
        OSError: The broker refused the whole request with a retriable error.
        struct.error: The response is cut off, or does not belong to this request.
    """
    fields = FlexibleFields(body) if version >= _FLEXIBLE else ResponseFields(body)
    fields.skip_tags()  # The tags of the response's header.
    (throttle_ms,) = fields.numbers(_INT)
    if version >= 7:
        error, _session = fields.numbers(_ERROR_AND_SESSION)
        _check(error)
    by_id = version >= FETCH_BY_TOPIC_ID
    names = {uuid.UUID(at.topic_id).bytes: tp.topic for tp, at in asked.items()} if by_id else {}
    answers: dict[TopicPartition, FetchedPartition] = {}
    for _ in range(fields.count()):
        topic = _name(fields, names) if by_id else fields.text()
        for _ in range(fields.count()):
            number, answer = _partition(fields, version)
            answers[TopicPartition(topic, number)] = answer
        fields.skip_tags()
    fields.skip_tags()
    return FetchResponse(answers, max(throttle_ms, 0) if version >= _THROTTLED_BY_CLIENT else 0)


def _check(error: int) -> None:
    if error and retriable(error):
        raise ConnectionAbortedError(f"the broker refused the fetch: {kafka_errors.for_code(error).__name__}")
    if error:
        raise refusal("a fetch", error)


def _name(fields: ResponseFields, names: Mapping[bytes, str]) -> str:
    topic_id = bytes(fields.take(_UUID_BYTES))
    if topic_id not in names:
        raise struct.error(f"topic {uuid.UUID(bytes=topic_id)} was not asked for")
    return names[topic_id]


def _partition(fields: ResponseFields, version: int) -> tuple[int, FetchedPartition]:
    number, error, _high_watermark, _last_stable_offset = fields.numbers(_PARTITION)
    if version >= 5:
        fields.numbers(_LOG_START)
    aborted: list[tuple[int, int]] = []
    for _ in range(fields.count()):
        producer, first = fields.numbers(_ABORTED)
        aborted.append((producer, first))
        fields.skip_tags()
    replica = -1
    if version >= 11:
        (replica,) = fields.numbers(_INT)
    records = fields.take(fields.count())
    fields.skip_tags()
    return number, FetchedPartition(error, records, aborted, replica)
