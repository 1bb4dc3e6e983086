"""Where reading begins (Flink ``OffsetsInitializer``, Spark's ``startingOffsets``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.errors import OptionError

EndOffsets = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Looks up where partitions end now."""


class OffsetsInitializer(ABC):
    """Finds the starting offsets of the partitions that the first discovery found."""

    @abstractmethod
    def starting_offsets(
        self, partitions: Collection[TopicPartition], end_offsets: EndOffsets
    ) -> dict[TopicPartition, int]:
        """An offset for each partition, or :data:`EARLIEST`; never :data:`LATEST`, which is resolved here and once.

        Raises:
            OptionError: the offsets given do not fit the partitions.
        """


@dataclass(frozen=True)
class Earliest(OffsetsInitializer):
    """Wherever the log begins when the split is first planned."""

    def starting_offsets(
        self, partitions: Collection[TopicPartition], end_offsets: EndOffsets
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, EARLIEST)


@dataclass(frozen=True)
class Latest(OffsetsInitializer):
    """Where the log ends when the partitions are discovered."""

    def starting_offsets(
        self, partitions: Collection[TopicPartition], end_offsets: EndOffsets
    ) -> dict[TopicPartition, int]:
        return dict(end_offsets(partitions))


@dataclass(frozen=True)
class Specific(OffsetsInitializer):
    """An offset, :data:`EARLIEST` or :data:`LATEST` for each partition by name."""

    offsets: Mapping[TopicPartition, int]

    def starting_offsets(
        self, partitions: Collection[TopicPartition], end_offsets: EndOffsets
    ) -> dict[TopicPartition, int]:
        if set(partitions) != set(self.offsets):
            raise OptionError(
                "Option 'startingOffsets' must name exactly the partitions that are read (use -1 for latest, -2 for "
                f"earliest). Missing: {_names(set(partitions) - set(self.offsets))}. "
                f"Named but not read: {_names(set(self.offsets) - set(partitions))}."
            )
        latest = [tp for tp, offset in self.offsets.items() if offset == LATEST]
        return {**self.offsets, **(end_offsets(latest) if latest else {})}


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"
