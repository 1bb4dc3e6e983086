"""The reader: reads its splits and emits columnar records."""

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
from flip27_stream.api.watermark import WatermarkOutput


class InputStatus(Enum):
    """Answer of :meth:`SourceReader.poll_next` (Flink ``InputStatus``)."""

    MORE_AVAILABLE = "MORE_AVAILABLE"
    NOTHING_AVAILABLE = "NOTHING_AVAILABLE"
    END_OF_INPUT = "END_OF_INPUT"


class SourceOutput(WatermarkOutput):
    """Where the records of one split go (Flink ``SourceOutput``)."""

    @abstractmethod
    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        """Emit ``records`` (of the source's schema), in the order of the split.

        Args:
            records: rows; may be empty.
            timestamps: one per row, the times (ms) that the external system gave the records, where it does so.
            positions: one per row, the position of each record, so that an error can name it.
        """


class ReaderOutput(SourceOutput):
    """Where a reader's records go; one output per split keeps their watermarks apart (Flink ``ReaderOutput``)."""

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """The output of a split; the same one when asked again."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """The split was read to its end."""


class SourceReaderContext(ABC):
    """What a task offers a reader (Flink ``SourceReaderContext``)."""

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Counters and gauges of this reader."""

    @abstractmethod
    def index_of_subtask(self) -> int:
        """The reader's slot."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Ask the enumerator for a split; it hears of it when the next micro-batch is planned."""

    @abstractmethod
    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """Send ``event`` with this task's report; the enumerator gets it when the next micro-batch is planned.

        Raises:
            ContractError: the payload is not JSON, or the events of this task have more than 4 MiB.
        """


class SourceReader(ABC, Generic[SplitT]):
    """Reads the splits of one task of one micro-batch (FLIP-27 ``SourceReader``).

    The task calls :meth:`start`, :meth:`add_splits` once with bounded splits (:meth:`SourceSplit.between`),
    :meth:`notify_no_more_splits`, then :meth:`poll_next` until ``END_OF_INPUT``, then :meth:`close`.
    """

    def start(self) -> None:
        """Called once, first."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some records into ``output`` without blocking for long."""

    @abstractmethod
    def snapshot_state(self) -> Sequence[SplitT]:
        """The splits not read to their end, as far as they are left to read; none after ``END_OF_INPUT``."""

    def is_available(self) -> Future[None]:
        """A future that is done when :meth:`poll_next` is worth calling; by default it always is."""
        available: Future[None] = Future()
        available.set_result(None)
        return available

    @abstractmethod
    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Further splits to read."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """No further splits will come."""

    def handle_source_events(self, event: SourceEvent) -> None:
        """The enumerator sent ``event``."""

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """FLIP-217. Here planning pauses splits, so a reader need not support it."""

    def close(self) -> None:
        """Free what the reader holds. An error is logged: the rows are out by then, or the read failed before."""
