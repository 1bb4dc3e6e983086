"""One task of one micro-batch: a reader over the splits planned for it."""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReaderContext,
    SourceSplit,
    Watermark,
)
from flip27_stream.spark.event_times import EventTimeObserver, ImplausibleEventTimes
from flip27_stream.spark.job import Job
from flip27_stream.spark.report_channel import ReportAddress, SplitReport, TaskReport, send_report

log = logging.getLogger(__name__)

_AVAILABILITY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SplitTask:
    """What one task reads; all it needs travels in here, since it runs on another instance of everything.

    Attributes:
        subtask: the reader slot.
        batch: sequence number of the micro-batch.
        ranges: splits with the positions to read from and up to.
        plausible_until: event times (ms) after this are implausible; ``None`` for no bound.
        events: messages of the enumerator.
        report_to: where the report goes; ``None`` for a batch read.
    """

    subtask: int
    batch: int
    ranges: Sequence[tuple[SourceSplit, int, int]]
    plausible_until: int | None = None
    events: Sequence[SourceEvent] = ()
    report_to: ReportAddress | None = None


def read_task(job: Job, task: SplitTask) -> Iterator[pa.RecordBatch]:
    """The rows of ``task``. Its report is sent only once every range was read to its end."""
    context = TaskContext(task.subtask)
    output = TaskOutput(job, task)
    reader = job.source.create_reader(context)
    try:
        reader.start()
        reader.add_splits([split.between(start, end) for split, start, end in task.ranges])
        for event in task.events:
            reader.handle_source_events(event)
        reader.notify_no_more_splits()
        status = InputStatus.MORE_AVAILABLE
        while status is not InputStatus.END_OF_INPUT:
            status = reader.poll_next(output)
            yield from output.drain()
            if status is InputStatus.NOTHING_AVAILABLE:
                reader.is_available().result(_AVAILABILITY_TIMEOUT_S)
    finally:
        reader.close()
    if task.report_to is not None:
        send_report(
            task.report_to, TaskReport(task.batch, task.subtask, output.reports(), tuple(context.events))
        )
    _keep_what_is_loaded()


@functools.cache
def _keep_what_is_loaded() -> None:
    """Once per worker: spare what its modules made from garbage collection.

    Spark collects after each task (``pyspark/daemon.py``); to look through all of it takes 50 ms,
    more than a small task.
    """
    gc.collect()
    gc.freeze()


class TaskContext(SourceReaderContext):
    """The context of the reader of one task."""

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._metrics = MetricGroup()
        self.events: list[SourceEvent] = []

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def index_of_subtask(self) -> int:
        return self._subtask

    def send_split_request(self) -> None:
        """Splits are planned, not asked for; a request changes nothing."""

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        self.events.append(event)


class TaskOutput(ReaderOutput):
    """Collects what a reader emits, and observes event times per split."""

    def __init__(self, job: Job, task: SplitTask) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._outputs = {
            split.split_id: SplitOutput(
                split.split_id, start, end, self._batches, _observer(job, task, split.split_id)
            )
            for split, start, end in task.ranges
        }

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self._outputs[split_id]

    def release_output_for_split(self, split_id: str) -> None:
        """Its observations stay until they are reported."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        if len(self._outputs) != 1:
            raise ValueError("a reader of several splits must emit through create_output_for_split")
        next(iter(self._outputs.values())).collect(records, timestamps, positions)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """The record batches collected since the last call."""
        batches = self._batches[:]
        self._batches.clear()
        yield from batches

    def reports(self) -> tuple[SplitReport, ...]:
        return tuple(output.report() for output in self._outputs.values())

    def emit_watermark(self, watermark: Watermark) -> None:
        """Watermarks follow from what was read; one that a source emits itself is not needed."""

    def mark_idle(self) -> None:
        """Idleness is found when planning."""

    def mark_active(self) -> None:
        """Idleness is found when planning."""


class SplitOutput(SourceOutput):
    """The output of one split."""

    def __init__(
        self,
        split_id: str,
        start: int,
        end: int,
        batches: list[pa.RecordBatch],
        observer: EventTimeObserver | None,
    ) -> None:
        self._range = split_id, start, end
        self._batches = batches
        self._observer = observer
        self._rows = 0

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        if self._observer is not None and records.num_rows:
            records = self._observer.observe(records, timestamps, positions)
        if records.num_rows:
            self._rows += records.num_rows
            self._batches.append(records)

    def report(self) -> SplitReport:
        split_id, start, end = self._range
        seen = self._observer.statistics() if self._observer is not None else {}
        return SplitReport(split_id, start, end, self._rows, **seen)

    def emit_watermark(self, watermark: Watermark) -> None:
        """See :class:`TaskOutput`."""

    def mark_idle(self) -> None:
        """See :class:`TaskOutput`."""

    def mark_active(self) -> None:
        """See :class:`TaskOutput`."""


def _observer(job: Job, task: SplitTask, split_id: str) -> EventTimeObserver | None:
    if job.alignment is None:
        return None
    policy = ImplausibleEventTimes(job.alignment.implausible_event_time)
    return EventTimeObserver(split_id, job.strategy.timestamp_assigner, task.plausible_until, policy)
