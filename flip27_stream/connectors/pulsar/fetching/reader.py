"""The reader of a task, which reads bounded partitions one after the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.fetching.gaps import count_without_gap, existing
from flip27_stream.connectors.pulsar.options.source_options import PulsarOptions
from flip27_stream.connectors.pulsar.positions import EARLIEST, described, ledger_of, position_of
from flip27_stream.connectors.pulsar.records.columns import rows_of
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.errors import MissingTopicError, UnreachableError
from flip27_stream.running_time import turns

log = logging.getLogger(__name__)

_ROWS = 4096
_BYTES = 4 << 20
_WAIT_MS = 1000
_PAUSE_S = 0.2
_GONE = "the topic does not exist any more"
_SILENT_TURNS = 5
"""After so many seconds without a message the reader is opened again; then after three times as many, and so on."""


@dataclass
class _PartitionReading:
    """A partition that is being read from ``position`` on.

    Attributes:
        split: The split, which is bounded.
        end: The end of its range.
        position: The next position to read.
        is_ended: Whether the range is read.
        last: The position of the last message that was read; ``None`` before the first one.
    """

    split: PulsarPartitionSplit
    end: int
    position: int
    is_ended: bool = False
    last: int | None = None


class PulsarSourceReader(SourceReader[PulsarPartitionSplit]):
    """The reader of bounded splits, one after the other.

    The end of a range is directly before or after a message that planning has read. If the reader finds no message
    there, messages were lost. So it never waits for a message that is not published yet.

    Raises:
        DataLossError: Messages of a range are gone, and ``failOnDataLoss`` is set.
        UnreachableError: A message does not come within ``pollTimeoutMs``.
        AuthenticationError: The servers refuse the credentials, or the credentials have expired.
        RecordFormatError: A message is encrypted or chunked.
    """

    def __init__(self, context: SourceReaderContext, options: PulsarOptions) -> None:
        self._options = options
        self._client = PulsarClient(options.connection, options.role_prefix)
        self._waiting: list[_PartitionReading] = []
        self._reader: Any = None
        self._wait_ms = min(_WAIT_MS, options.poll_timeout_ms)
        self._rows = context.metric_group().counter("records_in")
        self._bytes = context.metric_group().counter("bytes_in")

    def add_splits(self, splits: Sequence[PulsarPartitionSplit]) -> None:
        for split in splits:
            if split.end is None:
                raise ValueError(f"split {split.split_id} has no end; a reader reads bounded splits")
            self._waiting.append(_PartitionReading(split, split.end, split.start, split.start >= split.end))

    def notify_no_more_splits(self) -> None:
        """Does nothing: all splits are added before the first poll."""

    def snapshot_state(self) -> Sequence[PulsarPartitionSplit]:
        return [replace(reading.split, start=reading.position) for reading in self._waiting]

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._waiting:
            return InputStatus.END_OF_INPUT
        reading = self._waiting[0]
        if not reading.is_ended:
            messages, ids, data = self._next_messages(reading)
            if messages:
                rows, published = rows_of(messages, ids, data)
                self._rows.inc(rows.num_rows)
                self._bytes.inc(rows.nbytes)
                output.create_output_for_split(reading.split.split_id).collect(rows, published)
        if reading.is_ended:
            self._close_reader()
            output.release_output_for_split(reading.split.split_id)
            del self._waiting[0]
        return InputStatus.MORE_AVAILABLE if self._waiting else InputStatus.END_OF_INPUT

    def close(self) -> None:
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._client.close(self._reader)
        self._reader = None

    def _next_messages(self, reading: _PartitionReading) -> tuple[list[Any], list[Any], list[bytes]]:
        """Returns the next messages of the range, their ids and their data, up to some megabytes."""
        messages: list[Any] = []
        ids: list[Any] = []
        data: list[bytes] = []
        came: list[int] = []
        size, before = 0, reading.last
        while not reading.is_ended and len(messages) < _ROWS and size < _BYTES:
            try:
                message = self._next_message(reading)
                why = "no further message exists"
            except MissingTopicError:
                message, why = None, _GONE
            if message is None:
                self._lose(reading, why)
                reading.is_ended = True
                break
            message_id = message.message_id()
            at = position_of(message_id)
            if at < reading.position:  # A reader begins with the whole batch of an entry.
                continue
            if reading.last is None:
                self._check_first(reading, at)
            came.append(at)
            reading.last, reading.is_ended = at, at >= reading.end - 1
            if at < reading.end:
                messages.append(message)
                ids.append(message_id)
                data.append(message.data())
                size += len(data[-1])
                reading.position = at + 1
        try:
            count = self._proven(reading, came, before)
        except MissingTopicError:
            self._lose(reading, _GONE)
            count, reading.is_ended = len(came), True
        return messages[:count], ids[:count], data[:count]

    def _proven(self, reading: _PartitionReading, came: list[int], before: int | None) -> int:
        """Returns how many of the messages that came follow each other with no missing message between them.

        If the broker has moved the reader forward, the messages after the gap are read again by another reader.

        Args:
            reading: The partition.
            came: The positions of the messages that came.
            before: The position of the last message before them; ``None`` if they are the first ones of the range.
        """
        count = count_without_gap(came, reading.split.start - 1 if before is None else before)
        if count == len(came):
            return count
        last = came[count - 1] if count else before
        start = reading.split.start if last is None else last
        found = existing(self._client, reading.split.topic, start, came[-1])
        if last is not None and next(found, None) != last:
            # Brokers delete the oldest ledgers first: if this one existed, none after it would be deleted.
            self._lose(reading, f"ledger {ledger_of(last)} was deleted")
        elif any(there != at for there, at in zip_longest(found, came[count:])):
            log.warning(
                "The broker has moved a reader of %s from %s to %s, though messages between them exist: they "
                "expired (time to live), or the backlog was cleared or skipped. They are read again.",
                reading.split.topic,
                described(start),
                described(came[count]),
            )
            reading.last, reading.is_ended = last, False
            reading.position = start if last is None else last + 1
            self._close_reader()
            return count
        return len(came)

    def _check_first(self, reading: _PartitionReading, at: int) -> None:
        """Checks that the first message of a range is in the ledger where the range starts."""
        if reading.position != EARLIEST and ledger_of(at) != ledger_of(reading.position):
            self._lose(reading, f"the first existing message is at {described(at)}")

    def _next_message(self, reading: _PartitionReading) -> Any | None:
        """Returns the next message; ``None`` if the partition has no further message."""
        if self._reader is None:
            self._open_reader(reading)
        if (message := self._polled()) is not None:
            return message
        silent_turns = _SILENT_TURNS
        for turn, _ in enumerate(turns(self._options.poll_timeout_ms / 1000), 1):
            if not self._is_available():
                return None
            if (message := self._polled()) is not None:
                return message
            if turn >= silent_turns:  # The broker may have moved the reader behind the last message.
                self._close_reader()
                self._open_reader(reading)
                silent_turns *= 3
        raise UnreachableError(
            f"No message of {reading.split.topic} came within option 'pollTimeoutMs' "
            f"({self._options.poll_timeout_ms} ms), and the next wanted message is at "
            f"{described(reading.position)} or after it. Check that the broker works, and that no "
            "transaction is open and no message is chunked; or raise the option."
        )

    def _open_reader(self, reading: _PartitionReading) -> None:
        self._reader = self._client.open(reading.split.topic, reading.position, self._options.receiver_queue)

    def _polled(self) -> Any | None:
        try:
            return self._reader.read_next(self._wait_ms)
        except Exception as error:
            import pulsar

            if not isinstance(error, pulsar.PulsarException):
                raise
            if not isinstance(error, pulsar.Timeout):
                # pulsar-client connects again by itself.
                time.sleep(_PAUSE_S)
            return None

    def _is_available(self) -> bool:
        try:
            return self._client.has_more(self._reader)
        except UnreachableError:
            return True

    def _lose(self, reading: _PartitionReading, why: str) -> None:
        what = (
            f"Messages of {reading.split.topic} were lost while they were read: wanted from "
            f"{described(reading.position)} up to {described(reading.end)}, and {why}. They are older than the topic's "
            "retention, or the topic was truncated or deleted."
        )
        report_data_loss(log, what, fail=self._options.fail_on_data_loss)
