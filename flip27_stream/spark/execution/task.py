"""One task of one micro-batch: reads its planned ranges and sends a report about them."""

from __future__ import annotations

import functools
import gc
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    SourceEvent,
    SourceOutput,
    SourceReaderContext,
)
from flip27_stream.api.contract import check_column, check_records, size_of_event
from flip27_stream.api.planned_range import PlannedRange, RangeKey
from flip27_stream.errors import ContractError, some_of
from flip27_stream.reader.drive import AVAILABILITY_TIMEOUT_S, read_ranges
from flip27_stream.reader.split_outputs import SplitOutputs
from flip27_stream.spark.execution.event_times import EventTimeObserver, ImplausibleEventTimes
from flip27_stream.spark.execution.small_record_batches import SMALL_BYTES, SmallRecordBatches
from flip27_stream.spark.execution.worker_socket import without_delayed_acknowledgements
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.spark.source_spec import SourceSpec

_MOST_EVENT_BYTES = 4 * 1024 * 1024
_LARGE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class SplitTask:
    """The input of one task. It is pickled, because the task runs in another process.

    Attributes:
        subtask: The number of the reader slot that the task belongs to.
        batch: The number of the micro-batch.
        ranges: The ranges to read.
        plausible_until: Event times after this time (ms) are implausible (rule 6); ``None`` for no bound.
        events: The events of the enumerator for the reader.
        report_to: The address to which the task sends its report; ``None`` in a batch read.
        number: The number of the task in its micro-batch, which can have more tasks than there are slots.
        location: The host that the coordinator knows as the location of the slot.
    """

    subtask: int
    batch: int
    ranges: Sequence[PlannedRange]
    plausible_until: int | None = None
    events: Sequence[SourceEvent] = ()
    report_to: ReportAddress | None = None
    number: int = 0
    location: str = field(default="", compare=False)


def read_task(spec: SourceSpec, task: SplitTask) -> Iterator[pa.RecordBatch]:
    """Reads the ranges of ``task`` and sends a report: after all ranges were read to their ends, or on an error.

    No report is sent after all ranges were read if it would have no news, see :func:`_has_news`.

    Yields:
        Record batches of the source's schema.

    Raises:
        ConnectorError: The reader had no records for 60 s.
        ContractError: The reader returned a value of the wrong type, or ended before all ranges were read.
        Exception: Any error of the reader.
    """
    without_delayed_acknowledgements()
    context = TaskContext(task.subtask)
    output = TaskOutput(spec, task)
    try:
        for status in read_ranges(
            spec.source,
            context,
            task.ranges,
            output,
            events=task.events,
            timeout_s=AVAILABILITY_TIMEOUT_S,
            unread=output.unread_ranges,
        ):
            yield from output.drain(more=status is InputStatus.MORE_AVAILABLE)
    except Exception:
        _report(task, failed=[r.split.split_id for r in task.ranges])
        raise
    if _has_news(spec, task, context):
        _report(
            task,
            splits=output.reports(),
            events=tuple(context.events),
            split_requests=context.split_requests,
            metrics=context.metric_group().snapshot(),
        )
    _freeze_loaded_modules()


def _has_news(spec: SourceSpec, task: SplitTask, context: TaskContext) -> bool:
    """Returns whether the coordinator has a use for the report of a task that has read all its ranges.

    It uses the numbers about splits only with alignment. Without it, events, split requests and a host that is not the
    known location of the slot are news.
    """
    if task.report_to is None:
        return False
    return spec.alignment is not None or context.has_messages or socket.gethostname() != task.location


def _report(task: SplitTask, **what: Any) -> None:
    if task.report_to is not None:
        report = TaskReport(task.batch, task.number, task.subtask, host=socket.gethostname(), **what)
        send_report(task.report_to, report)


@functools.cache
def _freeze_loaded_modules() -> None:
    """Excludes the objects of loaded modules from garbage collection, once per worker process.

    Spark collects garbage after each task (``pyspark/daemon.py``). A collection of all objects takes 50 ms, which is
    longer than a small task.
    """
    gc.collect()
    gc.freeze()


class TaskContext(SourceReaderContext):
    """The context of the reader of one task.

    Args:
        subtask: The reader slot.
    """

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._metrics = MetricGroup()
        self.events: list[SourceEvent] = []
        self.split_requests = 0
        self._bytes = 0

    @property
    def has_messages(self) -> bool:
        """Whether the reader of the task has sent events to the enumerator, or has requested splits from it."""
        return bool(self.events or self.split_requests)

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
                f"Event {event.name!r} is too large: with it, the events of this task have {self._bytes} bytes; "
                f"{_MOST_EVENT_BYTES} are allowed. Send less, or store the data elsewhere and send its location."
            )
        self.events.append(event)


class TaskOutput(SplitOutputs):
    """The output of a reader in a task: it collects the rows, and observes the event times of each split.

    Args:
        spec: The source, its event time and the options of alignment.
        task: The task.
    """

    def __init__(self, spec: SourceSpec, task: SplitTask) -> None:
        self._collected: list[tuple[int, pa.RecordBatch]] = []
        self._small = SmallRecordBatches()
        self._has_begun = False
        schema = spec.source.schema
        self._outputs = {
            r.split.split_id: SplitOutput(
                r.key, schema, self._collected, _observer(spec, task, r.split.split_id)
            )
            for r in task.ranges
        }

    @property
    def split_ids(self) -> Collection[str]:
        return self._outputs

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self._of(split_id)

    def release_output_for_split(self, split_id: str) -> None:
        """Records that the range was read to its end."""
        self._of(split_id).released = True

    def _of(self, split_id: str) -> SplitOutput:
        if split_id not in self._outputs:
            raise ContractError(
                f"The reader emitted records of split {split_id!r} or ended it, but this task has only "
                f"{some_of(list(self._outputs))}."
            )
        return self._outputs[split_id]

    def drain(self, *, more: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the record batches that were collected, in their order, and small ones together.

        Spark keeps the first record batch of a task in memory until the task ends (``records_to_arrow_batches``). So an
        empty one comes before a large one.

        Args:
            more: Whether the reader says that it has more records now. Only then may small record batches be held back.
                They also wait if it waits in its next ``poll_next`` nevertheless; the micro-batch waits for it anyway.
        """
        for batch in self._together(more=more):
            if not self._has_begun and batch.nbytes >= _LARGE_BYTES:
                yield _without_rows(batch.schema)
            self._has_begun = True
            yield batch

    def _together(self, *, more: bool) -> Iterator[pa.RecordBatch]:
        collected = self._collected[:]
        self._collected.clear()
        for size, batch in collected:
            if size < SMALL_BYTES:
                yield from self._small.add(batch, size)
            else:
                yield from self._small.take()
                yield batch
        if not more:
            yield from self._small.take()

    def reports(self) -> tuple[SplitReport, ...]:
        """Returns a report about each range."""
        return tuple(output.report() for output in self._outputs.values())

    def unread_ranges(self) -> str:
        """Returns a description of the ranges that are not read to their ends, for an error message."""
        return some_of([str(output) for output in self._outputs.values() if not output.released], "; ")


def _without_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


class SplitOutput(SourceOutput):
    """The output of one split: checks, observes and collects its record batches.

    Args:
        planned: The range to read.
        schema: The schema of the source.
        collected: Receives the record batches, each with its size in bytes.
        observer: Observes event times; ``None`` without alignment.
    """

    def __init__(
        self,
        planned: RangeKey,
        schema: pa.Schema,
        collected: list[tuple[int, pa.RecordBatch]],
        observer: EventTimeObserver | None,
    ) -> None:
        self._range = planned
        self._schema = schema
        self._collected = collected
        self._observer = observer
        self._rows = self._bytes = 0
        self._last: pa.Int64Scalar | None = None
        self.released = False
        """Whether the reader has read the range to its end."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        check_records(records, self._schema, self._range.split_id)
        check_column("timestamps", timestamps, records, self._range.split_id)
        check_column("positions", positions, records, self._range.split_id)
        if positions is not None and len(positions):
            self._last = positions[-1]
        if self._observer is not None and records.num_rows:
            records = self._observer.observe(records, timestamps, positions)
        if records.num_rows:
            size = records.nbytes
            self._rows += records.num_rows
            self._bytes += size
            self._collected.append((size, records))

    def __str__(self) -> str:
        split_id, start, end = self._range
        last = f", the last at position {self._last}" if self._last is not None else ""
        return f"split {split_id} from position {start} to {end} ({self._rows} rows came{last})"

    def report(self) -> SplitReport:
        """Returns the report about the range."""
        seen = self._observer.statistics() if self._observer is not None else {}
        return SplitReport(*self._range, rows=self._rows, bytes=self._bytes, **seen)


def _observer(spec: SourceSpec, task: SplitTask, split_id: str) -> EventTimeObserver | None:
    if spec.alignment is None:
        return None
    policy = ImplausibleEventTimes(spec.alignment.implausible_event_time)
    return EventTimeObserver(split_id, spec.strategy.timestamp_assigner, task.plausible_until, policy)
