"""One task of one micro-batch: a reader over the splits planned for it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import gc
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    Watermark,
)
from flip27_stream.errors import ConnectorError, ContractError
from flip27_stream.spark.execution.event_times import EventTimeObserver, ImplausibleEventTimes
from flip27_stream.spark.reporting.report_channel import ReportAddress, SplitReport, TaskReport, send_report
from flip27_stream.spark.source_contract import (
    check_bounded,
    check_column,
    check_made,
    check_records,
    check_splits,
    size_of_event,
)
from flip27_stream.spark.source_spec import SourceSpec

_AVAILABILITY_TIMEOUT_S = 60.0
_NAMED_SPLITS = 5
_MOST_EVENT_BYTES = 4 * 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitTask:
    """What one task reads; all it needs travels in here, since it runs on another instance of everything.

    Attributes:
        subtask: the reader slot that it runs as.
        batch: sequence number of the micro-batch.
        ranges: splits with the positions to read from and up to.
        plausible_until: event times (ms) after this are implausible; ``None`` for no bound.
        events: messages of the enumerator.
        report_to: where the report goes; ``None`` for a batch read.
        number: of the task in its micro-batch, which may have more tasks than there are slots.
    """

    subtask: int
    batch: int
    ranges: Sequence[tuple[SourceSplit, int, int]]
    plausible_until: int | None = None
    events: Sequence[SourceEvent] = ()
    report_to: ReportAddress | None = None
    number: int = 0


def read_task(spec: SourceSpec, task: SplitTask) -> Iterator[pa.RecordBatch]:
    """The rows of ``task``. Its report is sent only once every range was read to its end, or when it fails.

    Raises:
        ConnectorError: the reader has had nothing to emit for a minute.
        ContractError: the reader does not do what a reader must.
        Exception: whatever the reader raises.
    """
    context = TaskContext(task.subtask)
    output = TaskOutput(spec, task)
    try:
        reader = spec.source.create_reader(context)
        check_made("The source's create_reader()", reader, SourceReader)
        with _closing(reader):
            yield from _read(reader, task, output)
    except Exception:
        _report(task, failed=[split.split_id for split, _, _ in task.ranges])
        raise
    _report(
        task,
        splits=output.reports(),
        events=tuple(context.events),
        split_requests=context.split_requests,
    )
    _keep_what_is_loaded()


@contextlib.contextmanager
def _closing(reader: SourceReader[Any]) -> Iterator[None]:
    """Close ``reader``, whose rows are out, or whose error says more than that of ``close``."""
    try:
        yield
    finally:
        try:
            reader.close()
        except Exception:
            log.warning("%s.close() failed", type(reader).__name__, exc_info=True)


def _read(reader: SourceReader[Any], task: SplitTask, output: TaskOutput) -> Iterator[pa.RecordBatch]:
    reader.start()
    reader.add_splits([_bounded(*piece) for piece in task.ranges])
    for event in task.events:
        reader.handle_source_events(event)
    reader.notify_no_more_splits()
    status = InputStatus.MORE_AVAILABLE
    while status is not InputStatus.END_OF_INPUT:
        status = reader.poll_next(output)
        check_made(f"{type(reader).__name__}.poll_next()", status, InputStatus)
        yield from output.drain()
        if status is InputStatus.NOTHING_AVAILABLE:
            available = reader.is_available()
            check_made(f"{type(reader).__name__}.is_available()", available, concurrent.futures.Future)
            try:
                available.result(_AVAILABILITY_TIMEOUT_S)
            except concurrent.futures.TimeoutError:
                raise ConnectorError(
                    f"Nothing came for {_AVAILABILITY_TIMEOUT_S:g} s, and not all was read: {output.left()}. "
                    "Check that the system that holds them answers; a reader must complete is_available() "
                    "when it has records."
                ) from None
    left = reader.snapshot_state()
    check_splits(f"{type(reader).__name__}.snapshot_state()", left)
    if left:
        raise ContractError(
            f"{type(reader).__name__}.poll_next() said that all was read, but its snapshot_state() has splits left: "
            f"{_named([split.split_id for split in left], ', ')}."
        )


def _bounded(split: SourceSplit, start: int, end: int) -> SourceSplit:
    bounded: SourceSplit = split.between(start, end)
    check_bounded(split, bounded)
    return bounded


def _report(task: SplitTask, **what: Any) -> None:
    if task.report_to is not None:
        report = TaskReport(task.batch, task.number, task.subtask, host=socket.gethostname(), **what)
        send_report(task.report_to, report)


@functools.cache
def _keep_what_is_loaded() -> None:
    """Once per worker: spare what its modules made from garbage collection.

    Spark collects after each task (``pyspark/daemon.py``); to look through all of it takes 50 ms,
    more than a small task.
    """
    gc.collect()
    gc.freeze()


def _named(things: Sequence[str], separator: str) -> str:
    """Some of many, for people."""
    more = f" and {len(things) - _NAMED_SPLITS} more" if len(things) > _NAMED_SPLITS else ""
    return separator.join(things[:_NAMED_SPLITS]) + more


class TaskContext(SourceReaderContext):
    """The context of the reader of one task."""

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._metrics = MetricGroup()
        self.events: list[SourceEvent] = []
        self.split_requests = 0
        self._bytes = 0

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def index_of_subtask(self) -> int:
        return self._subtask

    def send_split_request(self) -> None:
        self.split_requests += 1

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        self._bytes += size_of_event(event)
        if self._bytes > _MOST_EVENT_BYTES:
            raise ContractError(
                f"Event {event.name!r} is too much to send: with it, the events of this task have {self._bytes} bytes; "
                f"{_MOST_EVENT_BYTES} are allowed. Send less, or where it lies."
            )
        self.events.append(event)


class TaskOutput(ReaderOutput):
    """Collects what a reader emits, and observes event times per split."""

    def __init__(self, spec: SourceSpec, task: SplitTask) -> None:
        self._batches: list[pa.RecordBatch] = []
        schema = spec.source.schema
        self._outputs = {
            split.split_id: SplitOutput(
                (split.split_id, start, end), schema, self._batches, _observer(spec, task, split.split_id)
            )
            for split, start, end in task.ranges
        }

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self._of(split_id)

    def release_output_for_split(self, split_id: str) -> None:
        """Its observations stay until they are reported."""
        self._of(split_id).released = True

    def _of(self, split_id: str) -> SplitOutput:
        if split_id not in self._outputs:
            raise ContractError(
                f"The reader emits into split {split_id!r}, or ends it, which this task was not given. It has "
                f"{_named(list(self._outputs), ', ')}."
            )
        return self._outputs[split_id]

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

    def left(self) -> str:
        """The ranges that are not read to their end, for people."""
        return _named([str(output) for output in self._outputs.values() if not output.released], "; ")

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
        planned: tuple[str, int, int],
        schema: pa.Schema,
        batches: list[pa.RecordBatch],
        observer: EventTimeObserver | None,
    ) -> None:
        self._range = planned
        self._schema = schema
        self._batches = batches
        self._observer = observer
        self._rows = self._bytes = 0
        self._last: pa.Int64Scalar | None = None
        self.released = False
        """Whether the reader said that the range is read."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        check_records(records, self._schema, self._range[0])
        check_column("timestamps", timestamps, records, self._range[0])
        check_column("positions", positions, records, self._range[0])
        if positions is not None and len(positions):
            self._last = positions[-1]
        if self._observer is not None and records.num_rows:
            records = self._observer.observe(records, timestamps, positions)
        if records.num_rows:
            self._rows += records.num_rows
            self._bytes += records.nbytes
            self._batches.append(records)

    def __str__(self) -> str:
        split_id, start, end = self._range
        last = f", the last at position {self._last}" if self._last is not None else ""
        return f"split {split_id} from position {start} to {end} ({self._rows} rows came{last})"

    def report(self) -> SplitReport:
        split_id, start, end = self._range
        seen = self._observer.statistics() if self._observer is not None else {}
        return SplitReport(split_id, start, end, self._rows, bytes=self._bytes, **seen)

    def emit_watermark(self, watermark: Watermark) -> None:
        """See :class:`TaskOutput`."""

    def mark_idle(self) -> None:
        """See :class:`TaskOutput`."""

    def mark_active(self) -> None:
        """See :class:`TaskOutput`."""


def _observer(spec: SourceSpec, task: SplitTask, split_id: str) -> EventTimeObserver | None:
    if spec.alignment is None:
        return None
    policy = ImplausibleEventTimes(spec.alignment.implausible_event_time)
    return EventTimeObserver(split_id, spec.strategy.timestamp_assigner, task.plausible_until, policy)
