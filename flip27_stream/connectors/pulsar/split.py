"""A partition of a persistent topic as a split."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class PulsarPartitionSplit(SourceSplit):
    """A partition of a topic, or a topic that is not partitioned (Flink ``PulsarPartitionSplit``).

    Attributes:
        topic: The full name of the partition, such as ``persistent://public/default/clicks-partition-0``.
        initial: Whether the initial discovery found it, so that it begins at the position in the options. Partitions
            that were found later are read from their first message.
        start: The position to read from; see :mod:`flip27_stream.connectors.pulsar.positions`.
        end: The position to read up to; ``None`` for a split that is not bounded.
    """

    topic: str
    initial: bool = True
    start: int = 0
    end: int | None = None

    positions_count_rows = False

    @property
    def split_id(self) -> str:
        return self.topic

    def between(self, start: int, end: int) -> PulsarPartitionSplit:
        return replace(self, start=start, end=end)


class PulsarPartitionSplitSerializer(SimpleVersionedSerializer[PulsarPartitionSplit]):
    """Serializes a split as ``[topic, initial]``."""

    version = 1

    def serialize(self, value: PulsarPartitionSplit) -> JsonValue:
        return [value.topic, value.initial]

    def deserialize(self, version: int, data: JsonValue) -> PulsarPartitionSplit:
        self.check_version("Pulsar split", version)
        match data:
            case [str(topic), bool(initial)]:
                return PulsarPartitionSplit(topic, initial)
        raise CorruptCheckpointError(f"A Pulsar split is stored as [topic, initial], not as {data!r}.")
