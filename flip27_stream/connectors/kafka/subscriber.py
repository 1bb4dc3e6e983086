"""The choice of the partitions that a source reads (Flink ``KafkaSubscriber``, Spark ``ConsumerStrategy``)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import MissingTopicError, some_of

if TYPE_CHECKING:
    from flip27_stream.connectors.kafka.client.protocol import TopicMetadata


class KafkaSubscriber(ABC):
    """Chooses partitions from the topics of the cluster."""

    @property
    @abstractmethod
    def topic_names(self) -> Collection[str] | None:
        """The names of the topics to look up; ``None`` for all topics."""

    @property
    @abstractmethod
    def reads(self) -> str:
        """The topics or partitions, as the user named them."""

    @abstractmethod
    def partitions(self, topics: Mapping[str, TopicMetadata]) -> frozenset[TopicPartition]:
        """Returns the partitions to read, out of the existing ones."""

    @abstractmethod
    def names(self, tp: TopicPartition) -> bool:
        """Returns whether the option names this partition, which need not exist."""

    def missing(
        self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition]
    ) -> Collection[str]:
        """Returns the named topics, or partitions as ``topic-number``, that neither exist nor are in ``known``."""
        return ()

    def require(self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition] = ()) -> None:
        """Checks that all named topics and partitions exist.

        Args:
            topics: The existing topics by name.
            known: The partitions of the checkpoint; if these are missing, another check reports it.

        Raises:
            MissingTopicError: A topic or partition does not exist.
        """
        missing = ", ".join(sorted(self.missing(topics, known)))
        if missing:
            raise MissingTopicError(
                f"The Kafka cluster does not have the topics or partitions {missing}. "
                f"Create them before the query starts, or correct {self}."
            )


@dataclass(frozen=True)
class TopicListSubscriber(KafkaSubscriber):
    """All partitions of the named topics (option ``subscribe``)."""

    topics: tuple[str, ...]

    @property
    def topic_names(self) -> Collection[str]:
        return self.topics

    @property
    def reads(self) -> str:
        return ", ".join(self.topics)

    def partitions(self, topics: Mapping[str, TopicMetadata]) -> frozenset[TopicPartition]:
        return _all_partitions(topics, [name for name in self.topics if name in topics])

    def names(self, tp: TopicPartition) -> bool:
        return tp.topic in self.topics

    def missing(
        self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition]
    ) -> Collection[str]:
        return frozenset(self.topics) - topics.keys() - {tp.topic for tp in known}

    def __str__(self) -> str:
        return f"option 'subscribe' ({','.join(self.topics)})"


@dataclass(frozen=True)
class TopicPatternSubscriber(KafkaSubscriber):
    """All partitions of the topics whose whole name matches a regular expression (option ``subscribePattern``).

    Attributes:
        text: The expression in Java's syntax, as the user gave it.
        pattern: The expression translated for Python.
    """

    text: str
    pattern: re.Pattern[str]

    @property
    def topic_names(self) -> None:
        return None

    @property
    def reads(self) -> str:
        return self.text

    def partitions(self, topics: Mapping[str, TopicMetadata]) -> frozenset[TopicPartition]:
        matching = (
            name for name, topic in topics.items() if self.pattern.fullmatch(name) and not topic.internal
        )
        return _all_partitions(topics, matching)

    def names(self, tp: TopicPartition) -> bool:
        return self.pattern.fullmatch(tp.topic) is not None

    def __str__(self) -> str:
        return f"option 'subscribePattern' ({self.text})"


@dataclass(frozen=True)
class PartitionSetSubscriber(KafkaSubscriber):
    """Exactly the named partitions (option ``assign``)."""

    assigned: frozenset[TopicPartition]

    @property
    def topic_names(self) -> Collection[str]:
        return {tp.topic for tp in self.assigned}

    @property
    def reads(self) -> str:
        return ", ".join(map(str, sorted(self.assigned)))

    def partitions(self, topics: Mapping[str, TopicMetadata]) -> frozenset[TopicPartition]:
        return self.assigned & _all_partitions(topics, topics)

    def names(self, tp: TopicPartition) -> bool:
        return tp in self.assigned

    def missing(
        self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition]
    ) -> Collection[str]:
        return [str(tp) for tp in self.assigned - self.partitions(topics) - frozenset(known)]

    def __str__(self) -> str:
        return f"option 'assign' ({self.reads})"


def nothing_matches(subscriber: TopicPatternSubscriber, topics: Mapping[str, TopicMetadata]) -> str:
    """Returns the warning that a query reads nothing, because no topic matches its pattern.

    Args:
        subscriber: What the query reads.
        topics: The topics that this user can see, by name.
    """
    visible = sorted(name for name, topic in topics.items() if not topic.internal)
    seen = f"The topics {some_of(visible)} exist" if visible else "No topic exists"
    return (
        f"No topic matches {subscriber}, so nothing is read. A running query looks again for topics. {seen}, as far as "
        "this user has the right to DESCRIBE them. The pattern must match the whole name."
    )


def _all_partitions(topics: Mapping[str, TopicMetadata], names: Iterable[str]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(name, number) for name in names for number in topics[name].leaders)
