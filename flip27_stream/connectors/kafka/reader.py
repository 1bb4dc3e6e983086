"""Reads planned ranges of partitions into record batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.connectors.kafka.client import KafkaClient
from flip27_stream.connectors.kafka.client_pool import CLIENTS
from flip27_stream.connectors.kafka.options import KafkaOptions
from flip27_stream.connectors.kafka.protocol import (
    CORRUPT_MESSAGE,
    OFFSET_OUT_OF_RANGE,
    Fetched,
    FetchFrom,
    fetch_request,
    fetched_partitions,
    refused,
    retriable,
)
from flip27_stream.connectors.kafka.record_batches import batch_headers, decode
from flip27_stream.connectors.kafka.rows import RowMaker, record_timestamps
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import ConnectorError, CorruptRecordError, DataLossError

log = logging.getLogger(__name__)

_POLL_S = 0.5
_RETRY_S = 0.05
_LEAST_FETCH = 64 << 10
_GUESSED_RECORD = 1 << 10


@dataclass
class _Progress:
    """How far a split was read: up to ``position``, in rows that were emitted or are in a response to be decoded.

    ``waited`` are the seconds waited since its leader last sent records, of this split or of others asked for with it:
    a response has room for some, and the rest stand in line.
    """

    split_id: str
    position: int
    stop: int
    rows: RowMaker
    waited: float = 0.0

    @property
    def next_fetch(self) -> int:
        """Bytes that hold what is left, unless records are large; a range is often much smaller than a full fetch."""
        return max(_LEAST_FETCH, (self.stop - self.position) * _GUESSED_RECORD)


@dataclass(frozen=True)
class _InFlight:
    """A fetch that a leader was sent."""

    response: Any
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class KafkaSourceReader(SourceReader[KafkaPartitionSplit]):
    """Reads bounded splits, the partitions of each leader together, the next fetch under way while one is decoded.

    A split ends where its position reaches the stopping offset, not at a record: transaction markers, aborted records
    and gaps may be last. A partition that moves to another leader is followed.

    Raises:
        DataLossError: the log no longer has records of a planned range, and ``failOnDataLoss`` is set.
        ConnectorError: a leader sent nothing for ``default.api.timeout.ms``, or refused.
        CorruptRecordError: records do not decode.
    """

    def __init__(self, context: SourceReaderContext, options: KafkaOptions) -> None:
        self._options = options
        self._client: KafkaClient = CLIENTS.borrow(options.connection)
        self._reading: dict[TopicPartition, _Progress] = {}
        self._ended: list[str] = []
        self._in_flight: dict[int, _InFlight] = {}
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
                self._reading[tp] = _Progress(split.split_id, start, stop, RowMaker(tp))

    def notify_no_more_splits(self) -> None:
        """Splits are known from the start."""

    def snapshot_state(self) -> Sequence[KafkaPartitionSplit]:
        return [KafkaPartitionSplit(*tp, p.position, p.stop) for tp, p in self._reading.items()]

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        for split_id in self._ended:
            output.release_output_for_split(split_id)
        self._ended.clear()
        if not self._reading:
            return InputStatus.END_OF_INPUT
        self._send_fetches()
        self._take_response(output)
        return InputStatus.MORE_AVAILABLE

    def close(self) -> None:
        if self._in_flight:
            self._client.close()
        else:
            CLIENTS.give_back(self._client)

    def _send_fetches(self) -> None:
        """One fetch to each leader that has none to answer."""
        busy = {tp for fetch in self._in_flight.values() for tp in fetch.offsets}
        waiting = [tp for tp in self._reading if tp not in busy]
        by_leader: dict[int, dict[TopicPartition, FetchFrom]] = {}
        for tp, leader in self._client.leaders(waiting).items() if waiting else ():
            if leader not in self._in_flight:
                progress = self._reading[tp]
                size = min(progress.next_fetch, self._options.max_partition_fetch_bytes)
                by_leader.setdefault(leader, {})[tp] = FetchFrom(progress.position, size)
        for leader, wanted in by_leader.items():
            request = fetch_request(wanted, self._options.read_committed, self._options.fetch_max_bytes)
            offsets = {tp: at.offset for tp, at in wanted.items()}
            self._in_flight[leader] = _InFlight(self._client.send(leader, request), offsets)

    def _take_response(self, output: ReaderOutput) -> None:
        """Wait for a response, send the next fetch, then decode what came."""
        leader = self._answered()
        if leader is None:
            return
        fetch = self._in_flight.pop(leader)
        if fetch.response.failed():
            self._client.forget_leaders(fetch.offsets)
            self._client.wait(_RETRY_S)
            return
        came: list[tuple[TopicPartition, _Progress, int, Fetched]] = []
        for tp, fetched in fetched_partitions(fetch.response.value).items():
            progress = self._reading.get(tp)
            if progress is None:
                continue  # given up meanwhile
            start = progress.position
            if fetched.error:
                self._act_on(tp, progress, fetched.error)
            elif self._advance(tp, progress, fetched):
                came.append((tp, progress, start, fetched))
        if came:
            self._leader_is_busy(fetch)
        self._send_fetches()
        self._client.flush()
        for tp, progress, start, fetched in came:
            self._emit(tp, progress, start, fetched, output)

    def _answered(self) -> int | None:
        """A leader whose response is there, after waiting for one."""
        began = time.monotonic()
        answered, waited = None, 0.0
        while answered is None and waited < _POLL_S:
            pending = [fetch.response for fetch in self._in_flight.values()]
            # With several leaders any may be first, and kafka-python waits for one.
            self._client.wait(
                _POLL_S if len(pending) == 1 else _RETRY_S, pending[0] if len(pending) == 1 else None
            )
            answered = next(
                (leader for leader, fetch in self._in_flight.items() if fetch.response.is_done), None
            )
            waited = time.monotonic() - began
        for tp, progress in list(self._reading.items()):
            progress.waited += waited
            if progress.waited > self._options.connection.api_timeout_ms / 1000:
                self._give_up(tp, progress)
        return answered

    def _leader_is_busy(self, fetch: _InFlight) -> None:
        """It sent records, so those in line behind them have not waited in vain."""
        for tp in fetch.offsets.keys() & self._reading.keys():
            self._reading[tp].waited = 0.0

    def _advance(self, tp: TopicPartition, progress: _Progress, fetched: Fetched) -> bool:
        """Move a split behind the batches that came; whether there are any."""
        self._bytes.inc(len(fetched.records))
        headers = batch_headers(fetched.records, str(tp))
        position = max(
            (header.last_offset + 1 for header in headers if header.complete), default=progress.position
        )
        if position <= progress.position:
            return False
        self._move(tp, progress, position)
        return True

    def _move(self, tp: TopicPartition, progress: _Progress, position: int) -> None:
        """To the end of the line: a leader fills its response in the order asked, and sends a batch that is larger than
        asked for only to the first."""
        progress.position = min(position, progress.stop)
        progress.waited = 0.0
        del self._reading[tp]
        if progress.position < progress.stop:
            self._reading[tp] = progress

    def _emit(
        self, tp: TopicPartition, progress: _Progress, start: int, fetched: Fetched, output: ReaderOutput
    ) -> None:
        split_output = output.create_output_for_split(progress.split_id)
        while start < progress.position:
            decoded = decode(
                fetched.records,
                start,
                progress.stop,
                source=str(tp),
                aborted=fetched.aborted if self._options.read_committed else None,
            )
            if decoded.next_offset <= start:
                raise CorruptRecordError(f"The record batch at offset {start} of {tp} has no end.")
            start, records = decoded.next_offset, decoded.records
            if len(records):
                self._rows.inc(len(records))
                split_output.collect(
                    progress.rows.rows(records), record_timestamps(records), pa.array(records.offsets)
                )
        if progress.position >= progress.stop:
            self._ended.append(progress.split_id)

    def _act_on(self, tp: TopicPartition, progress: _Progress, error: int) -> None:
        if error == OFFSET_OUT_OF_RANGE:
            self._act_on_range(tp, progress)
        elif error == CORRUPT_MESSAGE:
            raise CorruptRecordError(
                f"The broker found the log of {tp} damaged at or after offset {progress.position}."
            )
        elif retriable(error):
            self._client.forget_leaders([tp])
        else:
            raise refused(f"a fetch of {tp} at offset {progress.position}", error)

    def _act_on_range(self, tp: TopicPartition, progress: _Progress) -> None:
        """The log does not reach the position; ask what it has, for a new leader may not know its end yet."""
        ends, starts = self._client.list_offsets({tp: LATEST}, {tp: EARLIEST}, read_committed=False)
        self._client.forget_leaders([tp])
        if tp in ends and tp in starts and not starts[tp].offset <= progress.position <= ends[tp].offset:
            start, end = starts[tp].offset, ends[tp].offset
            self._lose(
                tp, progress, f"{start} to {end}", start if start > progress.position else progress.stop
            )

    def _give_up(self, tp: TopicPartition, progress: _Progress) -> None:
        leader = self._client.leaders([tp]).get(tp)
        topic = self._client.topics([tp.topic]).get(tp.topic)
        if topic is None or tp.partition not in topic.leaders:
            self._lose(tp, progress, "nothing, the partition was deleted", progress.stop)
            return
        who = (
            f"The leader of {tp}"
            if leader is None
            else f"The leader of {tp}, {self._client.address(leader)},"
        )
        raise ConnectorError(
            f"{who} sent no records at offset {progress.position} for {progress.waited:.0f} s, though the range "
            f"ends at {progress.stop}. Check that the broker is well, or raise option 'kafka.default.api.timeout.ms'."
        )

    def _lose(self, tp: TopicPartition, progress: _Progress, available: str, instead: int) -> None:
        what = (
            f"Records of {tp} were lost while they were read: wanted offsets {progress.position} to {progress.stop}, "
            f"available {available}. They were aged out, or the topic was deleted."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what} To go on with what is there, set option 'failOnDataLoss' to false.")
        log.warning("%s The query goes on, since option 'failOnDataLoss' is false.", what)
        self._move(tp, progress, instead)
        if progress.position >= progress.stop:
            self._ended.append(progress.split_id)
