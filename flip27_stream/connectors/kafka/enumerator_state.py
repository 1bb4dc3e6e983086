"""What the enumerator keeps in a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class AssignedTopic:
    """A topic that splits were made of: its id, which tells a topic from its successor of the same name.

    ``orphans`` are those of the partitions that belonged to a predecessor, and that this topic did not have when it was
    found. If it gets them, they are other logs.
    """

    topic_id: str
    partitions: tuple[int, ...]
    orphans: tuple[int, ...] = ()


@dataclass(frozen=True)
class KafkaEnumeratorState:
    """The partitions that were assigned (Flink ``KafkaSourceEnumState``). Positions are the coordinator's business.

    Attributes:
        topics: by name.
        initial_discovery_finished: partitions found from now on are read from their beginning.
        stopping_offsets: where reading ends, exclusively; ``None`` for a stream without end. No partition is read that
            is not in here.
    """

    topics: Mapping[str, AssignedTopic] = field(default_factory=dict)
    initial_discovery_finished: bool = False
    stopping_offsets: Mapping[TopicPartition, int] | None = None

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(name, n) for name, topic in self.topics.items() for n in topic.partitions
        )

    def for_reader(self, split: KafkaPartitionSplit) -> KafkaPartitionSplit:
        """With the id of the topic that the positions of the split are of, empty where it is not known."""
        topic = self.topics.get(split.topic)
        if topic is None or split.partition in topic.orphans:
            return split
        return replace(split, topic_id=topic.topic_id)

    def with_partitions(self, new: Mapping[TopicPartition, str]) -> KafkaEnumeratorState:
        """With partitions that were assigned now, and the ids of their topics."""
        topics = dict(self.topics)
        for tp, topic_id in sorted(new.items()):
            known = topics.get(tp.topic, AssignedTopic(topic_id, ()))
            topics[tp.topic] = replace(known, partitions=tuple(sorted({*known.partitions, tp.partition})))
        return replace(self, topics=topics, initial_discovery_finished=True)

    def without(self, partitions: Collection[TopicPartition]) -> KafkaEnumeratorState:
        """As if these partitions had not been found."""
        kept = {
            name: AssignedTopic(
                topic.topic_id,
                tuple(n for n in topic.partitions if (name, n) not in partitions),
                tuple(n for n in topic.orphans if (name, n) not in partitions),
            )
            for name, topic in self.topics.items()
        }
        return replace(self, topics={name: topic for name, topic in kept.items() if topic.partitions})

    def with_successors(self, recreated: Mapping[TopicPartition, str]) -> KafkaEnumeratorState:
        """With the ids of topics that were deleted and made again, by the partitions that go on in these."""
        topics = dict(self.topics)
        for tp, topic_id in recreated.items():
            known = topics[tp.topic]
            before = known.orphans if known.topic_id == topic_id else known.partitions
            orphans = tuple(n for n in before if n != tp.partition)
            topics[tp.topic] = AssignedTopic(topic_id, known.partitions, orphans)
        return replace(self, topics=topics)


class KafkaEnumeratorStateSerializer(SimpleVersionedSerializer[KafkaEnumeratorState]):
    """``{"discovered": true, "topics": {name: [topic id, [partition, ...]]}}``.

    Of a bounded source also ``"stops": {name: [[partition, offset], ...]}``, which version 1 did not know. A topic with
    orphans has a list of these, too, which version 2 did not know.
    """

    @property
    def version(self) -> int:
        return 3

    def serialize(self, value: KafkaEnumeratorState) -> JsonValue:
        topics = {name: _topic_to_json(topic) for name, topic in sorted(value.topics.items())}
        state: dict[str, JsonValue] = {"discovered": value.initial_discovery_finished, "topics": topics}
        if value.stopping_offsets is not None:
            state["stops"] = _stops_to_json(value.stopping_offsets)
        return state

    def deserialize(self, version: int, data: JsonValue) -> KafkaEnumeratorState:
        self.check_version("state of the Kafka enumerator", version)
        match data:
            case {"discovered": bool(discovered), "topics": dict(topics), **bounds}:
                stops = _stops_from_json(bounds["stops"]) if "stops" in bounds else None
                assigned = {name: _topic_from_json(name, topic) for name, topic in topics.items()}
                return KafkaEnumeratorState(assigned, discovered, stops)
        raise CorruptCheckpointError(
            f"The state of the Kafka enumerator (version {version}) is not of its form: {data!r}."
        )


def _stops_to_json(stops: Mapping[TopicPartition, int]) -> JsonValue:
    by_topic: dict[str, JsonValue] = {}
    for topic, group in groupby(sorted(stops.items()), lambda item: item[0].topic):
        by_topic[topic] = [[tp.partition, offset] for tp, offset in group]
    return by_topic


def _stops_from_json(data: object) -> dict[TopicPartition, int]:
    stops = {}
    for topic, pairs in data.items() if isinstance(data, dict) else [("", data)]:
        for pair in pairs if isinstance(pairs, list) else [pairs]:
            match pair:
                case [int(partition), int(offset)] if topic:
                    stops[TopicPartition(topic, partition)] = offset
                case _:
                    raise CorruptCheckpointError(
                        f"The state of the Kafka enumerator has stops that are not of their form: {data!r}."
                    )
    return stops


def _topic_to_json(topic: AssignedTopic) -> JsonValue:
    orphans: list[JsonValue] = [list(topic.orphans)] if topic.orphans else []
    return [topic.topic_id, list(topic.partitions), *orphans]


def _topic_from_json(name: str, data: JsonValue) -> AssignedTopic:
    match data:
        case [str(topic_id), *lists] if len(lists) in (1, 2):
            numbers = [found for each in lists if (found := _numbers(each)) is not None]
            if len(numbers) == len(lists):
                return AssignedTopic(topic_id, *numbers)
    raise CorruptCheckpointError(
        f"The state of the Kafka enumerator has a topic '{name}' that is not of its form: {data!r}."
    )


def _numbers(data: JsonValue) -> tuple[int, ...] | None:
    numbers = tuple(n for n in data if type(n) is int) if isinstance(data, list) else ()
    return numbers if data == list(numbers) else None
