"""Discovers partitions, assigns them, and knows how far they can be read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from flip27_stream.api import (
    EventTimePositions,
    PositioningRequest,
    RecordTimestampAssigner,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
    SupportsEventTimePositions,
    WatermarkStrategy,
)
from flip27_stream.connectors.kafka.client import KafkaClient
from flip27_stream.connectors.kafka.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.log_ranges import LogRanges
from flip27_stream.connectors.kafka.options import KafkaOptions
from flip27_stream.connectors.kafka.positions import Bisection, PositionFinder, TimestampIndex
from flip27_stream.connectors.kafka.probing import EventTimeProbe
from flip27_stream.connectors.kafka.protocol import TopicMetadata
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import ConnectorError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Discovery:
    """What one look at the cluster found, and where partitions that are new begin."""

    topics: Mapping[str, TopicMetadata]
    starting_offsets: Mapping[TopicPartition, int]


class KafkaSourceEnumerator(
    SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState], SupportsEventTimePositions
):
    """The enumerator of a Kafka source (Flink ``KafkaSourceEnumerator``).

    Life cycle:

    1. :meth:`start` calls for the initial discovery, once, in a worker thread, and for further ones every
       ``scan.topic-partition-discovery.interval``.
    2. A discovery lists the topics (:meth:`_discover`). The initial one of a new query also resolves where reading
       begins: ``latest`` becomes an offset now, ``earliest`` stays a marker until the split is planned.
    3. In the planning thread, :meth:`_take_in` makes splits of the partitions that were not assigned yet, sorted by
       topic and number, and assigns each to the reader its topic and number say. Partitions found after the initial
       discovery, or made while the query was stopped, begin at the earliest offset, whatever the options say.
    4. For each micro-batch :meth:`split_ranges` looks where the logs end, and whether they still have what is to be
       read (:class:`LogRanges`).
    5. With alignment, :meth:`event_time_positions` finds event times in these ranges (:class:`PositionFinder`).
    6. :meth:`snapshot_state` gives the partitions assigned so far, with the ids of their topics, for the offset.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        options: KafkaOptions,
        strategy: WatermarkStrategy,
        state: KafkaEnumeratorState,
    ) -> None:
        self._context = context
        self._options = options
        self._state = state
        self._client = KafkaClient(options.connection)
        self._discovery_client = KafkaClient(options.connection)
        probe = EventTimeProbe(
            self._client, strategy.timestamp_assigner, read_committed=options.read_committed
        )
        by_timestamp = type(strategy.timestamp_assigner) is RecordTimestampAssigner
        locator = TimestampIndex() if by_timestamp else Bisection(strategy.max_out_of_orderness_ms)
        self._finder = PositionFinder(self._client, probe, locator, read_committed=options.read_committed)
        self._probe = probe
        self._ranges = LogRanges(self._client, options)
        self._splits: dict[str, KafkaPartitionSplit] = {}
        self._unplanned: set[TopicPartition] = set()

    def start(self) -> None:
        self._context.call_async(self._discover, self._on_initial_discovery)
        period = self._options.discovery_interval_ms
        if period is not None:
            self._context.call_async(
                self._discover_again, self._on_discovery, initial_delay_ms=period, period_ms=period
            )

    def split_ranges(self, positions: Mapping[KafkaPartitionSplit, int | None]) -> Mapping[str, SplitRange]:
        self._splits = {split.split_id: split for split in positions}
        self._ranges.verify(self._probe.take_out_of_range())
        looked = self._ranges.look(positions, self._state)
        self._unplanned = {
            split.topic_partition
            for split, position in positions.items()
            if position is None and split.split_id not in looked.ranges
        }
        for tp in looked.reset:
            self._finder.forget(tp)
        for name, topic_id in looked.recreated.items():
            self._state = self._state.with_topic_id(name, topic_id)
        return looked.ranges

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        return self._finder.positions(
            {split_id: self._splits[split_id] for split_id in request.ranges}, request
        )

    def snapshot_state(self) -> KafkaEnumeratorState:
        """Without the partitions that were not planned yet: a restart has to find them again."""
        return self._state.without(self._unplanned) if self._unplanned else self._state

    def close(self) -> None:
        self._client.close()
        self._discovery_client.close()

    def _discover(self) -> Discovery:
        """The initial discovery; in a worker thread.

        Raises:
            MissingTopicError: a topic or partition that the options name does not exist.
            OptionError: the starting offsets do not fit.
            UnreachableError: nobody answered.
        """
        subscriber, client = self._options.subscriber, self._discovery_client
        topics = client.topics(subscriber.topic_names)
        partitions = subscriber.partitions(topics)
        if self._state.initial_discovery_finished:
            return Discovery(topics, dict.fromkeys(partitions, EARLIEST))
        subscriber.require(topics)
        offsets = self._options.starting_offsets.starting_offsets(partitions, self._end_offsets)
        return Discovery(topics, offsets)

    def _discover_again(self) -> Discovery:
        subscriber = self._options.subscriber
        topics = self._discovery_client.topics(subscriber.topic_names)
        return Discovery(topics, dict.fromkeys(subscriber.partitions(topics), EARLIEST))

    def _end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._discovery_client.end_offsets(partitions, read_committed=self._options.read_committed)

    def _on_initial_discovery(self, discovery: Discovery, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._take_in(discovery)

    def _on_discovery(self, discovery: Discovery, error: BaseException | None) -> None:
        if isinstance(error, ConnectorError):
            log.warning("Looking for new partitions failed; it will be tried again: %s", error)
        elif error is not None:
            raise error
        elif self._state.initial_discovery_finished:
            self._take_in(discovery)

    def _take_in(self, discovery: Discovery) -> None:
        self._ranges.topics = discovery.topics
        new = sorted(discovery.starting_offsets.keys() - self._state.partitions)
        readers = self._context.current_parallelism()
        assignment: dict[int, list[KafkaPartitionSplit]] = {}
        for tp in new:
            split = KafkaPartitionSplit(tp.topic, tp.partition, discovery.starting_offsets[tp])
            assignment.setdefault(reader_of(tp, readers), []).append(split)
        if new:
            log.info("New partitions: %s", ", ".join(map(str, new)))
            self._context.assign_splits(SplitsAssignment(assignment))
        ids = {tp: discovery.topics[tp.topic].topic_id for tp in new}
        self._state = (
            self._state.with_partitions(ids) if new else replace(self._state, initial_discovery_finished=True)
        )


def reader_of(tp: TopicPartition, readers: int) -> int:
    """The reader that a partition belongs to, so that the partitions of one topic are spread evenly.

    Flink's ``KafkaSourceEnumerator.getSplitOwner``, with Java's ``String.hashCode`` and its 32 bits.
    """
    topic_hash = 0
    for character in tp.topic:
        topic_hash = (topic_hash * 31 + ord(character)) & 0xFFFFFFFF
    return ((topic_hash * 31 & 0x7FFFFFFF) % readers + tp.partition) % readers
