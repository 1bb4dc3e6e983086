"""Compares the topics of the cluster with those of the checkpoint, to find other topics of the same names."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.options.source_options import TRUSTED_CLUSTER, KafkaOptions
from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IdentityChanges:
    """The differences between the topics of the cluster and those of the checkpoint.

    Attributes:
        successors: The partitions that do not exist any more, or whose topic was replaced, with the id of the new
            topic; the id is empty if the partition does not exist.
        renamed: The partitions that go on at their offsets under another topic id, or on another cluster.
    """

    successors: Mapping[TopicPartition, str]
    renamed: frozenset[TopicPartition]


class TopicIdentities:
    """Compares topics by topic ids, and clusters by cluster ids.

    A topic that was deleted and created again has another id, and its offsets are meaningless. A topic that was
    migrated to another cluster has another id, too. Its offsets are valid if the user trusts that cluster
    (``trusted_cluster`` of the options). After the new identity of the topic is in the checkpoint, the option has no
    effect on it.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._trusted = options.trusted_cluster
        self._servers = options.connection.bootstrap_servers
        self._replaced: set[str] = set()

    def changes(
        self,
        partitions: Iterable[TopicPartition],
        state: KafkaEnumeratorState,
        topics: Mapping[str, TopicMetadata],
    ) -> IdentityChanges:
        """Returns the differences between the topics of the checkpoint and those of the cluster.

        Args:
            partitions: The partitions to compare.
            state: The topics of the checkpoint.
            topics: The topics of the cluster, by name.
        """
        successors: dict[TopicPartition, str] = {}
        renamed = set()
        unchanged = {
            name: topic.leaders
            for name, topic in topics.items()
            if (known := state.topics.get(name)) is not None and self._is_unchanged(known, topic)
        }
        for tp in partitions:
            if tp.partition in unchanged.get(tp.topic, ()):  # The usual case.
                continue
            topic, known = topics.get(tp.topic), state.topics[tp.topic]
            if (successor := self._successor(tp, known, topic)) is not None:
                successors[tp] = successor
            elif topic is not None and _has_news(known, topic):
                renamed.add(tp)
        return IdentityChanges(successors, frozenset(renamed))

    def replaced(self, name: str, known: AssignedTopic, topic: TopicMetadata) -> None:
        """Records that ``topic`` has replaced ``known``, the topic ``name`` of the checkpoint.

        A broker that still sends the id of ``known`` has outdated metadata.
        """
        self._replaced |= {known.topic_id} - {topic.topic_id, ""}
        if _is_elsewhere(known, topic.cluster_id):
            self._log_move(name, known, topic)

    def cause(self, known: AssignedTopic, cluster_id: str) -> str:
        """Returns the reason why a topic may have another id or be missing, for a message; "" on the same cluster.

        Args:
            known: The topic of the checkpoint.
            cluster_id: The id of the cluster that answers now.
        """
        if not cluster_id or known.cluster_id == cluster_id:
            return ""
        was = (
            f"is of Kafka cluster '{known.cluster_id}'"
            if known.cluster_id
            else "does not name its Kafka cluster"
        )
        other = f" (now it names '{self._trusted}')" if self._trusted not in (None, cluster_id) else ""
        return (
            f" The checkpoint {was}, and brokers of cluster '{cluster_id}' answer at {self._servers}. If the topics "
            "were migrated there with their offsets kept (cluster linking, a restore), set option "
            f"'{TRUSTED_CLUSTER.name}' to '{cluster_id}'{other}."
        )

    def _successor(self, tp: TopicPartition, known: AssignedTopic, topic: TopicMetadata | None) -> str | None:
        if topic is None or tp.partition not in topic.leaders:
            return ""
        if topic.topic_id in self._replaced:
            return ""  # The metadata is outdated: this broker does not know the new topic yet.
        is_other = known.topic_id and topic.topic_id and topic.topic_id != known.topic_id
        if (is_other and not self._is_trusted(known, topic)) or tp.partition in known.orphans:
            return topic.topic_id
        return None

    def _is_unchanged(self, known: AssignedTopic, topic: TopicMetadata) -> bool:
        """Returns whether a topic is that of the checkpoint, with each of its partitions that has a leader."""
        return not (known.orphans or topic.topic_id in self._replaced or _has_news(known, topic))

    def _is_trusted(self, known: AssignedTopic, topic: TopicMetadata) -> bool:
        """Returns whether the user trusts the cluster of ``topic`` and the checkpoint has the topic on another cluster.

        If the checkpoint has the topic on the trusted cluster already, a new id there means another topic.
        """
        return topic.cluster_id == self._trusted and topic.cluster_id != known.cluster_id

    def _log_move(self, name: str, known: AssignedTopic, topic: TopicMetadata) -> None:
        if topic.topic_id == known.topic_id != "":
            why = "its id is the same"
        elif self._is_trusted(known, topic):
            why = f"option '{TRUSTED_CLUSTER.name}' names that cluster"
        else:
            why = "without topic ids, another topic of this name cannot be detected"
        log.warning(
            "Topic '%s' was read from cluster '%s' and is now read from cluster '%s', at the same offsets: %s.",
            name,
            known.cluster_id,
            topic.cluster_id,
            why,
        )


def _has_news(known: AssignedTopic, topic: TopicMetadata) -> bool:
    is_moved = bool(topic.cluster_id) and topic.cluster_id != known.cluster_id
    return is_moved or (bool(topic.topic_id) and topic.topic_id != known.topic_id)


def _is_elsewhere(known: AssignedTopic, cluster_id: str) -> bool:
    return bool(known.cluster_id and cluster_id) and known.cluster_id != cluster_id
