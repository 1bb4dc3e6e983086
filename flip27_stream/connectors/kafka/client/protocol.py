"""The requests of the source and their responses as small values. kafka-python encodes and decodes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from kafka import errors as kafka_errors

from flip27_stream.connectors.kafka.kafka_python.messages import FetchRequest, ListOffsetsRequest
from flip27_stream.connectors.kafka.kafka_python.request_partitions import (
    FetchPartition,
    ListOffsetsPartition,
)
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError

MAX_TIMESTAMP = -3
"""The marker that asks ListOffsets for the record with the greatest timestamp (KIP-734)."""

FETCH_BY_NAME = 11
"""The greatest version of Fetch for requests in which the id of a topic is not known."""

FETCH_BY_TOPIC_ID = 13
"""The first version of Fetch with topic ids instead of names (KIP-516, Kafka 3.1)."""

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
_UNKNOWN_TOPIC_OR_PARTITION = 3
_INVALID_TOPIC = 17
_NO_TOPIC = (_UNKNOWN_TOPIC_OR_PARTITION, _INVALID_TOPIC)
_LEADER_NOT_AVAILABLE = 5
_UNSUPPORTED_VERSION = 35
_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
UNKNOWN_SERVER_ERROR = -1
_NOT_AUTHORIZED = frozenset({29, 31})
_RETRIABLE = frozenset({-1, 3, 5, 6, 7, 8, 9, 13, 56, 72, 74, 75, 78, 100, 103})
_NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class TopicMetadata:
    """The metadata of a topic.

    Attributes:
        topic_id: The id of the topic; empty if brokers do not send it. A topic that is deleted and created again has
            another id.
        internal: Whether it is an internal topic of Kafka.
        leaders: The leader's broker id by partition number; -1 if the partition has no leader.
        cluster_id: The id of the Kafka cluster; empty if brokers do not send it.
    """

    topic_id: str
    internal: bool
    leaders: Mapping[int, int]
    cluster_id: str = ""


@dataclass(slots=True, unsafe_hash=True)  # Creating a frozen object takes five times as long.
class OffsetAndTimestamp:
    """The answer of ListOffsets about one partition. Its attributes must not be set again.

    Attributes:
        offset: The offset; -1 if no record matches.
        timestamp: The timestamp of the record in ms; -1 without a timestamp.
        late: Whether the answer came more than 5 s after the request, which may be that of an earlier round.
        epoch: The epoch of the leader, which is greater for each new leader; -1 if brokers do not send it.
    """

    offset: int
    timestamp: int
    late: bool = field(default=False, compare=False)
    epoch: int = field(default=-1, compare=False)


class FetchFrom(NamedTuple):
    """The offset and size to fetch of one partition.

    Attributes:
        offset: The first offset to fetch.
        max_bytes: The greatest size of the records, in bytes.
        topic_id: The id of the topic; if it is empty, the request names the topic.
    """

    offset: int
    max_bytes: int
    topic_id: str = ""


@dataclass(slots=True)  # Creating a frozen object takes five times as long.
class FetchedPartition:
    """The answer of Fetch about one partition. Its attributes must not be set again.

    Attributes:
        error: The error code; 0 for success.
        records: The record batches as they are in the log.
        aborted: The aborted transactions, each as (producer id, first offset).
        preferred_replica: The id of the broker to fetch from instead (KIP-392); -1 without such a broker.
    """

    error: int
    records: bytes | memoryview
    aborted: list[tuple[int, int]]
    preferred_replica: int = -1


def refusal(what: str, error: int) -> ConnectorError:
    """Returns the error for an error code after which a retry does not help."""
    kind = kafka_errors.for_code(error)
    return ConnectorError(
        f"Kafka refused {what}: {kind.__name__} (error {error}). {getattr(kind, 'description', '')}"
    )


def retriable(error: int) -> bool:
    """Returns whether new metadata and a retry may help after an error code."""
    return error in _RETRIABLE


def forbidden(error: int) -> bool:
    """Returns whether an error code of ListOffsets means that this client is not authorized.

    Other errors are retried, as Java's client does.
    """
    return error in _NOT_AUTHORIZED


def unanswerable(error: int, timestamp: int) -> bool:
    """Returns whether a leader cannot look up this timestamp, or not :data:`MAX_TIMESTAMP` (KIP-734)."""
    return error == _UNSUPPORTED_FOR_MESSAGE_FORMAT or (
        timestamp == MAX_TIMESTAMP and error == _UNSUPPORTED_VERSION
    )


def fetch_version(wanted: Mapping[TopicPartition, FetchFrom]) -> int:
    """Returns the greatest version of Fetch for these partitions."""
    return FETCH_BY_TOPIC_ID if all(at.topic_id for at in wanted.values()) else FETCH_BY_NAME


def fetch_request(
    wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int, max_wait_ms: int
) -> Any:
    """Returns a FetchRequest for partitions of one leader.

    It has the names and the ids of topics; its version decides which of the two are sent.

    Args:
        wanted: The offset and size to fetch, by partition.
        read_committed: Whether the isolation level is ``read_committed``.
        max_bytes: The greatest size of the response, in bytes.
        max_wait_ms: The longest time that the broker may wait for the first byte, in ms.
    """
    topics = [
        FetchRequest.FetchTopic(
            topic=topic,
            topic_id=topic_id or None,
            partitions=[FetchPartition(tp.partition, at.offset, at.max_bytes) for tp, at in group],
        )
        for (topic, topic_id), group in groupby(
            wanted.items(), lambda item: (item[0].topic, item[1].topic_id)
        )
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=topics,
        max_version=fetch_version(wanted),
    )


def fetched_partitions(
    response: Any, wanted: Mapping[TopicPartition, FetchFrom]
) -> dict[TopicPartition, FetchedPartition]:
    """Returns the answers in a FetchResponse (of kafka-python) to a request for ``wanted``, by partition."""
    names = {at.topic_id: tp.topic for tp, at in wanted.items()}
    return {
        TopicPartition(name, p.partition_index): FetchedPartition(
            p.error_code,
            p.records or b"",
            [(a.producer_id, a.first_offset) for a in p.aborted_transactions or ()],
        )
        for topic in response.responses or ()
        if (name := topic.topic or names.get(str(topic.topic_id)))
        for p in topic.partitions or ()
    }


def unsure_topics(response: Any) -> dict[str, str]:
    """Returns the names of the retriable errors in a MetadataResponse, by topic."""
    return {
        topic.name: kafka_errors.for_code(topic.error_code).__name__
        for topic in response.topics or ()
        if topic.error_code not in (*_NO_TOPIC, _LEADER_NOT_AVAILABLE) and retriable(topic.error_code)
    }


def topics_in(response: Any) -> dict[str, TopicMetadata]:
    """Returns the topics in a MetadataResponse that exist, by name.

    Raises:
        ConnectorError: The cluster refuses the request about a topic.
    """
    found: dict[str, TopicMetadata] = {}
    for topic in response.topics or ():
        if topic.error_code in _NO_TOPIC:
            continue
        if topic.error_code not in (0, _LEADER_NOT_AVAILABLE):
            raise refusal(f"metadata of topic '{topic.name}'", topic.error_code)
        leaders = {p.partition_index: p.leader_id for p in topic.partitions}
        topic_id = "" if str(topic.topic_id) in (_NO_TOPIC_ID, "None") else str(topic.topic_id)
        found[topic.name] = TopicMetadata(
            topic_id, bool(topic.is_internal), leaders, response.cluster_id or ""
        )
    return found


def list_offsets_request(wanted: Mapping[TopicPartition, int], read_committed: bool) -> Any:
    """Returns a ListOffsetsRequest for partitions of one leader; ``wanted`` has timestamps (ms) or markers."""
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for tp, timestamp in wanted.items():
        by_topic[tp.topic].append(ListOffsetsPartition(tp.partition, timestamp))
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=ps) for name, ps in by_topic.items()]
    least = 7 if MAX_TIMESTAMP in wanted.values() else 1
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(read_committed), topics=topics, timeout_ms=5000, min_version=least
    )


def partition_offsets(response: Any, *, late: bool) -> dict[TopicPartition, tuple[int, OffsetAndTimestamp]]:
    """Returns the error code and the answer of each partition in a ListOffsetsResponse, by partition.

    Args:
        response: The response.
        late: See :class:`OffsetAndTimestamp`.
    """
    return {
        TopicPartition(topic.name, p.partition_index): (
            p.error_code,
            OffsetAndTimestamp(p.offset, p.timestamp, late, p.leader_epoch),
        )
        for topic in response.topics or ()
        for p in topic.partitions or ()
    }
