"""The reader of a task, which reads planned ranges of partitions into record batches."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.arrow_columns import longs
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kafka.client.protocol import (
    CORRUPT_MESSAGE,
    INCONSISTENT_TOPIC_ID,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    FetchedPartition,
    FetchFrom,
    refusal,
    retriable,
)
from flip27_stream.connectors.kafka.fetching.fetched_ahead import Log
from flip27_stream.connectors.kafka.fetching.fetcher import Answer
from flip27_stream.connectors.kafka.fetching.fetcher_pool import FETCHERS
from flip27_stream.connectors.kafka.fetching.split_progress import SplitProgress, UndecodedRecords
from flip27_stream.connectors.kafka.options.source_options import TRUSTED_CLUSTER, KafkaOptions
from flip27_stream.connectors.kafka.records.batch_headers import CompleteBatches, complete_batches
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.connectors.kafka.values.rows import RowLayout, RowMaker, record_timestamps
from flip27_stream.errors import ConnectorError, CorruptRecordError, UnreachableError

log = logging.getLogger(__name__)

_POLL_S = 0.5
_RETRY_S = 0.05
_LONGEST_TURN_S = 5.0
_GONE_AFTER_S = 5.0
_NO_SUCH_TOPIC = (
    "nothing: the topic was deleted, or created again (if it was migrated to another cluster with its offsets kept, "
    f"see option '{TRUSTED_CLUSTER.name}')"
)
_DECODED_AT_ONCE = 20 << 20
"""The argument ``enough`` of :func:`decode`. A call takes about 1 ms, however few records it decodes."""


class KafkaSourceReader(SourceReader[KafkaPartitionSplit]):
    """The reader of bounded splits. It fetches the partitions of each leader together while it decodes earlier records.

    A split ends when its position reaches the stopping offset, not at a certain record, because the last offsets may be
    transaction markers, aborted records or gaps. If the leader of a partition changes, the reader follows it.

    Raises:
        DataLossError: The log no longer has records of a planned range, and ``failOnDataLoss`` is set.
        ConnectorError: A leader refused a fetch, or sent nothing for ``kafkaConsumer.pollTimeoutMs``, by default
            ``default.api.timeout.ms``.
        CorruptRecordError: Records cannot be decoded.
    """

    def __init__(
        self, context: SourceReaderContext, options: KafkaOptions, layout: RowLayout | None = None
    ) -> None:
        self._options = options
        self._layout = layout or RowLayout.of_records()
        self._time_limit_ms = options.poll_timeout_ms or options.connection.api_timeout_ms
        self._fetcher = FETCHERS.borrow(options.connection)
        self._client = self._fetcher.client
        self._reading: dict[TopicPartition, SplitProgress] = {}
        self._ended: list[str] = []
        self._undecoded: deque[UndecodedRecords] = deque()
        self._replicas: dict[TopicPartition, int] = {}
        self._pausing = False
        self._rows = context.metric_group().counter("records_in")
        self._bytes = context.metric_group().counter("bytes_in")

    def add_splits(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        for split in splits:
            if split.stopping_offset is None:
                raise ValueError(
                    f"split {split.split_id} has no stopping offset; a reader reads bounded splits"
                )
            if split.starting_offset >= split.stopping_offset:
                self._ended.append(split.split_id)
            else:
                tp = split.topic_partition
                start, stop = split.starting_offset, split.stopping_offset
                rows = RowMaker(tp, self._layout)
                progress = SplitProgress(split.split_id, start, stop, rows, topic_id=split.topic_id)
                self._reading[tp] = progress
                if (kept := self._fetcher.ahead.take(self._log(tp, progress), start)) is not None:
                    self._advance(tp, progress, kept)

    def notify_no_more_splits(self) -> None:
        """Does nothing: the reader gets all its splits at the start."""

    def snapshot_state(self) -> Sequence[KafkaPartitionSplit]:
        left = {tp: (progress.position, progress) for tp, progress in self._reading.items()}
        left |= {some.tp: (some.start, some.progress) for some in self._undecoded}
        return [
            KafkaPartitionSplit(*tp, start, progress.stop, progress.topic_id)
            for tp, (start, progress) in left.items()
        ]

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emits some megabytes of fetched records, and waits for more if all are emitted."""
        for split_id in self._ended:
            output.release_output_for_split(split_id)
        self._ended.clear()
        if not self._undecoded:
            if not self._reading:
                return InputStatus.END_OF_INPUT
            try:
                self._take_answer()
            except UnreachableError as error:
                tp, progress = next(iter(self._reading.items()))
                raise UnreachableError(
                    f"{tp} could not be read at offset {progress.position}: {error}"
                ) from error
        if self._undecoded:
            self._emit_some(output)
        return InputStatus.MORE_AVAILABLE

    def close(self) -> None:
        FETCHERS.give_back(self._fetcher)

    def _send_fetches(self) -> None:
        """Sends a fetch to each broker that is not paused and has no fetch in flight."""
        asked = self._fetcher.partitions_in_flight()
        waiting = [tp for tp in self._reading if tp not in asked]
        by_node: dict[int, dict[TopicPartition, FetchFrom]] = {}
        for tp, leader in self._client.leaders(waiting).items() if waiting else ():
            node = self._replicas.get(tp, leader)
            if not self._fetcher.is_busy(node):
                progress = self._reading[tp]
                rest, most = progress.stop - progress.position, self._options.max_partition_fetch_bytes
                size = progress.fetch_size.next(rest, most)
                by_node.setdefault(node, {})[tp] = FetchFrom(progress.position, size, progress.topic_id)
        for node, wanted in by_node.items():
            waited = 0.0
            for tp in wanted:
                self._reading[tp].asked = node
                waited = max(waited, self._reading[tp].waited)
            self._fetcher.send(
                node,
                wanted,
                read_committed=self._options.read_committed,
                max_bytes=self._options.fetch_max_bytes,
                within_s=self._time_limit_ms / 1000 - waited,
            )

    def _take_answer(self) -> None:
        """Waits for an answer, and sends the next fetch before the answer is decoded.

        Records are decoded while the next response is sent over the network.
        """
        began = time.monotonic()
        if self._pausing:
            time.sleep(_RETRY_S)
            self._pausing = False
        self._send_fetches()
        sent = time.monotonic()
        answer = self._fetcher.next_answer(_POLL_S if self._fetcher.partitions_in_flight() else _RETRY_S)
        self._count_waiting(began, sent - began + _LONGEST_TURN_S)
        if answer is None:
            return
        if answer.fetched is None:
            again = list(answer.partitions)
        else:
            again = [tp for tp, fetched in answer.fetched.items() if not self._take(tp, fetched)]
        self._look_for_leaders(again)
        if self._undecoded:
            self._restart_time_limits(answer.partitions)
        self._pausing = bool(again) or not (self._undecoded or _redirects(answer))
        if not self._pausing:
            self._send_fetches()

    def _take(self, tp: TopicPartition, fetched: FetchedPartition) -> bool:
        """Handles the answer about a partition. Returns ``False`` if its leader must be looked up first."""
        progress = self._reading.get(tp)
        if progress is None:
            return True  # The reader has given up the partition in the meantime.
        if fetched.error:
            self._act_on(tp, progress, fetched.error)
            return False
        if fetched.preferred_replica >= 0:
            is_first = tp not in self._replicas
            self._replicas[tp] = fetched.preferred_replica
            return is_first  # Replicas that redirect to each other are not asked without a pause.
        self._bytes.inc(len(fetched.records))
        received = self._advance(tp, progress, fetched)
        if received.end > progress.stop:
            self._fetcher.ahead.keep(self._log(tp, progress), progress.stop, fetched)
        return True

    def _log(self, tp: TopicPartition, progress: SplitProgress) -> Log:
        return Log(tp, progress.topic_id, self._options.read_committed)

    def _count_waiting(self, since: float, most_s: float) -> None:
        """Adds the time since ``since`` (monotonic seconds) to the wait of each split, without throttle times.

        Args:
            since: The time at which the wait began.
            most_s: The longest time that counts, in seconds. If the wait was longer, the process was suspended.
        """
        now = time.monotonic()
        for tp, progress in list(self._reading.items()):
            throttled_until = 0.0 if progress.asked is None else self._fetcher.throttled_until(progress.asked)
            waited = min(max(0.0, now - max(since, throttled_until)), most_s)
            progress.waited += waited
            if progress.unknown is not None:
                progress.unknown += waited
            if progress.waited > self._time_limit_ms / 1000:
                self._give_up(tp, progress)
        self._restart_time_limits(self._fetcher.partitions_receiving())

    def _look_for_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Marks the leaders of these partitions as unknown, so that metadata is requested before the next fetch."""
        self._client.forget_leaders(partitions)
        for tp in partitions:
            self._replicas.pop(tp, None)

    def _restart_time_limits(self, partitions: Iterable[TopicPartition]) -> None:
        """Restarts the time limits of splits whose broker is sending records of other splits first."""
        for tp in partitions:
            if tp in self._reading:
                self._reading[tp].waited = 0.0

    def _advance(
        self, tp: TopicPartition, progress: SplitProgress, fetched: FetchedPartition
    ) -> CompleteBatches:
        """Moves the position of a split after the complete batches of an answer, which are decoded later."""
        start = progress.position
        received = complete_batches(fetched.records, str(tp))
        if received.end > start:
            progress.fetch_size.add(received, received.end - start)
            self._move(tp, progress, received.end)
            self._undecoded.append(UndecodedRecords(tp, progress, start, fetched))
        return received

    def _move(self, tp: TopicPartition, progress: SplitProgress, position: int) -> None:
        """Sets the position of a split, and moves the split to the end of the fetch order.

        A leader fills its response in the order of the request, and sends a batch that is larger than the limit only
        for the first partition.
        """
        progress.position = min(position, progress.stop)
        progress.waited, progress.unknown = 0.0, None
        del self._reading[tp]
        if progress.position < progress.stop:
            self._reading[tp] = progress

    def _emit_some(self, output: ReaderOutput) -> None:
        some = self._undecoded[0]
        tp, progress = some.tp, some.progress
        decoded = some.more() if some.more is not None else self._decode(some)
        if decoded.next_offset <= some.start:
            raise CorruptRecordError(f"The record batch at offset {some.start} of {tp} has no end.")
        some.start, records, some.more = decoded.next_offset, decoded.records, decoded.more
        if some.more is not None and decoded.end >= progress.position:
            some.fetched = replace(some.fetched, records=b"")  # all of it is decompressed
        if len(records):
            self._rows.inc(len(records))
            output.create_output_for_split(progress.split_id).collect(
                progress.rows.rows(records), record_timestamps(records), longs(records.offsets)
            )
        if some.start >= progress.position:
            self._undecoded.popleft()
            if progress.position >= progress.stop:
                self._ended.append(progress.split_id)

    def _decode(self, some: UndecodedRecords) -> DecodedRecords:
        return decode(
            some.fetched.records,
            some.start,
            some.progress.stop,
            source=str(some.tp),
            aborted=some.fetched.aborted if self._options.read_committed else None,
            keys=self._layout.needs_keys,
            values=self._layout.needs_values,
            headers=self._layout.needs_headers,
            enough=_DECODED_AT_ONCE,
        )

    def _act_on(self, tp: TopicPartition, progress: SplitProgress, error: int) -> None:
        if error == OFFSET_OUT_OF_RANGE:
            self._act_on_range(tp, progress)
        elif error == CORRUPT_MESSAGE:
            raise CorruptRecordError(
                f"The broker found the log of {tp} damaged at or after offset {progress.position}."
            )
        elif error in (UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID):
            self._act_on_topic(tp, progress)
        elif not retriable(error):
            raise refusal(f"a fetch of {tp} at offset {progress.position}", error)

    def _act_on_range(self, tp: TopicPartition, progress: SplitProgress, *, at_end: bool = False) -> None:
        """Reports a loss if the log does not contain the position; with ``at_end``, also if it ends there.

        The bounds of the log are looked up again, because a new leader may not know its end yet.
        """
        ends, starts = self._client.list_offsets({tp: LATEST}, {tp: EARLIEST}, read_committed=False)
        if tp not in ends or tp not in starts:
            return
        at, start, end = progress.position, starts[tp].offset, ends[tp].offset
        if not start <= at <= end or (at_end and at == end):
            self._lose(tp, progress, f"{start} to {end}", start if start > at else progress.stop)

    def _act_on_topic(self, tp: TopicPartition, progress: SplitProgress) -> None:
        """Handles a topic id that the broker does not know.

        A broker that has just started gets some seconds to learn it.
        """
        if progress.unknown is None:
            progress.unknown = 0.0
        elif progress.unknown >= _GONE_AFTER_S and self._was_deleted(tp, progress):
            self._lose(tp, progress, _NO_SUCH_TOPIC, progress.stop)

    def _give_up(self, tp: TopicPartition, progress: SplitProgress) -> None:
        asked = progress.asked  # The broker that sent nothing; the leader may be another broker now.
        who = f"The leader of {tp}" + (f", {self._client.address(asked)}," if asked is not None else "")
        if self._was_deleted(tp, progress):
            self._lose(tp, progress, "nothing, the partition was deleted", progress.stop)
            return
        position = progress.position
        if self._fetcher.failure is None:  # The leader may have answered without records.
            self._act_on_range(tp, progress, at_end=True)
        if progress.position != position:
            return
        why = f" ({self._fetcher.failure})" if self._fetcher.failure is not None else ""
        given = self._options.poll_timeout_ms is not None
        option = "kafkaConsumer.pollTimeoutMs" if given else "kafka.default.api.timeout.ms"
        raise ConnectorError(
            f"{who} sent no records at offset {progress.position} for {progress.waited:.0f} s{why}, though the range "
            f"ends at {progress.stop}. Check that the broker runs without errors, or raise option '{option}'."
        )

    def _was_deleted(self, tp: TopicPartition, progress: SplitProgress) -> bool:
        """Returns whether the topic was deleted or recreated. ``False`` if no broker answers in time."""
        within_ms = min(self._time_limit_ms, self._options.connection.api_timeout_ms)
        try:
            topic = self._client.topics([tp.topic], within_ms).get(tp.topic)
        except UnreachableError:
            return False
        if topic is None or tp.partition not in topic.leaders:
            return True
        return bool(progress.topic_id and topic.topic_id) and topic.topic_id != progress.topic_id

    def _lose(self, tp: TopicPartition, progress: SplitProgress, available: str, instead: int) -> None:
        what = (
            f"Records of {tp} were lost while they were read: wanted offsets {progress.position} to {progress.stop}, "
            f"available {available}. Retention removed them, the topic was deleted, or the log lost its end."
        )
        report_data_loss(log, what, fail=self._options.fail_on_data_loss)
        self._move(tp, progress, instead)
        if progress.position >= progress.stop:
            self._ended.append(progress.split_id)


def _redirects(answer: Answer) -> bool:
    """Returns whether a broker named a preferred replica to fetch from."""
    return any(fetched.preferred_replica >= 0 for fetched in (answer.fetched or {}).values())
