"""The reader: reads its splits and emits record batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Generic

import pyarrow as pa

from flip27_stream.api.events import SourceEvent
from flip27_stream.api.metrics import MetricGroup
from flip27_stream.api.split import SplitT


class InputStatus(Enum):
    """The result of :meth:`SourceReader.poll_next` (Flink ``InputStatus``)."""

    MORE_AVAILABLE = "MORE_AVAILABLE"
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    END_OF_INPUT = "END_OF_INPUT"


class SourceOutput(ABC):
    """Receives the records of one split (Flink ``SourceOutput``).

    Unlike Flink's ``SourceOutput`` it takes no watermarks and no idleness, because planning computes both.
    """

    @abstractmethod
    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        """Emits ``records``, in the order of the split.

        Args:
            records: Rows of the source's schema; may be empty.
            timestamps: For each row the time (ms) that the external system gave the record; ``None`` if it gives no
                times.
            positions: For each row the position of the record, for errors; ``None`` if records have no positions.
        """


class ReaderOutput(SourceOutput):
    """Receives the records of a reader, in one output for each split (Flink ``ReaderOutput``)."""

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Returns the output of a split: the same object each time."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """Releases the output of a split that was read to the end of its range."""


class SourceReaderContext(ABC):
    """What a task offers its reader (Flink ``SourceReaderContext``)."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Returns the counters of this reader; see :class:`MetricGroup`."""

    @abstractmethod
    def index_of_subtask(self) -> int:
        """Returns the number of the reader slot."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Requests a split from the enumerator, which gets the request when the next micro-batch is planned."""

    @abstractmethod
    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """Sends ``event`` with the report of this task; the enumerator gets it when the next micro-batch is planned.

        Raises:
            ContractError: The payload is not JSON, or the events of this task have more than 4 MiB.
        """


class SourceReader(ABC, Generic[SplitT]):
    """Reads the splits of one task of one micro-batch (FLIP-27 ``SourceReader``).

    The task calls :meth:`start`, :meth:`add_splits` once with bounded splits (:meth:`SourceSplit.between`),
    :meth:`notify_no_more_splits`, then :meth:`poll_next` until ``END_OF_INPUT``, then :meth:`close`.
    """

    def start(self) -> None:
        """Called once, before all other methods."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emits some records into ``output``, without blocking for long.

        Returns:
            Whether more records are available now, later, or never.
        """

    @abstractmethod
    def snapshot_state(self) -> Sequence[SplitT]:
        """Returns the splits that are not read to their ends, with the unread ranges; empty after ``END_OF_INPUT``."""

    def is_available(self) -> Future[None]:
        """Returns a future that completes when :meth:`poll_next` can emit records; by default it is complete."""
        available: Future[None] = Future()
        available.set_result(None)
        return available

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Adds bounded splits to read."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Called when no more splits will be added."""

    def handle_source_events(self, event: SourceEvent) -> None:
        """Called with an ``event`` of the enumerator."""

    def close(self) -> None:
        """Frees all resources. An error is only logged, because the records are emitted or another error was raised."""
