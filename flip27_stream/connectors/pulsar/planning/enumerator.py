"""The enumerator of the Pulsar source, which discovers partitions, assigns them and finds their ranges."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from flip27_stream.api import (
    EventTimePositions,
    PositioningRequest,
    ReadLimits,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.connector_base.byte_limit import within_bytes
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connector_base.split_discovery import SplitDiscovery
from flip27_stream.connectors.pulsar.client.admin import topics_of
from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.options.source_options import PulsarOptions, TopicPattern
from flip27_stream.connectors.pulsar.planning.cursors import Cursors
from flip27_stream.connectors.pulsar.planning.enumerator_state import PulsarEnumeratorState
from flip27_stream.connectors.pulsar.planning.event_times import PulsarEventTimes, SplitEventTimes
from flip27_stream.connectors.pulsar.planning.partition_log import LostLedger, PartitionLog
from flip27_stream.connectors.pulsar.positions import EARLIEST, described
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.errors import MissingTopicError
from flip27_stream.threads import CallPool

log = logging.getLogger(__name__)

_THREADS = 16


class PulsarSourceEnumerator(
    SplitEnumerator[PulsarPartitionSplit, PulsarEnumeratorState], SupportsEventTimePositions
):
    """The enumerator of a Pulsar source (Flink ``PulsarSourceEnumerator``).

    Life cycle:

    1. :meth:`start` starts the initial discovery, and a further discovery every ``partitionDiscoveryInterval``.
    2. A discovery lists the partitions of all topics, and assigns the new ones. Partitions of the first discovery begin
       at the position in the options, later partitions at their first message.
    3. For each micro-batch :meth:`split_ranges` finds the range of each partition (:class:`PartitionLog`).
    4. :meth:`notify_checkpoint_complete` records the processed positions. The next :meth:`split_ranges` moves the
       cursors of ``predefinedSubscription`` to them.
    5. :meth:`snapshot_state` returns the partitions that are in the offset, and those of the first discovery that are
       not in it yet.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[PulsarPartitionSplit],
        options: PulsarOptions,
        state: PulsarEnumeratorState,
    ) -> None:
        self._context = context
        self._options = options
        self._known = set(state.begun)
        self._waiting = state.waiting
        self._retired: set[str] = set()
        """The partitions that were retired since the last offset, which cannot be assigned again before the next."""
        self._reported: set[str] = set()
        """The deleted partitions that were reported, if there is one discovery only."""
        self._client = PulsarClient(options.connection, options.role_prefix)
        self._pool = CallPool(_THREADS, "flip27-pulsar")
        self._discovery = SplitDiscovery[frozenset[str]](
            context, self._take_in, log, "partitions", failed="Failed to list partitions."
        )
        self._logs: dict[str, PartitionLog] = {}
        self._ranges: dict[str, SplitRange] = {}
        self._begun: set[str] = set(state.begun)
        self._limits = ReadLimits()
        self._cursors = Cursors(self._client, options.subscription)

    def start(self) -> None:
        self._discovery.start(self._discover, self._options.discovery_interval_ms)

    # ---- discovery ------------------------------------------------------------------------------------------------

    def _discover(self) -> frozenset[str]:
        """Returns the full names of all partitions. Runs in a worker thread.

        Raises:
            MissingTopicError: A topic does not exist.
        """
        wanted = self._options.topics
        if isinstance(wanted, TopicPattern):
            listed = topics_of(self._options.connection, wanted.namespace)
            topics = [topic for topic in listed if wanted.matches(topic)]
        else:
            topics = list(wanted)
        found = self._pool.results({topic: partial(self._client.partitions, topic) for topic in topics})
        return frozenset(partition for partitions in found.values() for partition in partitions)

    def _take_in(self, partitions: frozenset[str]) -> None:
        if self._waiting is None:
            self._waiting = partitions - self._known
        gone = self._known - partitions
        if gone:
            self._lose_partitions(gone)
        readers = self._context.current_parallelism()
        for topic in sorted(partitions - self._known - self._retired):
            split = PulsarPartitionSplit(topic, initial=topic in self._waiting)
            self._context.assign_split(split, len(self._known) % readers)
            self._known.add(topic)

    def _report_deleted(self, gone: set[str]) -> None:
        what = (
            f"Partitions {', '.join(sorted(gone))} do not exist any more: their topics were deleted. Messages that "
            "were not read yet are lost."
        )
        report_data_loss(
            log,
            what,
            fail=self._options.fail_on_data_loss,
            remedy="To go on without them, set option 'failOnDataLoss' to false.",
        )

    def _lose_partitions(self, gone: set[str]) -> None:
        self._report_deleted(gone)
        retired = gone & self._context.assigned_splits().keys()
        self._context.retire_splits(retired)
        self._retired |= retired
        self._known -= gone
        self._begun -= gone
        # A partition that is created again has only new messages, which the query has not read.
        self._waiting = (self._waiting or frozenset()) - gone
        for topic in gone:
            self._logs.pop(topic, None)

    # ---- ranges ---------------------------------------------------------------------------------------------------

    def admit(self, limits: ReadLimits) -> None:
        self._limits = limits

    def freeze(self) -> None:
        self._discovery.frozen = True

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self._cursors.processed(positions)

    def split_ranges(self, positions: Mapping[PulsarPartitionSplit, int | None]) -> Mapping[str, SplitRange]:
        found = self._pool.results(
            {split.split_id: partial(self._look, split, at) for split, at in positions.items()}
        )
        self._ranges = {name: r for name, r in found.items() if r is not None}
        self._begun |= self._ranges.keys()
        self._cursors.follow({name: self._logs[name] for name in self._ranges})
        if self._limits.max_bytes is not None:
            sizes = {name: self._logs[name].scan.bytes_per_row for name in self._ranges}
            self._ranges = within_bytes(self._ranges, self._limits.max_bytes, sizes, self._cut_after)
        return self._ranges

    def _look(self, split: PulsarPartitionSplit, position: int | None) -> SplitRange | None:
        """Returns the range of a partition; ``None`` if its topic was deleted before it was begun."""
        found = self._logs.get(split.topic)
        if found is None:
            lose = partial(self._lose, split.topic)
            found = self._logs[split.topic] = PartitionLog(self._client, split.topic, lose)
        try:
            if position is None:
                position = found.begin(self._options.start.of(split.topic)) if split.initial else EARLIEST
            return found.look(position, self._limits.max_rows)
        except MissingTopicError:
            if not isinstance(self._options.topics, TopicPattern):
                raise
            if self._options.discovery_interval_ms is None:
                return self._deleted(split.topic, position or EARLIEST)
            # The next discovery reports that the topic was deleted.
            return None if position is None else SplitRange(position, position, drained=True, rows=0)

    def _deleted(self, topic: str, position: int) -> SplitRange:
        """Reports a deleted topic of a pattern that no discovery will report, and returns a range that holds no other.

        Raises:
            DataLossError: ``failOnDataLoss`` is set.
        """
        if topic not in self._reported:
            self._report_deleted({topic})
            self._reported.add(topic)
        return SplitRange(position, position, drained=False, final=True, rows=0)

    def _lose(self, topic: str, lost: LostLedger) -> None:
        if lost.was_end:
            log.warning(
                "No message of %s followed %s at the last plan, and %s. Messages that came since then and were "
                "trimmed are lost. Choose a retention that is longer than the time between two micro-batches.",
                topic,
                described(lost.position),
                lost.why,
            )
            return
        report_data_loss(
            log,
            f"Messages of {topic} are lost, or may be lost: wanted from {described(lost.position)} on, but {lost.why}. "
            "They are older than the topic's retention, or the topic was truncated, or deleted and created again.",
            fail=self._options.fail_on_data_loss,
            remedy="To go on at the first existing message after this position, set option 'failOnDataLoss' to "
            "false. To read all existing messages, use another checkpointLocation.",
        )

    def positions_after(self, rows: Mapping[str, int]) -> Mapping[str, int]:
        return self._pool.results(
            {name: partial(self._cut_after, name, count) for name, count in rows.items()}
        )

    def _cut_after(self, name: str, rows: int) -> int:
        return self._logs[name].cut_after(rows, self._ranges[name].end)

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        return PulsarEventTimes(
            self._pool,
            {
                name: partial(SplitEventTimes, self._logs[name], r, request)
                for name, r in request.ranges.items()
                if r.position < r.end
            },
        )

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns the positions as message ids in the form ``ledger:entry:index``."""
        return {name: described(position) for name, position in positions.items()}

    def snapshot_state(self) -> PulsarEnumeratorState:
        self._retired.clear()
        waiting = None if self._waiting is None else self._waiting - self._begun
        return PulsarEnumeratorState(frozenset(self._begun), waiting)

    def close(self) -> None:
        self._pool.close()
        self._cursors.close()
