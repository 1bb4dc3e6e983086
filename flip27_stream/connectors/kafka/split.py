"""A Kafka partition as a split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.errors import CorruptCheckpointError

EARLIEST = -2
"""Stands for the first offset of a partition, on the wire and in options (Flink ``EARLIEST_OFFSET``)."""

LATEST = -1
"""Stands for the end of a partition, on the wire and in options (Flink ``LATEST_OFFSET``)."""


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class KafkaPartitionSplit(SourceSplit):
    """One partition. Its positions are offsets.

    Attributes:
        starting_offset: where reading begins, for the enumerator when the split was never planned and for a reader;
            :data:`EARLIEST` for wherever the log begins at that time.
        stopping_offset: where reading ends, exclusively; ``None`` for a split that was not planned.
        topic_id: of the topic that the offsets are of, for a reader; empty where it is not known. A topic that is
            deleted and made again has another one.
    """

    topic: str
    partition: int
    starting_offset: int = EARLIEST
    stopping_offset: int | None = None
    topic_id: str = ""

    def __hash__(self) -> int:
        return hash(self.topic_partition)

    @cached_property
    def split_id(self) -> str:
        return f"{self.topic}-{self.partition}"

    @cached_property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def between(self, start: int, end: int) -> KafkaPartitionSplit:
        return replace(self, starting_offset=start, stopping_offset=end)


class KafkaPartitionSplitSerializer(SimpleVersionedSerializer[KafkaPartitionSplit]):
    """The split's id, which says it all: positions are kept beside it. Topic names hold no line breaks, but dashes."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaPartitionSplit) -> JsonValue:
        return value.split_id

    def deserialize(self, version: int, data: JsonValue) -> KafkaPartitionSplit:
        self.check_version("Kafka split", version)
        if isinstance(data, str):
            topic, _, number = data.rpartition("-")
            if topic and number.isascii() and number.isdigit():
                return KafkaPartitionSplit(topic, int(number))
        raise CorruptCheckpointError(f"A Kafka split is stored as 'topic-partition', not as {data!r}.")
