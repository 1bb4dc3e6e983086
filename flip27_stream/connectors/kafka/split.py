"""A Kafka partition as a split, and its serializer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.errors import CorruptCheckpointError

EARLIEST = -2
"""The number that stands for the first offset of a partition, in requests and options (Flink ``EARLIEST_OFFSET``)."""

LATEST = -1
"""The number that stands for the end of a partition, in requests and options (Flink ``LATEST_OFFSET``)."""


class TopicPartition(NamedTuple):
    """A partition of a topic. Sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class KafkaPartitionSplit(SourceSplit):
    """One partition as a split. Its positions are offsets.

    Attributes:
        topic: The name of the topic.
        partition: The number of the partition.
        starting_offset: The first offset to read: in the enumerator, the start of an unplanned split; in a reader, the
            start of the planned range. :data:`EARLIEST` means the first offset of the log at that time.
        stopping_offset: The end offset (exclusive); ``None`` for a split that was not planned.
        topic_id: The id of the topic that the offsets belong to, for a reader; empty if it is not known. A topic that
            is deleted and created again has another id.
    """

    topic: str
    partition: int
    starting_offset: int = EARLIEST
    stopping_offset: int | None = None
    topic_id: str = ""

    def __hash__(self) -> int:
        return hash(self.split_id)

    @cached_property
    def split_id(self) -> str:
        return f"{self.topic}-{self.partition}"

    @cached_property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def between(self, start: int, end: int) -> KafkaPartitionSplit:
        return replace(self, starting_offset=start, stopping_offset=end)


class KafkaPartitionSplitSerializer(SimpleVersionedSerializer[KafkaPartitionSplit]):
    """Writes a split as its id, ``topic-number``. Offsets store the positions beside it.

    The name of a topic may have dashes, so the number is the text after the last dash.
    """

    version = 1

    def serialize(self, value: KafkaPartitionSplit) -> JsonValue:
        return value.split_id

    def deserialize(self, version: int, data: JsonValue) -> KafkaPartitionSplit:
        self.check_version("Kafka split", version)
        if isinstance(data, str):
            topic, _, number = data.rpartition("-")
            if topic and number.isascii() and number.isdigit():
                return KafkaPartitionSplit(topic, int(number))
        raise CorruptCheckpointError(f"A Kafka split is stored as 'topic-partition', not as {data!r}.")
