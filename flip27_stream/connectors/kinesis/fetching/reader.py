"""The reader of a task, which fetches the next pages of its shards while it emits one."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kinesis.client.client import KinesisClient, Page, to_ms
from flip27_stream.connectors.kinesis.client.consumers import Consumers
from flip27_stream.connectors.kinesis.client.errors import NotThereError
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.client.shard_pages import ShardPages
from flip27_stream.connectors.kinesis.client.subscription import Subscription
from flip27_stream.connectors.kinesis.options.source_options import KinesisOptions, bytes_per_second
from flip27_stream.connectors.kinesis.positions import (
    TRIM_HORIZON,
    before,
    behind,
    described,
    is_behind,
)
from flip27_stream.connectors.kinesis.read_event import RangeRead, ShardRangesRead
from flip27_stream.connectors.kinesis.records.columns import rows_of
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.threads import CallPool

log = logging.getLogger(__name__)

_THREADS = 8
_POLL_S = 30.0


@dataclass
class _ShardReading:
    """A shard that is being read from ``position`` on.

    Attributes:
        floor: The least position of a record to emit, after a loss. Reading then begins at the beginning of the shard.
        iterator: A shard iterator at the position; ``None`` if a new one is needed.
        has_gap: Whether records after the position may have expired before the page that is fetched now.
        subscription: The subscription that sends the records (enhanced fan-out); ``None`` if the shard is polled.
    """

    split: KinesisShardSplit
    end: int
    position: int
    floor: int = TRIM_HORIZON
    iterator: str | None = None
    subscription: Subscription | None = None
    rows: int = 0
    first_time: int = 0
    last_time: int = 0
    has_gap: bool = False
    is_begun: bool = False


class KinesisSourceReader(SourceReader[KinesisShardSplit]):
    """The reader of bounded splits, several at the same time.

    Planning has read the first and the last record of each range. If one of them does not exist any more, records of
    the range are lost.

    Raises:
        DataLossError: Records of a range are gone, and ``failOnDataLoss`` is set.
        UnreachableError: The service does not answer, or is throttled for longer than ``requestTimeout``.
    """

    def __init__(self, context: SourceReaderContext, options: KinesisOptions, schema: pa.Schema) -> None:
        self._context = context
        self._options = options
        self._schema = schema
        shard_limits = ShardLimits(options.min_fetch_period_ms / 1000, bytes_per_second(options))
        self._client = KinesisClient(options.connection, shard_limits)
        self._consumers = None if options.fan_out is None else Consumers(self._client, options.fan_out)
        self._threads = CallPool(_THREADS, "flip27-kinesis")
        self._waiting: list[_ShardReading] = []
        self._fetching: dict[Future[Page], _ShardReading] = {}
        self._ended: list[_ShardReading] = []
        self._told: list[RangeRead] = []
        limit = options.limits.max_rows
        self._page_size = min(options.max_records_per_fetch, limit + 1 if limit is not None else 10_000)
        self._rows = context.metric_group().counter("records_in")
        self._bytes = context.metric_group().counter("bytes_in")

    def add_splits(self, splits: Sequence[KinesisShardSplit]) -> None:
        for split in splits:
            if split.end is None:
                raise ValueError(f"split {split.split_id} has no end; a reader reads bounded splits")
            reading = _ShardReading(split, split.end, split.start)
            if self._consumers is not None:
                reading.subscription = Subscription(self._client, self._consumers, split)
            (self._waiting if split.start < split.end else self._ended).append(reading)

    def notify_no_more_splits(self) -> None:
        """Does nothing: all splits are added before the first poll."""

    def snapshot_state(self) -> Sequence[KinesisShardSplit]:
        left = [*self._waiting, *self._fetching.values()]
        return [replace(reading.split, start=reading.position) for reading in left]

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        self._fetch()
        if self._fetching:
            done, _ = wait(self._fetching, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(future, self._fetching.pop(future), output)
        for reading in self._ended:
            output.release_output_for_split(reading.split.split_id)
        self._ended.clear()
        if self._waiting or self._fetching:
            return InputStatus.MORE_AVAILABLE
        if self._told:
            self._context.send_source_event_to_coordinator(ShardRangesRead(tuple(self._told)).event())
            self._told = []
        return InputStatus.END_OF_INPUT

    def close(self) -> None:
        self._threads.close()
        for reading in self._waiting:
            _unsubscribe(reading)
        for future, reading in self._fetching.items():
            future.add_done_callback(lambda _, reading=reading: _unsubscribe(reading))  # type: ignore[misc]

    def _fetch(self) -> None:
        while self._waiting and len(self._fetching) < _THREADS:
            page = self._threads.submit(partial(self._next_page, self._waiting[0]))
            self._fetching[page] = self._waiting.pop(0)

    def _next_page(self, reading: _ShardReading) -> Page:
        page = self._fetched(reading)
        if page.records and reading.rows and not self._is_whole_since(reading):
            reading.has_gap = True
        return page

    def _is_whole_since(self, reading: _ShardReading) -> bool:
        """Returns whether the last record that was read still exists, so that all records after it exist, too."""
        if not self._client.is_about_to_expire(reading.split.stream, reading.last_time):
            return True
        return ShardPages(self._client, reading.split).has_record_before(reading.position)

    def _fetched(self, reading: _ShardReading) -> Page:
        split = reading.split
        if reading.subscription is not None:
            if (pushed := reading.subscription.next_page(reading.position)) is not None:
                return pushed
            reading.subscription, reading.iterator = None, None

        def make_iterator() -> str:
            return self._client.iterator(split.stream, split.shard_id, reading.position)

        page = self._client.page(split.split_id, reading.iterator, self._page_size, make_iterator)
        is_before_end = page.at_tip and not page.records and page.next_iterator is not None
        return replace(page, next_iterator=None) if is_before_end and not self._has_end(reading) else page

    def _has_end(self, reading: _ShardReading) -> bool:
        """Returns whether the record that the end of the range names still exists."""
        end = reading.end // 10 * 10
        try:
            page = ShardPages(self._client, reading.split).from_new_iterator(end, 1)
        except NotThereError:
            return False
        return bool(page.records) and before(page.records[0]["SequenceNumber"]) == end

    def _take(self, future: Future[Page], reading: _ShardReading, output: ReaderOutput) -> None:
        try:
            page = future.result()
        except NotThereError as error:
            self._lose(reading, str(error))
            self._go_on_after_loss(reading)
            return
        if reading.has_gap:
            self._lose(reading, "the last record that was read has expired")
            reading.has_gap = False
        records = _records_from(_records_before(page.records, reading.end), reading.floor)
        self._check_ends(reading, page)
        if records:
            self._emit(reading, records, page.size, output)
        if page.records and before(page.records[-1]["SequenceNumber"]) >= reading.end - 1:
            self._end(reading)
        elif page.next_iterator is None:
            self._lose(reading, f"sequence number {reading.end // 10} does not exist")
            self._end(reading)
        else:
            # Records up to the end of the range exist, so an iterator that has come to the tip is not used again.
            reading.iterator = None if page.at_tip else page.next_iterator
            self._waiting.append(reading)
            self._fetch()

    def _go_on_after_loss(self, reading: _ShardReading) -> None:
        """Continues at the first record that the shard still has, or ends the range if reading began there."""
        if reading.position == TRIM_HORIZON:
            self._end(reading)
        else:
            reading.floor, reading.position, reading.iterator = reading.position, TRIM_HORIZON, None
            self._waiting.append(reading)

    def _check_ends(self, reading: _ShardReading, page: Page) -> None:
        """Checks that the first and last record of the planned range still exist."""
        if not page.records:
            return
        first, last = (before(page.records[i]["SequenceNumber"]) for i in (0, -1))
        starts_at_record = reading.position != TRIM_HORIZON and not is_behind(reading.position)
        if not reading.is_begun and starts_at_record and first != reading.position:
            self._lose(reading, f"the first existing record has sequence number {first // 10}")
        reading.is_begun = True
        end = reading.end // 10 * 10
        if first <= end <= last:
            if before(_records_before(page.records, end + 1)[-1]["SequenceNumber"]) != end:
                self._lose(reading, f"sequence number {end // 10} does not exist")
        elif first > end:
            self._lose(reading, f"the next existing record has sequence number {first // 10}")

    def _emit(
        self, reading: _ShardReading, records: Sequence[Mapping[str, Any]], size: int, output: ReaderOutput
    ) -> None:
        rows = rows_of(records, reading.split, self._schema)
        last = records[-1]
        if reading.rows == 0:
            reading.first_time = to_ms(records[0]["ApproximateArrivalTimestamp"])
        reading.last_time = to_ms(last["ApproximateArrivalTimestamp"])
        reading.rows += len(records)
        reading.position = behind(str(last["SequenceNumber"]))
        self._rows.inc(rows.records.num_rows)
        self._bytes.inc(size)
        output.create_output_for_split(reading.split.split_id).collect(rows.records, rows.timestamps)

    def _end(self, reading: _ShardReading) -> None:
        _unsubscribe(reading)
        self._ended.append(reading)
        if reading.rows:
            self._told.append(
                RangeRead(reading.split.split_id, reading.rows, reading.first_time, reading.last_time)
            )

    def _lose(self, reading: _ShardReading, why: str) -> None:
        what = (
            f"Records of {reading.split.split_id} were lost while they were read: wanted from "
            f"{described(reading.position)} up to {described(reading.end)}, and {why}. They are older than the "
            "stream's retention period, or the stream was deleted."
        )
        report_data_loss(log, what, fail=self._options.fail_on_data_loss)


def _records_before(records: Sequence[Mapping[str, Any]], end: int) -> Sequence[Mapping[str, Any]]:
    """Returns the records before a position. Records are in the order of their sequence numbers."""
    if not records or before(records[-1]["SequenceNumber"]) < end:
        return records
    return records[: _index(records, end)]


def _records_from(records: Sequence[Mapping[str, Any]], start: int) -> Sequence[Mapping[str, Any]]:
    """Returns the records at or after a position."""
    if not records or before(records[0]["SequenceNumber"]) >= start:
        return records
    return records[_index(records, start) :]


def _index(records: Sequence[Mapping[str, Any]], position: int) -> int:
    return bisect_left(records, position, key=lambda r: before(r["SequenceNumber"]))


def _unsubscribe(reading: _ShardReading) -> None:
    if reading.subscription is not None:
        reading.subscription.close()
