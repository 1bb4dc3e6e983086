"""Finds event times in the log itself, with small fetches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set

import numpy as np

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import numbers_of
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import (
    CORRUPT_MESSAGE,
    OFFSET_OUT_OF_RANGE,
    FetchedPartition,
    FetchFrom,
    refusal,
    retriable,
)
from flip27_stream.connectors.kafka.event_time.event_time_cache import NO_EVENT_TIME, Chunk
from flip27_stream.connectors.kafka.event_time.known_batches import KnownBatches
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.values.rows import RowLayout, RowMaker, record_timestamps
from flip27_stream.errors import CorruptRecordError
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.in_order import values_of

_TIME_LIMIT_S = 5.0
_ROUND_BYTES = 32 << 20
_GROWTH = 8
_LEAST_BACKOFF_MS = 10
_LONGEST_PAUSE_S = 1.0
_NO_STOP = 2**63 - 1


class EventTimeProbe:
    """Fetches pieces of partitions and computes the event times of their records.

    Args:
        client: Sends the fetches.
        assigner: Gives the event time of each record.
        layout: The columns for the assigner; by default those of Kafka records.
        read_committed: Whether records of aborted transactions are left out.
    """

    def __init__(
        self,
        client: KafkaClient,
        assigner: TimestampAssigner,
        layout: RowLayout | None = None,
        *,
        read_committed: bool,
    ) -> None:
        self._client = client
        self._assigner = assigner
        self._layout = layout or RowLayout.of_records()
        self._read_committed = read_committed
        self._out_of_range: set[TopicPartition] = set()

    def read(self, wanted: Mapping[TopicPartition, FetchFrom]) -> dict[TopicPartition, Chunk]:
        """Returns a chunk for each partition, with at least one record batch from its offset on.

        A partition whose leader does not answer within 5 s is left out.

        Raises:
            ConnectorError: A broker refused the fetch, or the log is damaged.
        """
        chunks: dict[TopicPartition, Chunk] = {}

        def take(answers: Mapping[TopicPartition, FetchedPartition]) -> Set[TopicPartition]:
            for tp, fetched in answers.items():
                if (chunk := self.decoded(tp, wanted[tp].offset, fetched)) is not None:
                    chunks[tp] = chunk
            return chunks.keys()

        self._fetch_until(wanted, take)
        return chunks

    def read_batches(
        self, wanted: Mapping[TopicPartition, FetchFrom], known: KnownBatches, *, if_room: bool
    ) -> Set[TopicPartition]:
        """Adds batches to ``known`` as :meth:`read` does, but decodes only the headers of most partitions.

        The event times must be the timestamps of records.

        Args:
            wanted: The offset and size of the first fetch of each partition.
            known: The batches of the plan.
            if_room: See :meth:`KnownBatches.add`.

        Returns:
            The partitions whose leaders answered.

        Raises:
            ConnectorError: A broker refused the fetch, or the log is damaged.
        """
        answered: set[TopicPartition] = set()

        def take(answers: Mapping[TopicPartition, FetchedPartition]) -> Set[TopicPartition]:
            plain = answers
            if [fetched for fetched in answers.values() if fetched.error or fetched.aborted]:
                plain = {tp: found for tp, found in answers.items() if self._is_plain(found)}
            rest = known.add(plain, [at.offset for at in values_of(list(plain), wanted)], if_room=if_room)
            if len(plain) < len(answers):
                rest |= answers.keys() - plain.keys()
            answered.update(plain.keys() - rest if rest else plain)
            for tp in rest:
                if (chunk := self.decoded(tp, wanted[tp].offset, answers[tp])) is not None:
                    known.add_chunk(tp, chunk)
                    answered.add(tp)
            return answered

        self._fetch_until(wanted, take)
        return answered

    def _fetch_until(
        self,
        wanted: Mapping[TopicPartition, FetchFrom],
        take: Callable[[Mapping[TopicPartition, FetchedPartition]], Set[TopicPartition]],
    ) -> None:
        """Fetches until there is an answer with a whole record batch for each partition, for 5 s at most.

        Args:
            wanted: The offset and size of the first fetch of each partition.
            take: Called with the answers of a round; returns the partitions of ``wanted`` that have had such an answer
                so far.
        """
        pending = dict(wanted)
        deadline = time.monotonic() + _TIME_LIMIT_S
        unanswered = 0
        while pending:
            answers = self._client.fetch(pending, read_committed=self._read_committed, max_bytes=_ROUND_BYTES)
            done = take(answers)
            if len(done) == len(wanted):
                break
            left = {tp: at for tp, at in pending.items() if tp not in done and tp not in self._out_of_range}
            with_larger_limit = {
                tp: at._replace(max_bytes=min(at.max_bytes * _GROWTH, _ROUND_BYTES))
                for tp, at in left.items()
                if tp in answers and not answers[tp].error and at.max_bytes < _ROUND_BYTES
            }
            as_before = {tp: at for tp, at in left.items() if tp not in with_larger_limit}
            pause_s = doubled_pause(self._least_pause_s, _LONGEST_PAUSE_S, unanswered) if as_before else 0.0
            unanswered = unanswered + 1 if as_before else 0
            if time.monotonic() + pause_s > deadline:
                break
            time.sleep(pause_s)
            # A broker sends a batch larger than the limit only for the first partition of a request. So partitions
            # that need a greater limit come first.
            pending = {**with_larger_limit, **as_before}

    def _is_plain(self, fetched: FetchedPartition) -> bool:
        """Returns whether an answer has no error, and no aborted records that must be left out."""
        return not (fetched.error or (self._read_committed and fetched.aborted))

    @property
    def _least_pause_s(self) -> float:
        """The pause after the first round without an answer: that of other requests (``retry.backoff.ms``)."""
        return max(self._client.options.retry_backoff_ms, _LEAST_BACKOFF_MS) / 1000

    @property
    def out_of_range(self) -> Set[TopicPartition]:
        """The partitions whose logs no longer had a requested offset, since the last :meth:`take_out_of_range`."""
        return self._out_of_range

    def take_out_of_range(self) -> set[TopicPartition]:
        """Returns :attr:`out_of_range` and clears it."""
        found, self._out_of_range = self._out_of_range, set()
        return found

    def decoded(self, tp: TopicPartition, offset: int, fetched: FetchedPartition) -> Chunk | None:
        """Returns the event times in an answer; ``None`` if it has no whole record batch.

        Raises:
            ConnectorError: A broker refused the fetch, or the log is damaged.
        """
        if fetched.error == OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(tp)
            return None
        if fetched.error == CORRUPT_MESSAGE:
            raise CorruptRecordError(f"The broker found the log of {tp} damaged at or after offset {offset}.")
        if retriable(fetched.error):
            return None
        if fetched.error:
            raise refusal(f"a fetch of {tp} at offset {offset}", fetched.error)
        by_timestamp = type(self._assigner) is RecordTimestampAssigner
        decoded = decode(
            fetched.records,
            offset,
            _NO_STOP,
            source=str(tp),
            aborted=fetched.aborted if self._read_committed else None,
            keys=not by_timestamp and self._layout.needs_keys,
            values=not by_timestamp and self._layout.needs_values,
            headers=not by_timestamp and self._layout.needs_headers,
        )
        if decoded.next_offset <= offset:
            return None
        records = decoded.records
        if by_timestamp:
            times = records.timestamps
        else:
            rows = RowMaker(tp, self._layout).rows(records)
            column = self._assigner.event_times(rows, record_timestamps(records))
            times = numbers_of(column, null=NO_EVENT_TIME)
        return Chunk(offset, decoded.next_offset, records.offsets, _valid(times))


def _valid(times: Int64s) -> Int64s:
    return np.maximum(times, NO_EVENT_TIME)
