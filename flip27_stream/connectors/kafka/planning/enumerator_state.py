"""The state that the enumerator keeps in a checkpoint, and its serializer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from flip27_stream.connectors.kafka.client.protocol import TopicMetadata


@dataclass(frozen=True)
class AssignedTopic:
    """A topic with partitions that were assigned.

    Attributes:
        topic_id: The id that distinguishes the topic from a later topic of the same name; empty if it is not known.
        partitions: The numbers of the assigned partitions.
        orphans: The assigned partitions that existed in an earlier topic of the same name, and not in this topic when
            it was found. If this topic gets partitions of these numbers, their logs are new.
        cluster_id: The id of the Kafka cluster where the topic was last seen; empty if it is not known.
    """

    topic_id: str
    partitions: tuple[int, ...]
    orphans: tuple[int, ...] = ()
    cluster_id: str = ""


@dataclass(frozen=True)
class KafkaEnumeratorState:
    """The partitions that were assigned (Flink ``KafkaSourceEnumState``). The coordinator keeps the positions.

    Attributes:
        topics: The topics of these partitions, by name.
        initial_discovery_finished: Whether the initial discovery is done. Partitions found later are read from offset
            0.
        stopping_offsets: The offset at which each partition ends, exclusively; ``None`` for an unbounded source.
            Partitions that are not in this mapping are not read.
        leader_epochs: The epoch of the leader of each partition when its position was planned, if it is known. All
            records before the position were written by leaders up to this epoch.
    """

    topics: Mapping[str, AssignedTopic] = field(default_factory=dict)
    initial_discovery_finished: bool = False
    stopping_offsets: Mapping[TopicPartition, int] | None = None
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    @cached_property
    def epochs_by_topic(self) -> dict[str, JsonValue]:
        """The epochs of leaders by topic, in the order of its partitions; -1 for an epoch that is not known.

        A topic without known epochs is left out. The result is made once, since every offset has it.
        """
        known = self.leader_epochs
        return {
            name: [known.get(TopicPartition(name, n), -1) for n in self.topics[name].partitions]
            for name in sorted({tp.topic for tp in known} & self.topics.keys())
        }

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        """The assigned partitions of all topics."""
        return frozenset(
            TopicPartition(name, n) for name, topic in self.topics.items() for n in topic.partitions
        )

    def for_reader(
        self, split: KafkaPartitionSplit, trusted_cluster: str | None = None
    ) -> KafkaPartitionSplit:
        """Returns the split with the id of its topic, or unchanged if the id is not known.

        If the user trusts the offsets of a cluster other than that of this state, the topic has another id there, which
        is not known until the next plan.

        Args:
            split: A split without a topic id.
            trusted_cluster: The id of the cluster whose offsets the user trusts.
        """
        topic_id = self.topic_id_for_reader(split.topic_partition, trusted_cluster)
        return replace(split, topic_id=topic_id) if topic_id else split

    def topic_id_for_reader(self, tp: TopicPartition, trusted_cluster: str | None = None) -> str:
        """Returns the id of the topic of a partition, as in :meth:`for_reader`; empty if it is not known."""
        topic = self.topics.get(tp.topic)
        if topic is None or tp.partition in topic.orphans:
            return ""
        if trusted_cluster is not None and topic.cluster_id != trusted_cluster:
            return ""
        return topic.topic_id

    def topic_ids_for_reader(
        self, partitions: Iterable[TopicPartition], trusted_cluster: str | None = None
    ) -> dict[TopicPartition, str]:
        """Returns :meth:`topic_id_for_reader` of many partitions."""
        ids = {
            name: topic.topic_id if trusted_cluster in (None, topic.cluster_id) else ""
            for name, topic in self.topics.items()
        }
        orphans = {TopicPartition(name, n) for name, topic in self.topics.items() for n in topic.orphans}
        found = {tp: ids.get(tp.topic, "") for tp in partitions}
        return found | dict.fromkeys(orphans & found.keys(), "")

    def with_partitions(self, new: Mapping[TopicPartition, str]) -> KafkaEnumeratorState:
        """Returns the state with newly assigned partitions; ``new`` maps each partition to the id of its topic."""
        topics = dict(self.topics)
        for name, group in groupby(sorted(new.items()), lambda item: item[0].topic):
            added = list(group)
            known = topics.get(name, AssignedTopic(added[0][1], ()))
            numbers = {*known.partitions, *(tp.partition for tp, _ in added)}
            topics[name] = replace(known, partitions=tuple(sorted(numbers)))
        return replace(self, topics=topics, initial_discovery_finished=True)

    def without(self, partitions: Collection[TopicPartition]) -> KafkaEnumeratorState:
        """Returns the state without these partitions."""
        kept = {
            name: replace(
                topic,
                partitions=tuple(n for n in topic.partitions if (name, n) not in partitions),
                orphans=tuple(n for n in topic.orphans if (name, n) not in partitions),
            )
            for name, topic in self.topics.items()
        }
        topics = {name: topic for name, topic in kept.items() if topic.partitions}
        return replace(self, topics=topics).without_epochs(partitions)

    def with_successors(self, recreated: Mapping[TopicPartition, str]) -> KafkaEnumeratorState:
        """Returns the state with the ids of recreated topics.

        Args:
            recreated: The new topic id, by partition.
        """
        topics = dict(self.topics)
        for tp, topic_id in recreated.items():
            known = topics[tp.topic]
            before = known.orphans if known.topic_id == topic_id else known.partitions
            orphans = tuple(n for n in before if n != tp.partition)
            topics[tp.topic] = replace(known, topic_id=topic_id, orphans=orphans)
        return replace(self, topics=topics).without_epochs(recreated)

    def with_identities(self, identified: Mapping[str, TopicMetadata]) -> KafkaEnumeratorState:
        """Returns the state with the current ids of topics and clusters; an id that brokers do not send stays.

        Args:
            identified: The current metadata of topics, by name.
        """
        topics = dict(self.topics)
        for name, topic in identified.items():
            known = topics[name]
            cluster = topic.cluster_id or known.cluster_id
            keeps = not topic.topic_id and cluster == known.cluster_id
            topics[name] = replace(
                known, topic_id=known.topic_id if keeps else topic.topic_id, cluster_id=cluster
            )
        moved = [tp for tp in self.leader_epochs if tp.topic in identified]
        return replace(self, topics=topics).without_epochs(moved)

    def with_leader_epochs(self, epochs: Mapping[TopicPartition, int]) -> KafkaEnumeratorState:
        """Returns the state with the epochs of these leaders, by partition."""
        return replace(self, leader_epochs={**self.leader_epochs, **epochs})

    def without_epochs(self, partitions: Collection[TopicPartition]) -> KafkaEnumeratorState:
        """Returns the state without the epochs of these partitions, whose present log has leaders of its own."""
        if not partitions or not self.leader_epochs:
            return self
        kept = {tp: epoch for tp, epoch in self.leader_epochs.items() if tp not in partitions}
        return replace(self, leader_epochs=kept)


class KafkaEnumeratorStateSerializer(SimpleVersionedSerializer[KafkaEnumeratorState]):
    """Writes the state as ``{"cluster": id, "discovered": true, "topics": {name: [topic id, [partition, ...]]}}``.

    A bounded source has ``"stops": {name: [[partition, offset], ...]}`` (since version 2). A topic with orphans has a
    list of these after its partitions (since version 3). ``cluster`` is the id that most topics have, and is left out
    if it is not known (since version 4). A topic of another cluster has that cluster's id as its last element.
    ``"epochs": {name: [epoch, ...]}`` has the epochs of leaders (since version 5), in the order of the topic's
    partitions; -1 stands for an epoch that is not known. A topic without known epochs is left out.
    """

    version = 5

    def serialize(self, value: KafkaEnumeratorState) -> JsonValue:
        cluster = _most_common(topic.cluster_id for topic in value.topics.values())
        topics = {name: _topic_to_json(topic, cluster) for name, topic in sorted(value.topics.items())}
        state: dict[str, JsonValue] = {"discovered": value.initial_discovery_finished, "topics": topics}
        if cluster:
            state["cluster"] = cluster
        if value.stopping_offsets is not None:
            state["stops"] = _stops_to_json(value.stopping_offsets)
        if value.epochs_by_topic:
            state["epochs"] = value.epochs_by_topic
        return state

    def deserialize(self, version: int, data: JsonValue) -> KafkaEnumeratorState:
        self.check_version("state of the Kafka enumerator", version)
        match data:
            case {"discovered": bool(discovered), "topics": dict(topics), **more}:
                stops = _stops_from_json(more["stops"]) if "stops" in more else None
                cluster = more.get("cluster", "")
                if isinstance(cluster, str):
                    assigned = {
                        name: _topic_from_json(name, topic, cluster) for name, topic in topics.items()
                    }
                    epochs = _epochs_from_json(more.get("epochs", {}), assigned)
                    return KafkaEnumeratorState(assigned, discovered, stops, epochs)
        raise CorruptCheckpointError(
            f"The state of the Kafka enumerator (version {version}) does not have the form of that version: {data!r}."
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
                        f"The state of the Kafka enumerator has end offsets of an unknown form: {data!r}."
                    )
    return stops


def _epochs_from_json(data: object, topics: Mapping[str, AssignedTopic]) -> dict[TopicPartition, int]:
    epochs: dict[TopicPartition, int] = {}
    by_topic: Mapping[str, object] = data if isinstance(data, dict) else {"": data}
    for name, stored in by_topic.items():
        numbers = _numbers(stored)
        if name not in topics or numbers is None or len(numbers) != len(topics[name].partitions):
            raise CorruptCheckpointError(
                f"The state of the Kafka enumerator has epochs of leaders in an unknown form: {data!r}."
            )
        pairs = zip(topics[name].partitions, numbers, strict=True)
        epochs.update({TopicPartition(name, n): epoch for n, epoch in pairs if epoch >= 0})
    return epochs


def _most_common(clusters: Iterable[str]) -> str:
    counted = Counter(clusters)
    return min(counted, key=lambda cluster: (-counted[cluster], cluster), default="")


def _topic_to_json(topic: AssignedTopic, cluster: str) -> JsonValue:
    orphans: list[JsonValue] = [list(topic.orphans)] if topic.orphans else []
    own: list[JsonValue] = [topic.cluster_id] if topic.cluster_id != cluster else []
    return [topic.topic_id, list(topic.partitions), *orphans, *own]


def _topic_from_json(name: str, data: JsonValue, cluster: str) -> AssignedTopic:
    match data:
        case [str(topic_id), *lists, str(own)] if lists and isinstance(lists[-1], list):
            return replace(_topic_from_json(name, [topic_id, *lists], ""), cluster_id=own)
        case [str(topic_id), *lists] if len(lists) in (1, 2):
            numbers = [found for each in lists if (found := _numbers(each)) is not None]
            if len(numbers) == len(lists):
                orphans = numbers[1] if len(numbers) > 1 else ()
                return AssignedTopic(topic_id, numbers[0], orphans, cluster)
    raise CorruptCheckpointError(
        f"The state of the Kafka enumerator has topic '{name}' in an unknown form: {data!r}."
    )


def _numbers(data: object) -> tuple[int, ...] | None:
    numbers = tuple(n for n in data if type(n) is int) if isinstance(data, list) else ()
    return numbers if data == list(numbers) else None
