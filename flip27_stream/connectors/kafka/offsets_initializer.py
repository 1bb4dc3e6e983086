"""The offsets at which reading begins and ends (Flink ``OffsetsInitializer``, Spark ``KafkaOffsetRangeLimit``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.errors import ConnectorError, OptionError, listed


class OffsetLookups(Protocol):
    """The requests of an initializer to the cluster.

    All methods raise ConnectorError if the cluster does not answer.
    """

    def start_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns the first offset of each partition now."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns the current end offset (exclusive) of each partition, in the isolation level of the source."""

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Returns the first offset of each partition whose record has a timestamp at or after the given one (ms).

        Partitions without such a record are left out.
        """

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Returns the offsets that a consumer group has committed. Partitions without an offset are left out."""


class OffsetsInitializer(ABC):
    """Finds the starting or stopping offsets of the partitions of the initial discovery."""

    @abstractmethod
    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        """Returns an offset, or :data:`EARLIEST`, for each partition. :data:`LATEST` is resolved here, once.

        Raises:
            OptionError: The offsets or times of the option do not fit the partitions.
            ConnectorError: The cluster does not answer.
        """

    @abstractmethod
    def stopping_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        """Returns the offset (exclusive) at which reading of each partition ends; never one of the markers.

        The offset may be greater than the current end of the partition if :meth:`waits_for_records`.

        Raises:
            OptionError: The offsets or times of the option do not fit the partitions.
            ConnectorError: The cluster does not answer.
        """

    def waits_for_records(self, tp: TopicPartition) -> bool:
        """Returns whether the stopping offset of a partition may be one that its log has yet to reach."""
        return False


@dataclass(frozen=True)
class Earliest(OffsetsInitializer):
    """Begins at the first offset of the log when the split is first planned."""

    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, EARLIEST)

    def stopping_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        return dict(lookups.start_offsets(partitions))


@dataclass(frozen=True)
class Latest(OffsetsInitializer):
    """Begins or ends at the end of the log when the partitions are discovered."""

    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        return dict(lookups.end_offsets(partitions))

    stopping_offsets = starting_offsets


@dataclass(frozen=True)
class Specific(OffsetsInitializer):
    """Begins or ends at a given offset, :data:`EARLIEST` or :data:`LATEST` for each partition.

    Attributes:
        offsets: The offsets by partition.
        option: The name of the option, for messages.
    """

    offsets: Mapping[TopicPartition, int]
    option: str = "startingOffsets"

    def __hash__(self) -> int:
        return hash((self.option, frozenset(self.offsets.items())))

    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        self._check(partitions, "-1 for latest, -2 for earliest")
        return self._resolved(lookups)

    def stopping_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        self._check(partitions, "-1 for latest")
        return self._resolved(lookups)

    def waits_for_records(self, tp: TopicPartition) -> bool:
        return self.offsets.get(tp, 0) >= 0

    def _resolved(self, lookups: OffsetLookups) -> dict[TopicPartition, int]:
        latest = [tp for tp, offset in self.offsets.items() if offset == LATEST]
        return {**self.offsets, **(lookups.end_offsets(latest) if latest else {})}

    def _check(self, partitions: Collection[TopicPartition], words: str) -> None:
        if set(partitions) != set(self.offsets):
            raise OptionError(
                f"[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Option '{self.option}' must name exactly the partitions "
                f"that are read (use {words}). {_difference(partitions, self.offsets)}"
            )


@dataclass(frozen=True)
class AtTimestamp(OffsetsInitializer):
    """Begins or ends at the first record at or after a time (ms), the same for all partitions or one for each.

    If a partition has no such record, its stopping offset is its end (SK-16). Its starting offset is then an error, or
    its end with ``startingOffsetsByTimestampStrategy`` ``latest`` (SK-13).

    Attributes:
        times: The times in ms since the epoch, by partition, or one time for all.
        option: The name of the option, for messages.
        latest_where_none: Whether reading begins at the end of a partition without such a record.
    """

    times: Mapping[TopicPartition, int] | int
    option: str
    latest_where_none: bool = False

    def __hash__(self) -> int:
        times = self.times if isinstance(self.times, int) else frozenset(self.times.items())
        return hash((times, self.option, self.latest_where_none))

    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        times = self._times(partitions, "starting")
        return self._offsets(times, lookups, at_end=self.latest_where_none)

    def stopping_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        return self._offsets(self._times(partitions, "ending"), lookups, at_end=True)

    def _times(self, partitions: Collection[TopicPartition], position: str) -> dict[TopicPartition, int]:
        if isinstance(self.times, int):
            return dict.fromkeys(partitions, self.times)
        if set(partitions) != set(self.times):
            raise OptionError(
                f"[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Option '{self.option}' must name exactly the "
                f"partitions that are read, for {position} offsets. {_difference(partitions, self.times)}"
            )
        return dict(self.times)

    def _offsets(
        self, times: Mapping[TopicPartition, int], lookups: OffsetLookups, *, at_end: bool
    ) -> dict[TopicPartition, int]:
        # The ends are looked up first, so that records written between the two lookups are not skipped.
        ends = lookups.end_offsets(list(times)) if at_end else {}
        found = lookups.offsets_for_times(times)
        for tp in sorted(times.keys() - found.keys()):
            if not at_end:
                raise OptionError(
                    f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]} (option "
                    f"'{self.option}'): it has no record at or after that time. Choose an earlier time, or set option "
                    "'startingOffsetsByTimestampStrategy' to latest to begin at the end of such partitions."
                )
        return {tp: found[tp] if tp in found else ends[tp] for tp in times}


@dataclass(frozen=True)
class Committed(OffsetsInitializer):
    """Begins or ends at the offsets that a consumer group has committed (``group-offsets``, as in Flink's tables).

    Attributes:
        group: The consumer group.
        option: The name of the option that has the value ``group-offsets``, for messages.
    """

    group: str
    option: str

    def starting_offsets(
        self, partitions: Collection[TopicPartition], lookups: OffsetLookups
    ) -> dict[TopicPartition, int]:
        offsets = dict(lookups.committed_offsets(self.group, partitions))
        missing = set(partitions) - set(offsets)
        if missing:
            raise ConnectorError(
                f"Consumer group '{self.group}' (option 'kafka.group.id') has committed no offset for "
                f"{_names(missing)}. Commit an offset for each partition, or choose another value of option "
                f"'{self.option}'."
            )
        return offsets

    stopping_offsets = starting_offsets


def _difference(read: Collection[TopicPartition], named: Collection[TopicPartition]) -> str:
    return f"Specified: {_names(named)}. Assigned: {_names(read)}. " + " ".join(
        f"{what}: {_names(partitions)}."
        for what, partitions in (
            ("Missing", set(read) - set(named)),
            ("Named but not read", set(named) - set(read)),
        )
        if partitions
    )


def _names(partitions: Collection[TopicPartition]) -> str:
    return listed({str(tp): str(tp) for tp in sorted(partitions)}) or "none"
