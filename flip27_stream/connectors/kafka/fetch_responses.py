"""Fetch responses (versions 4 to 11) without copies: the records stay where they were received."""

from __future__ import annotations

import struct

from flip27_stream.connectors.kafka.protocol import Fetched, refused
from flip27_stream.connectors.kafka.split import TopicPartition

VERSIONS = (4, 11)
"""The least and the greatest that are understood: Kafka 0.11 began with 4, and 12 is another encoding of the same."""

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_ERROR_AND_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_PARTITION = struct.Struct(">ihqq")


def read_fetch_response(body: memoryview, version: int) -> dict[TopicPartition, Fetched]:
    """The answers about each partition, whose records are views of ``body``.

    Raises:
        ConnectorError: the broker refused the whole request.
        struct.error: the response is cut off.
    """
    at = _INT.size  # throttle time
    if version >= 7:
        error, _session = _ERROR_AND_SESSION.unpack_from(body, at)
        at += _ERROR_AND_SESSION.size
        if error:
            raise refused("a fetch", error)
    answers: dict[TopicPartition, Fetched] = {}
    topics, at = _int(body, at)
    for _ in range(topics):
        (size,) = _SHORT.unpack_from(body, at)
        at += _SHORT.size + size
        topic = str(body[at - size : at], "utf-8")
        partitions, at = _int(body, at)
        for _ in range(partitions):
            number, answer, at = _partition(body, at, version)
            answers[TopicPartition(topic, number)] = answer
    return answers


def _partition(body: memoryview, at: int, version: int) -> tuple[int, Fetched, int]:
    number, error, _high_watermark, _last_stable_offset = _PARTITION.unpack_from(body, at)
    at += _PARTITION.size + (_LONG.size if version >= 5 else 0)  # log start offset
    count, at = _int(body, at)
    aborted = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(body, at))
        at += _ABORTED.size
    replica = -1
    if version >= 11:
        replica, at = _int(body, at)
    size, at = _int(body, at)
    end = at + max(size, 0)
    if end > len(body):
        raise struct.error("records are cut off")
    return number, Fetched(error, body[at:end], aborted, replica), end


def _int(body: memoryview, at: int) -> tuple[int, int]:
    return _INT.unpack_from(body, at)[0], at + _INT.size
