"""The enumerator of the Kafka source, which discovers partitions, assigns them and determines their offset ranges."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flip27_stream.api import (
    EventTimePositions,
    PositioningRequest,
    ReadLimits,
    RecordTimestampAssigner,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
    SupportsEventTimePositions,
    TimestampAssigner,
    WatermarkStrategy,
)
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connector_base.split_discovery import SplitDiscovery
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.position_finder import PositionFinder
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.event_time.positions import Bisection
from flip27_stream.connectors.kafka.event_time.timestamp_positions import TimestampFinder
from flip27_stream.connectors.kafka.options.source_options import KafkaOptions
from flip27_stream.connectors.kafka.planning.bounded_ranges import reachable, refuse_reversed, up_to
from flip27_stream.connectors.kafka.planning.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.planning.group_offsets import GroupCommitter
from flip27_stream.connectors.kafka.planning.log_ranges import LogRanges
from flip27_stream.connectors.kafka.planning.offset_lookups import ClusterOffsets
from flip27_stream.connectors.kafka.planning.spark_offsets import warn_of_skipped_records
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.connectors.kafka.subscriber import TopicPatternSubscriber, nothing_matches
from flip27_stream.connectors.kafka.values.rows import RowLayout
from flip27_stream.errors import UnreachableError
from flip27_stream.in_order import values_of

log = logging.getLogger(__name__)

_FLUSH_S = 2.0
_SELDOM_MS = 10_000
"""The interval of discoveries (ms) from which on a plan itself looks whether a topic exists that gives no answers."""
_SOON_MS = 1


@dataclass(frozen=True)
class DiscoveredPartitions:
    """The result of one discovery of topics and partitions.

    Attributes:
        topics: The topics that were looked up and exist, by name.
        starting_offsets: The offset at which reading of each partition begins if the partition is new.
        stopping_offsets: The offset at which reading of each partition ends, exclusively; ``None`` for an unbounded
            source.
    """

    topics: Mapping[str, TopicMetadata]
    starting_offsets: Mapping[TopicPartition, int]
    stopping_offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True)
class EventTimeSearch:
    """The objects that find positions by event time, and the settings that they were made for.

    Attributes:
        assigner: Gives the event time of each record.
        max_out_of_orderness_ms: The greatest disorder of event times within a partition, in ms.
        probe: Fetches records and computes their event times.
        finder: Searches positions by event time.
    """

    assigner: TimestampAssigner
    max_out_of_orderness_ms: int
    probe: EventTimeProbe
    finder: TimestampFinder | PositionFinder


class KafkaSourceEnumerator(
    SplitEnumerator[KafkaPartitionSplit, KafkaEnumeratorState], SupportsEventTimePositions
):
    """The enumerator of a Kafka source (Flink ``KafkaSourceEnumerator``).

    Life cycle:

    1. :meth:`start` schedules the initial discovery, once, in a worker thread, and a further discovery every
       ``scan.topic-partition-discovery.interval``.
    2. A discovery lists the topics (:meth:`_discover`). The initial discovery of a new query also resolves the starting
       offsets: ``latest`` becomes an offset at once, ``earliest`` stays a marker until the split is planned. For a
       bounded source it also resolves the stopping offsets. The state keeps the stopping offsets; partitions that are
       found later are then not read. Partitions that the options name and the checkpoint does not have must exist.
       Partitions that the checkpoint has and the options do not name any more are dropped
       (:meth:`_leave_unsubscribed`).
    3. In the planning thread, :meth:`_take_in` makes splits of the partitions that were not assigned yet, sorted by
       topic and number, and assigns each split to a reader (:func:`reader_of`). Partitions that are found after the
       initial discovery, or that were created while the query was stopped, begin at offset 0, regardless of the
       options. If offset 0 does not exist any more, that is a data loss, as in Spark's source.
    4. For each micro-batch, :meth:`split_ranges` asks where the logs end, and whether they still have the records to
       read (:class:`LogRanges`).
    5. With alignment, :meth:`event_time_positions` finds event times in these ranges (:class:`TimestampFinder`,
       or :class:`PositionFinder` for event times in the payload).
    6. :meth:`snapshot_state` returns the partitions assigned so far, with the ids of their topics and of the cluster,
       for the offset.
    7. :meth:`notify_checkpoint_complete` commits the processed offsets to the consumer group, if the options name one.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        options: KafkaOptions,
        strategy: WatermarkStrategy | None,
        state: KafkaEnumeratorState,
        layout: RowLayout | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._state = state
        self._client = KafkaClient(options.connection)
        # Later discoveries run at the same time as plans. The first plan waits for the initial discovery.
        self._discovery_client = KafkaClient(options.connection)
        self._discovery = SplitDiscovery[DiscoveredPartitions](
            context, self._take_in, log, "partitions", take_in_first=self._take_in_first
        )
        self._layout = layout
        self._strategy = strategy
        self._finding: EventTimeSearch | None = None
        self._ranges = LogRanges(self._client, options)
        self._splits: dict[str, KafkaPartitionSplit] = {}
        self._partitions: dict[str, TopicPartition] = {}
        self._newest_ranges: Mapping[str, SplitRange] = {}
        self._unplanned: set[TopicPartition] = set()
        self._enough: int | None = None
        self._looks_for_topics = False
        group = options.group_id
        self._committer = GroupCommitter(KafkaClient(options.connection), group) if group else None

    def start(self) -> None:
        self._discovery.start(self._discover, self._options.discovery_interval_ms, self._discover_again)

    def admit(self, limits: ReadLimits) -> None:
        self._enough = limits.max_rows if self._finding is None else None

    def split_ranges(self, positions: Mapping[KafkaPartitionSplit, int | None]) -> Mapping[str, SplitRange]:
        if list(self._splits.values()) != list(positions):
            self._splits = {split.split_id: split for split in positions}
            self._partitions = {name: split.topic_partition for name, split in self._splits.items()}
        finding = self._finding
        if finding is not None:
            self._ranges.verify(finding.probe.take_out_of_range())
        enough, self._enough = self._enough, None  # A second look in the same plan asks the leaders.
        result = self._ranges.look(positions, self._state, enough)
        new = [split for split, at in positions.items() if at is None] if None in positions.values() else []
        self._unplanned = {split.topic_partition for split in new if split.split_id not in result.ranges}
        if finding is not None:
            for tp in result.reset:
                finding.finder.forget(tp)
        if result.recreated:
            self._state = self._state.with_successors(result.recreated)
        if result.identified:
            self._state = self._state.with_identities(result.identified)
        if result.epochs:
            self._state = self._state.with_leader_epochs(result.epochs)
        if len(result.ranges) < len(positions):
            self._look_for_silent_topics()
        self._newest_ranges, stops = result.ranges, self._state.stopping_offsets
        if stops is None:
            return result.ranges
        ids_of_new = {split.split_id for split in new}
        kept = reachable(stops, self._splits, result, ids_of_new, self._options)
        if kept is not stops:
            self._state = replace(self._state, stopping_offsets=kept)
        return up_to(kept, self._splits, result.ranges)

    def _look_for_silent_topics(self) -> None:
        """Looks whether topics exist whose partitions got no answer, if discoveries are seldom, or there are no more.

        Leaders do not answer about a topic that was deleted. It would never be noticed if there is nothing to read.
        """
        interval_ms = self._options.discovery_interval_ms
        if self._looks_for_topics or (interval_ms is not None and interval_ms < _SELDOM_MS):
            return
        self._looks_for_topics = True
        names = {split.topic for split in self._splits.values()}

        def take_in(topics: Mapping[str, TopicMetadata], error: BaseException | None) -> None:
            self._looks_for_topics = False
            if isinstance(error, UnreachableError):
                return  # The next plan looks again.
            if error is not None:
                raise error
            self._ranges.topics = topics

        # With a delay, no plan waits for the answer.
        self._context.call_async(lambda: self._discovery_client.topics(names), take_in, _SOON_MS)

    def log_ends(self, ranges: Mapping[str, SplitRange]) -> Mapping[str, int]:
        return super().log_ends(self._newest_ranges)

    def freeze(self) -> None:
        self._ranges.freeze()

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns the positions in the form of Spark's Kafka offsets, ``{"topic": {"0": 23}}``, sorted by partition."""
        described: dict[str, dict[str, int]] = {}
        for tp, offset in sorted((self._splits[i].topic_partition, o) for i, o in positions.items()):
            described.setdefault(tp.topic, {})[str(tp.partition)] = offset
        return described

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        finder = self._find_for(request).finder
        trusted, state = self._options.trusted_cluster, self._state
        ids = list(request.ranges)
        partitions = dict(zip(ids, values_of(ids, self._partitions), strict=True))
        topic_ids = state.topic_ids_for_reader(partitions.values(), trusted)
        return finder.positions(partitions, topic_ids, request)

    def snapshot_state(self) -> KafkaEnumeratorState:
        """Returns the state without the partitions that were not planned yet; a restart discovers these again."""
        return self._state.without(self._unplanned) if self._unplanned else self._state

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        """Commits the processed offsets to the consumer group, if the options name one.

        Spark can end the process of an AvailableNow run at any time after this call, so in such a run the call waits up
        to 2 s for the commit.
        """
        if self._committer is not None:
            self._committer.processed(
                {tp: positions[str(tp)] for tp in self._state.partitions if str(tp) in positions}
            )
            if self._ranges.frozen:
                self._committer.flush(_FLUSH_S)

    def close(self) -> None:
        if self._committer is not None:
            self._committer.close(_FLUSH_S)
        self._client.close()
        self._discovery_client.close()

    def _discover(self) -> DiscoveredPartitions:
        """Returns the result of the initial discovery. Runs in a worker thread.

        Raises:
            MissingTopicError: A topic or partition that the options name does not exist.
            OptionError: The starting offsets do not fit the partitions, or a batch read would start after its end.
            UnreachableError: No broker answered.
        """
        subscriber = self._options.subscriber
        topics = self._client.topics(subscriber.topic_names)
        partitions = subscriber.partitions(topics)
        options, lookups = self._options, self._lookups()
        subscriber.require(topics, self._state.partitions)
        if not partitions and not self._state.partitions and isinstance(subscriber, TopicPatternSubscriber):
            log.warning("%s", nothing_matches(subscriber, topics))
        if not self._state.initial_discovery_finished:
            starts = options.starting_offsets.starting_offsets(partitions, lookups)
            warn_of_skipped_records(options, starts)
        else:
            starts = dict.fromkeys(partitions, 0)
        stops = self._state.stopping_offsets if options.stopping_offsets is not None else None
        if stops is None and options.stopping_offsets is not None:
            stops = options.stopping_offsets.stopping_offsets(partitions, lookups)
        if stops is not None:
            starts = {tp: offset for tp, offset in starts.items() if tp in stops}
            if options.batch:
                refuse_reversed(starts, stops)
                # A partition with an empty range is not read, so its log is not checked for the records.
                starts = {tp: offset for tp, offset in starts.items() if offset != stops[tp]}
        return DiscoveredPartitions(topics, starts, stops)

    def _discover_again(self) -> DiscoveredPartitions:
        subscriber = self._options.subscriber
        topics = self._discovery_client.topics(subscriber.topic_names)
        return DiscoveredPartitions(topics, dict.fromkeys(subscriber.partitions(topics), 0))

    def _find_for(self, request: PositioningRequest) -> EventTimeSearch:
        """Returns the search for event times.

        It has the watermark strategy of the source, or that of the request if the source has no strategy.

        It is created again if the assigner changed or the disorder of the request became greater.
        """
        says = self._strategy or request
        assigner, disorder = says.timestamp_assigner, says.max_out_of_orderness_ms
        found = self._finding
        if found is not None:
            if found.assigner == assigner and found.max_out_of_orderness_ms >= disorder:
                return found
            disorder = max(disorder, found.max_out_of_orderness_ms)
        committed = self._options.read_committed
        probe = EventTimeProbe(self._client, assigner, self._layout, read_committed=committed)
        by_timestamp = type(assigner) is RecordTimestampAssigner
        unanswered = LogRanges.unanswered(self._client, self._options)
        reads = PositionReads(self._client, probe, read_committed=committed, unanswered=unanswered)
        finder = TimestampFinder(probe, reads) if by_timestamp else PositionFinder(reads, Bisection(disorder))
        self._finding = EventTimeSearch(assigner, disorder, probe, finder)
        return self._finding

    def _lookups(self) -> ClusterOffsets:
        options = self._options
        return ClusterOffsets(
            self._client,
            options.read_committed,
            options.fetch_retries,
            options.fetch_retry_interval_ms,
        )

    def _take_in_first(self, discovery: DiscoveredPartitions) -> None:
        self._leave_unsubscribed()
        self._take_in(discovery)

    def _leave_unsubscribed(self) -> None:
        """Drops the partitions that the checkpoint has and the options do not name any more, as Spark's source does.

        Raises:
            DataLossError: A partition is dropped, and ``failOnDataLoss`` is set.
        """
        subscriber = self._options.subscriber
        gone = sorted(tp for tp in self._state.partitions if not subscriber.names(tp))
        if not gone:
            return
        what = (
            f"Partitions {', '.join(map(str, gone))} are in the checkpoint, but {subscriber} does not name them. "
            "Records of them that were not read yet may be missed."
        )
        report_data_loss(
            log,
            what,
            fail=self._options.fail_on_data_loss,
            remedy=(
                "To go on without them, set option 'failOnDataLoss' to false; to read on, name them again."
                if len(gone) < len(self._state.partitions)
                else "The checkpoint has no other partitions. If it belongs to another query, give this query "
                "its own checkpointLocation. If the query shall read other topics from now on, set option "
                "'failOnDataLoss' to false."
            ),
            goes_on="The query goes on without them",
        )
        self._context.retire_splits(self._context.assigned_splits().keys() & {str(tp) for tp in gone})
        self._state = self._state.without(gone)

    def _take_in(self, discovery: DiscoveredPartitions) -> None:
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
        elif (
            self._state.initial_discovery_finished
            and self._state.stopping_offsets == discovery.stopping_offsets
        ):
            return  # A new state would have to make its set of partitions again.
        ids = {tp: discovery.topics[tp.topic].topic_id for tp in new}
        self._state = replace(
            self._state.with_partitions(ids),
            initial_discovery_finished=True,
            stopping_offsets=discovery.stopping_offsets,
        )


def reader_of(tp: TopicPartition, readers: int) -> int:
    """Returns the index of the reader that reads a partition; the partitions of one topic are spread evenly.

    The rule is that of Flink's ``KafkaSourceEnumerator.getSplitOwner``, with the 32 bits of Java's ``String.hashCode``.

    Args:
        tp: The partition.
        readers: The number of readers.
    """
    topic_hash = 0
    for character in tp.topic:
        topic_hash = (topic_hash * 31 + ord(character)) & 0xFFFFFFFF
    return ((topic_hash * 31 & 0x7FFFFFFF) % readers + tp.partition) % readers
