"""The offset range that can be read of each partition now, and the detection of lost records."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import gt, lt

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.client.unanswered import UnansweredPartitions
from flip27_stream.connectors.kafka.options.source_options import KafkaOptions
from flip27_stream.connectors.kafka.planning.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.planning.leader_epochs import LeaderEpochs, to_store
from flip27_stream.connectors.kafka.planning.log_bounds import LogBounds, LogRangesResult
from flip27_stream.connectors.kafka.planning.recent_ends import RecentEnds
from flip27_stream.connectors.kafka.planning.topic_identity import IdentityChanges, TopicIdentities
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, UnreachableError
from flip27_stream.in_order import found_in, values_of

log = logging.getLogger(__name__)

_GONE_AFTER_S = 5.0


class LogRanges:
    """Finds the ranges of logs, with one round of requests to the leaders per micro-batch in a steady query.

    A query that reads a backlog in small micro-batches needs fewer rounds, see :class:`RecentEnds`.

    The beginning of a log is only asked for when a split is planned for the first time, or after a fetch at an offset
    that does not exist any more. If there are records to read, a broker is then asked for the ids of the topics. If the
    ids are the same as before, the leaders answered about these topics and not about successors of the same name.

    Attributes:
        topics: The last known metadata of the topics, by name.
    """

    def __init__(self, client: KafkaClient, options: KafkaOptions) -> None:
        self.topics: Mapping[str, TopicMetadata] = {}
        self._frozen: Mapping[TopicPartition, str] | None = None
        self._identities = TopicIdentities(options)
        self._client = client
        self._options = options
        self._verified: set[TopicPartition] = set()
        self._missing_since: dict[TopicPartition, float] = {}
        self._gone: set[TopicPartition] = set()
        self._recent_ends = RecentEnds()
        self._epochs = LeaderEpochs(client)
        self._unanswered = self.unanswered(client, options)

    @staticmethod
    def unanswered(client: KafkaClient, options: KafkaOptions) -> UnansweredPartitions:
        """Returns the check that fails if a partition gets no answer for as long as Spark's source tries."""
        longest_ms = options.fetch_retries * options.connection.api_timeout_ms
        return UnansweredPartitions(longest_ms, lambda tp: client.why_silent(tp))

    @property
    def frozen(self) -> bool:
        """Whether :meth:`freeze` was called."""
        return self._frozen is not None

    def freeze(self) -> None:
        """Marks the start of an AvailableNow run. From now on the loss of a known partition is an error."""
        self._frozen = _partitions(self.topics)

    def verify(self, partitions: Iterable[TopicPartition]) -> None:
        """Asks for the beginning of these logs again in the next :meth:`look`."""
        self._verified.difference_update(partitions)

    def look(
        self,
        positions: Mapping[KafkaPartitionSplit, int | None],
        state: KafkaEnumeratorState,
        enough: int | None = None,
    ) -> LogRangesResult:
        """Returns the ranges of splits.

        Args:
            positions: The next position of each split; ``None`` for a split that was not planned yet.
            state: The partitions and topic ids of the checkpoint.
            enough: The number of records for which the leaders are not asked, if so many are before
                :class:`RecentEnds`; ``None`` to ask them.

        Raises:
            DataLossError: Records at a position do not exist any more, and ``failOnDataLoss`` is set; or see
                :meth:`_refuse_lost`.
            UnreachableError: A partition has no leader that answers, or no broker answers, see
                :class:`UnansweredPartitions`.
        """
        wanted = {s.topic_partition: s.starting_offset if p is None else p for s, p in positions.items()}
        changes = self._identities.changes(wanted, state, self.topics)
        bounds = self._recent_bounds(wanted, changes, enough) or self._ask(wanted, changes, state)
        offsets = values_of(list(bounds.end), wanted)
        beyond = {tp for tp in bounds.kept if wanted[tp] > bounds.reach(tp)}
        if any(map(gt, offsets, bounds.end.values())):
            read = zip(bounds.end.items(), offsets, strict=True)
            beyond |= {tp for (tp, end), offset in read if offset > end and offset > bounds.reach(tp)}
        something_to_read = any(map(lt, offsets, bounds.end.values()))
        if something_to_read or beyond or changes.successors.keys() - self._gone or changes.renamed:
            self.verify(beyond)
            topics, before = self.topics, changes
            try:
                self.topics = self._client.topics({tp.topic for tp in wanted})
            except UnreachableError as error:
                log.warning(
                    "No broker answered a request for the ids of topics, which is repeated: %s", error
                )
                self._unanswered.note(wanted, ())
                return LogRangesResult()
            if self.topics != topics:
                changes = self._identities.changes(wanted, state, self.topics)
            if beyond or changes != before:
                bounds = self._ask(wanted, changes, state, again=True)
        result, successors = LogRangesResult(reset=set(bounds.kept)), changes.successors
        self._settle_gone({tp: wanted[tp] for tp, new in successors.items() if not new}, state, result)
        self._settle_recreated({tp: wanted[tp] for tp in successors if successors[tp]}, state, bounds, result)
        self._settle_existing(positions, wanted, successors, bounds, result)
        self._identify(changes, wanted, state, result)
        self._unanswered.note(_existing(wanted, successors), bounds.end)
        if bounds.epochs:
            self._epochs.note(bounds.epochs)
            former = state.without_epochs(successors.keys() | changes.renamed)
            result.epochs = to_store(bounds.epochs, former.leader_epochs, result.ranges, positions)
        return self._with_drained(result, bounds.late)

    def _identify(
        self,
        changes: IdentityChanges,
        wanted: Iterable[TopicPartition],
        state: KafkaEnumeratorState,
        result: LogRangesResult,
    ) -> None:
        """Records the new id or cluster of each topic whose partitions all have a range."""
        if not (changes.renamed or result.recreated):
            return
        unsettled = {tp.topic for tp in wanted if str(tp) not in result.ranges}
        settled = [tp for tp in (*changes.renamed, *result.recreated) if tp.topic not in unsettled]
        result.identified = {tp.topic: self.topics[tp.topic] for tp in settled}
        result.reset.update(settled)
        for name, topic in result.identified.items():
            self._identities.replaced(name, state.topics[name], topic)

    def _recent_bounds(
        self, wanted: Mapping[TopicPartition, int], changes: IdentityChanges, enough: int | None
    ) -> LogBounds | None:
        """Returns the ends of the last look if they are recent and the topics are those of the checkpoint."""
        if enough is None or changes.successors or changes.renamed or not wanted.keys() <= self._verified:
            return None
        ends = self._recent_ends.enough(wanted, enough)
        return None if ends is None else LogBounds(ends)

    def _ask(
        self,
        wanted: Mapping[TopicPartition, int],
        changes: IdentityChanges,
        state: KafkaEnumeratorState,
        *,
        again: bool = False,
    ) -> LogBounds:
        """Returns where the logs of partitions begin and end.

        Args:
            wanted: The next position of each partition.
            changes: The partitions whose topic differs from that of the checkpoint.
            state: The epochs of the leaders whose records the query has read.
            again: Whether the first answer was doubtful; answers to requests of earlier micro-batches are not used
                then.
        """
        there = _existing(wanted, changes.successors)
        new, verified = changes.successors.keys() | changes.renamed, self._verified
        verified = verified - new if new else verified
        positions = zip(there, values_of(there, wanted), strict=True)
        unsure = [tp for tp, offset in positions if offset == EARLIEST or tp not in verified]
        began = time.monotonic()
        end, start = self._client.list_offsets(
            dict.fromkeys(there, LATEST),
            dict.fromkeys(unsure, EARLIEST),
            read_committed=self._options.read_committed,
            late_answers=not again,
        )
        ends = {tp: at.offset for tp, at in end.items()}
        behind = [tp for tp in ends if wanted[tp] > ends[tp]] if self._options.read_committed else []
        high_watermarks = self._high_watermarks(behind)
        read = state.without_epochs(new).leader_epochs
        epochs = {tp: at.epoch for tp, at in end.items()}
        if epochs == read:
            epochs = {}  # The usual case.
        kept = self._epochs.kept(epochs, read)
        half = {tp for tp in behind if tp not in high_watermarks} | {tp for tp in kept if kept[tp] is None}
        for tp in half:  # The leader answered the first request and not the second one.
            del ends[tp]
            epochs.pop(tp, None)
        starts = {tp: at.offset for tp, at in start.items()}
        late = [tp for tp, at in end.items() if at.late]
        self._recent_ends.keep({} if late else ends, began)
        known = {tp: until for tp, until in kept.items() if until is not None and tp in ends}
        return LogBounds(ends, starts, high_watermarks, late, epochs, known)

    def _high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        (found,) = self._client.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=False)
        return {tp: at.offset for tp, at in found.items()}

    def _settle_existing(
        self,
        splits: Iterable[KafkaPartitionSplit],
        wanted: Mapping[TopicPartition, int],
        successors: Collection[TopicPartition],
        bounds: LogBounds,
        result: LogRangesResult,
    ) -> None:
        """Gives ranges to the partitions whose leaders answered, and whose topic is that of the checkpoint."""
        ranges, ends = result.ranges, bounds.end
        special = {*successors, *bounds.start}
        usual = self._verified - special if special else self._verified
        are_usual = list(ends) == list(wanted) and wanted.keys() <= usual
        if are_usual and not any(map(gt, wanted.values(), ends.values())):
            ids = [split.split_id for split in splits]
            ranges.update(zip(ids, map(SplitRange, wanted.values(), ends.values()), strict=True))
            return
        found = zip(splits, wanted.items(), found_in(list(wanted), ends), strict=True)
        for split, (tp, offset), end in found:
            if end is None:
                continue
            if offset <= end and tp in usual:
                ranges[split.split_id] = SplitRange(offset, end)
            elif tp not in successors and (tp in self._verified or tp in bounds.start):
                self._settle(tp, offset, bounds, result)

    def _settle_gone(
        self, wanted: Mapping[TopicPartition, int], state: KafkaEnumeratorState, result: LogRangesResult
    ) -> None:
        """Gives empty ranges to the partitions that have been missing for at least 5 s, and reports their loss.

        These ranges are final: no record can come, so the partitions must not hold others back (rule 5), and a bounded
        source ends without their records. If a topic is created again, its partitions are read as those of a new topic.

        Partitions that are missing for less time get no range, since a broker that has just started may not know all
        topics.
        """
        now = time.monotonic()
        self._missing_since = {tp: self._missing_since.get(tp, now) for tp in wanted}
        gone = {tp for tp, since in self._missing_since.items() if now - since >= _GONE_AFTER_S}
        self._refuse_lost(dict.fromkeys(gone - self._gone))
        for tp in sorted(gone):
            if tp not in self._gone:
                cause = self._identities.cause(state.topics[tp.topic], self._client.cluster_id)
                self._lost(
                    tp,
                    wanted[tp],
                    f"nothing, the partition {'does not exist' if cause else 'was deleted'}",
                    cause=cause,
                )
            position = max(wanted[tp], 0)
            result.ranges[str(tp)] = SplitRange(position, position, drained=False, final=True)
        self._gone = gone

    def _settle_recreated(
        self,
        wanted: Mapping[TopicPartition, int],
        state: KafkaEnumeratorState,
        bounds: LogBounds,
        result: LogRangesResult,
    ) -> None:
        """Gives ranges to partitions of recreated topics, and reports their loss.

        A topic is left out if the leader of any of its partitions did not answer, since the partitions of one topic
        have to change to the new topic id together.
        """
        self._refuse_lost({tp: self.topics[tp.topic].topic_id for tp in wanted})
        unknown = {tp.topic for tp in wanted if tp not in bounds.start or tp not in bounds.end}
        for tp, offset in wanted.items():
            if tp.topic in unknown:
                continue
            start, end = bounds.start[tp], bounds.end[tp]
            topic = self.topics[tp.topic]
            cause = self._identities.cause(state.topics[tp.topic], topic.cluster_id)
            what = "has another id" if cause else "was deleted and created again"
            available = f"{start} to {end} of a topic that {what}"
            self._lost(tp, offset, available, start, end if end < offset else start, cause)
            result.recreated[tp] = topic.topic_id
            result.reset.add(tp)
            result.ranges[str(tp)] = SplitRange(start, end)
            self._verified.add(tp)

    def _settle(self, tp: TopicPartition, offset: int, bounds: LogBounds, result: LogRangesResult) -> None:
        end, start = bounds.end[tp], bounds.start.get(tp, 0)
        position = offset if offset != EARLIEST else start
        behind = end < position <= bounds.reach(tp)
        if behind:
            end = position
        elif not start <= position <= (reach := bounds.reach(tp)):
            position = start if position < start else max(start, min(end, reach))
            self._lost(tp, offset, bounds.available(tp), position, position)
            result.reset.add(tp)
        result.ranges[str(tp)] = SplitRange(position, end, drained=not behind)
        self._verified.add(tp)

    def _refuse_lost(self, found: Mapping[TopicPartition, str | None]) -> None:
        """Fails if partitions were lost during an AvailableNow run, even without ``failOnDataLoss`` (scenario SK-02).

        Only partitions that existed when the run began count.

        Args:
            found: The current topic id of partitions that may be lost; ``None`` for a partition that does not exist.

        Raises:
            DataLossError: A partition was deleted or recreated during the run.
        """
        frozen = self._frozen or {}
        lost = [tp for tp, topic_id in found.items() if tp in frozen and frozen[tp] != topic_id]
        if lost:
            there = _partitions(self.topics)
            raise DataLossError(
                "Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow. "
                "Make sure topic partitions are not dropped, or created again, during the query run. "
                f"topic-partitions for latest offset: {_names(there)}, lost topic-partitions for end offset: "
                f"{_names(lost)}"
            )

    def _lost(
        self,
        tp: TopicPartition,
        offset: int,
        available: str,
        instead: int | None = None,
        changed_to: int | None = None,
        cause: str = "",
    ) -> None:
        where = ""
        if instead is not None:
            where = f" Partition {tp}'s offset was changed from {offset} to {changed_to}"
            where += "." if instead == changed_to else f", and it is read from {instead} on."
        what = (
            f"Records of {tp} may have been lost: wanted from offset {'earliest' if offset == EARLIEST else offset}, "
            f"available {available}.{where}"
            f"{cause or ' Retention removed them, the topic was deleted, or the log lost its end.'}"
        )
        report_data_loss(log, what, fail=self._options.fail_on_data_loss)

    def _with_drained(self, result: LogRangesResult, late: Collection[TopicPartition]) -> LogRangesResult:
        """Returns ``result``, where splits whose leaders may have more records are marked as not drained.

        A split is not known to be drained if its end comes from an earlier request. In isolation ``read_committed`` it
        is also not drained if an open transaction holds records between the last stable offset and the high watermark.
        """
        for split_id in result.ranges.keys() & set(map(str, late)):
            result.ranges[split_id] = replace(result.ranges[split_id], drained=False)
        if not self._options.read_committed:
            return result
        by_id = {str(tp): tp for tp in self._verified}
        quiet = [
            by_id[i]
            for i, span in result.ranges.items()
            if span.drained and span.position == span.end and i in by_id
        ]
        high_watermarks = self._high_watermarks(quiet)
        for tp in quiet:
            span = result.ranges[str(tp)]
            drained = tp in high_watermarks and high_watermarks[tp] <= span.end
            result.ranges[str(tp)] = SplitRange(span.position, span.end, drained)
        return result


def _partitions(topics: Mapping[str, TopicMetadata]) -> dict[TopicPartition, str]:
    """Returns the ids of the topics of all partitions in ``topics``, by partition."""
    return {TopicPartition(name, n): topic.topic_id for name, topic in topics.items() for n in topic.leaders}


def _existing(
    wanted: Mapping[TopicPartition, int], successors: Mapping[TopicPartition, str]
) -> list[TopicPartition]:
    """Returns the wanted partitions without those that do not exist any more; see :class:`IdentityChanges`."""
    return [tp for tp in wanted if successors.get(tp) != ""] if successors else list(wanted)


def _names(partitions: Collection[TopicPartition]) -> str:
    return f"[{', '.join(map(str, sorted(partitions)))}]"
