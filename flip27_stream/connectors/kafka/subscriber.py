"""Which partitions a source reads (Flink ``KafkaSubscriber``, Spark ``ConsumerStrategy``)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import MissingTopicError

if TYPE_CHECKING:
    from flip27_stream.connectors.kafka.client.protocol import TopicMetadata


class KafkaSubscriber(ABC):
    """Picks partitions out of the cluster's topics."""

    @property
    @abstractmethod
    def topic_names(self) -> Collection[str] | None:
        """The topics to ask the cluster about; ``None`` for all."""

    @property
    @abstractmethod
    def reads(self) -> str:
        """The topics or partitions, as the user named them."""

    @abstractmethod
    def partitions(self, topics: Mapping[str, TopicMetadata]) -> frozenset[TopicPartition]:
        """The partitions to read, out of those there are."""

    @abstractmethod
    def names(self, tp: TopicPartition) -> bool:
        """Whether the option asks for this partition, be it there or not."""

    def missing(
        self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition]
    ) -> Collection[str]:
        """What was asked for by name, is not there and was not ``known``: topics, or partitions as ``topic-number``."""
        return ()

    def require(self, topics: Mapping[str, TopicMetadata], known: Collection[TopicPartition] = ()) -> None:
        """Check that everything asked for by name is there.

        Args:
            topics: what is there.
            known: partitions that a checkpoint has; that these are gone is not for this check to say.

        Raises:
            MissingTopicError: something is not there.
        """
        missing = ", ".join(sorted(self.missing(topics, known)))
        if missing:
            raise MissingTopicError(
                f"The Kafka cluster has no such topic or partition: {missing}. "
                f"Create it before the query starts, or correct {self}."
            )


@dataclass(frozen=True)
class TopicListSubscriber(KafkaSubscriber):
    """All partitions of the topics named (option ``subscribe``)."""

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
        text: the expression as the user gave it, in Java's language.
        pattern: the same in Python's.
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
    """Exactly the partitions named (option ``assign``)."""

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


def _all_partitions(topics: Mapping[str, TopicMetadata], names: Iterable[str]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(name, number) for name in names for number in topics[name].leaders)
