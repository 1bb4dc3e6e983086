"""The partitions that exist when an AvailableNow run begins, and must not be lost before it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import DataLossError


class PartitionsAtStart:
    """Keeps the partitions that exist when an AvailableNow run begins, and fails if one of them is lost.

    Spark's source fails then even without ``failOnDataLoss``, and so does this one (scenario SK-02).
    """

    def __init__(self) -> None:
        self._topic_ids: Mapping[TopicPartition, str] | None = None

    @property
    def are_kept(self) -> bool:
        """Whether :meth:`keep` was called, that is, whether this is an AvailableNow run."""
        return self._topic_ids is not None

    def keep(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Keeps the partitions of ``topics``, by name."""
        self._topic_ids = _partitions(topics)

    def refuse_lost(
        self, found: Mapping[TopicPartition, str | None], topics: Mapping[str, TopicMetadata]
    ) -> None:
        """Fails if partitions were lost during the run. Does nothing in other runs.

        Args:
            found: The current topic id of partitions that may be lost; ``None`` for a partition that does not exist.
            topics: The current metadata of the topics, by name.

        Raises:
            DataLossError: A partition was deleted or recreated during the run.
        """
        kept = self._topic_ids or {}
        lost = [tp for tp, topic_id in found.items() if tp in kept and kept[tp] != topic_id]
        if lost:
            raise DataLossError(
                "Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow. "
                "Make sure topic partitions are not dropped, or created again, during the query run. "
                f"topic-partitions for latest offset: {_names(_partitions(topics))}, "
                f"lost topic-partitions for end offset: {_names(lost)}"
            )


def _partitions(topics: Mapping[str, TopicMetadata]) -> dict[TopicPartition, str]:
    """Returns the ids of the topics of all partitions in ``topics``, by partition."""
    return {TopicPartition(name, n): topic.topic_id for name, topic in topics.items() for n in topic.leaders}


def _names(partitions: Collection[TopicPartition]) -> str:
    return f"[{', '.join(map(str, sorted(partitions)))}]"
