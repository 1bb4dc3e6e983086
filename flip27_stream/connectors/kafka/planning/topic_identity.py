"""Whether the topics that are there are those that a checkpoint has, or others of the same names."""

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
    """How topics differ from those that a checkpoint has.

    Attributes:
        successors: partitions whose topic is another one, with that topic's id; it is empty if there is none.
        renamed: partitions that go on at their offsets under another topic id, or on another cluster.
    """

    successors: Mapping[TopicPartition, str]
    renamed: frozenset[TopicPartition]


class TopicIdentities:
    """Compares topics by their ids, and their clusters by theirs.

    A topic that was deleted and made again has another id, and its offsets mean nothing. So has one that was migrated
    to another cluster with its offsets kept; these are good if the user says so of that cluster. Once the topic's new
    identity is in the checkpoint, that word has no further effect.
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
        """What differs between ``state`` and ``topics``, which are there."""
        successors: dict[TopicPartition, str] = {}
        renamed = set()
        for tp in partitions:
            topic, known = topics.get(tp.topic), state.topics[tp.topic]
            if (successor := self._successor(tp, known, topic)) is not None:
                successors[tp] = successor
            elif topic is not None and _has_news(known, topic):
                renamed.add(tp)
        return IdentityChanges(successors, frozenset(renamed))

    def replaced(self, known: AssignedTopic, topic: TopicMetadata) -> None:
        """From now on a broker that tells of ``known`` does not know of ``topic`` yet."""
        self._replaced |= {known.topic_id} - {topic.topic_id, ""}
        if _is_elsewhere(known, topic.cluster_id):
            self._log_move(known, topic)

    def cause(self, known: AssignedTopic, cluster_id: str) -> str:
        """Why a topic may have another id, or may be gone, now that ``cluster_id`` answers; "" for no migration."""
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
            return ""  # told by a broker that does not know of the successor yet
        is_other = known.topic_id and topic.topic_id and topic.topic_id != known.topic_id
        if (is_other and not self._is_trusted(known, topic)) or tp.partition in known.orphans:
            return topic.topic_id
        return None

    def _is_trusted(self, known: AssignedTopic, topic: TopicMetadata) -> bool:
        """Only where the checkpoint does not have the topic on that cluster yet: there a new id is another topic."""
        return topic.cluster_id == self._trusted and topic.cluster_id != known.cluster_id

    def _log_move(self, known: AssignedTopic, topic: TopicMetadata) -> None:
        if topic.topic_id == known.topic_id != "":
            why = "its id is the same"
        elif self._is_trusted(known, topic):
            why = f"option '{TRUSTED_CLUSTER.name}' names that cluster"
        else:
            why = "no topic ids tell whether it is another one"
        log.warning(
            "A topic of Kafka cluster '%s' is read on from cluster '%s' at its offsets: %s.",
            known.cluster_id,
            topic.cluster_id,
            why,
        )


def _has_news(known: AssignedTopic, topic: TopicMetadata) -> bool:
    is_moved = bool(topic.cluster_id) and topic.cluster_id != known.cluster_id
    return is_moved or (bool(topic.topic_id) and topic.topic_id != known.topic_id)


def _is_elsewhere(known: AssignedTopic, cluster_id: str) -> bool:
    return bool(known.cluster_id and cluster_id) and known.cluster_id != cluster_id
