"""A query without Spark: it plans with the real coordinator of a source and reads in this process."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from flip27_stream.api import (
    InputStatus,
    ReaderOutput,
    ReadLimits,
    Source,
    SourceEvent,
    SplitEnumerator,
    WatermarkStrategy,
)
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.reader.drive import read_ranges
from flip27_stream.spark.execution.task import TaskContext, read_task
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.spark.planning.offset.offset_log import Document
from flip27_stream.spark.source_spec import Driver, SourceSpec
from flip27_stream.testing.clock import Clock
from flip27_stream.testing.task_rows import Row, TaskRows
from flip27_stream.testing.waiting import wait_until
from offsets import INITIAL
from watermark_alignment.options import AlignmentOptions

T = TypeVar("T")

_TIME_LIMIT_S = 30.0
_AVAILABILITY_S = 30.0
_EMPTY_BATCHES = 20
_PAUSE_S = 0.02


class SourceQuery:
    """Plans and reads micro-batches as Spark does. Another query can continue from its offset.

    Objects that Spark would send to another process are pickled. Offsets are converted to JSON and back.

    Args:
        source: The source.
        offset: The offset to continue from; by default the beginning.
        parallelism: The number of readers, and of tasks of a batch.
        strategy: How event time is found in its rows.
        alignment: The options of alignment; by default it is off.
        clock: Returns the time (ms since the epoch); by default that of the machine.
        available_now: Whether to read only the records that exist when the first batch is planned.

    Attributes:
        offset: The end of the last batch that was read.
        planned: A batch that was planned and logged, but not read to its end. If it is set, :meth:`run` and
            :meth:`step` read it before they plan another one.
    """

    def __init__(
        self,
        source: Source[Any, Any],
        offset: Document | None = None,
        parallelism: int = 2,
        *,
        strategy: WatermarkStrategy | None = None,
        alignment: AlignmentOptions | None = None,
        clock: Clock | None = None,
        available_now: bool = False,
    ) -> None:
        self.source: Source[Any, Any] = _copy(source)
        self.offset: Document = dict(INITIAL) if offset is None else offset
        self.spec = SourceSpec(
            source=self.source,
            strategy=strategy or WatermarkStrategy(),
            alignment=alignment,
            driver=Driver(parallelism=parallelism),
        )
        self._coordinator = SourceCoordinator(self.spec, clock, greatest_pause_s=0)
        self.planned: tuple[Document, Document] | None = None
        if available_now:
            self._coordinator.prepare_available_now()

    def run(self, expected: int) -> list[Row]:
        """Runs micro-batches until ``expected`` rows were read or the time limit is over, and returns the rows.

        At the end it runs micro-batches until no rows are left.

        Returns the rows.
        """
        rows: list[Row] = []
        deadline = time.monotonic() + _TIME_LIMIT_S
        empty = 0
        while True:
            batch = self.planned or self.next_batch()
            is_late = time.monotonic() > deadline
            if (batch is None and len(rows) >= expected) or is_late:
                return rows
            if batch is None:
                continue
            new = self._finish(batch)
            rows += new
            empty = 0 if new else empty + 1
            assert empty < _EMPTY_BATCHES, (
                f"{empty} batches in a row were empty: positions or snapshot_state() change though nothing was "
                f"written; the last went from {batch[0]} to {batch[1]}"
            )

    def step(self) -> list[Row]:
        """Returns the rows of the planned or next micro-batch; an empty list if no rows can be read now."""
        batch = self.planned or self.next_batch()
        return [] if batch is None else self._finish(batch)

    def _finish(self, batch: tuple[Document, Document]) -> list[Row]:
        rows = [row for task in self.tasks(*batch) for row in self.read(task)]
        self.planned, self.offset = None, batch[1]
        return rows

    def next_batch(self, limit: int | None = None) -> tuple[Document, Document] | None:
        """Plans the next batch, and returns its start and end offset; ``None`` if nothing can be read now.

        Args:
            limit: The greatest number of rows of the batch; by default only the limits of the source apply.
        """
        start = self.offset
        end = self._coordinator.latest_offset(start, limit or self.source.read_limits.max_rows or UNLIMITED)
        if end == start:
            time.sleep(_PAUSE_S)
            return None
        return start, json.loads(json.dumps(end))

    def wait_for_batch(self, limit: int | None = None) -> tuple[Document, Document]:
        """Plans the next batch that is not empty, and returns its start and end offset; see :meth:`next_batch`."""
        deadline = time.monotonic() + _TIME_LIMIT_S
        while time.monotonic() < deadline:
            batch = self.next_batch(limit)
            if batch is not None and self.tasks(*batch):
                return batch
            self.offset = batch[1] if batch is not None else self.offset
        raise AssertionError(f"nothing was found to read in {_TIME_LIMIT_S:g} s, though there are records")

    def tasks(self, start: Document, end: Document) -> list[list[PlannedRange]]:
        """Returns the ranges of each task of a batch."""
        return [list(task.ranges) for task in _copy(self._coordinator.tasks(start, end))]

    def read_all(self, start: Document, end: Document) -> list[Row]:
        """Returns the rows of a batch, which is read as in Spark's workers, with reports to the coordinator."""
        tasks = _copy(self._coordinator.tasks(start, end))
        return [
            row for task in tasks for records in read_task(self.spec, task) for row in records.to_pylist()
        ]

    def read_batch(self) -> list[Row]:
        """Returns all rows of the source, as a batch query (``spark.read``) reads them."""
        reader = Flip27BatchReader(self.spec)
        tasks = _copy([partition.value for partition in reader.partitions()])
        return [
            row for task in tasks for records in read_task(self.spec, task) for row in records.to_pylist()
        ]

    def read(self, task: Sequence[PlannedRange]) -> list[Row]:
        """Returns the rows of a task."""
        return self.collect(task).rows

    def collect(self, task: Sequence[PlannedRange], events: Sequence[SourceEvent] = ()) -> TaskRows:
        """Reads a task to its end, and returns what its reader emitted. The reader gets ``events`` first."""
        output = TaskRows(self.source.schema, task)
        for _ in self.poll(task, output, events):
            pass
        return output

    def abandon(self, task: Sequence[PlannedRange]) -> None:
        """Reads a task until it has some rows, then stops as if the task had been killed."""
        output = TaskRows(self.source.schema, task)
        with closing(self.poll(task, output)) as polls:
            while not output.rows and next(polls, None):
                pass

    def poll(
        self, task: Sequence[PlannedRange], output: ReaderOutput, events: Sequence[SourceEvent] = ()
    ) -> Generator[InputStatus, None, None]:
        """Reads a task poll by poll. Closing the iterator closes the reader, as if the task had been killed."""
        return read_ranges(
            self.source, TaskContext(0), _copy(list(task)), output, events=events, timeout_s=_AVAILABILITY_S
        )

    @contextmanager
    def enumerator(self) -> Iterator[tuple[SplitEnumerator[Any, Any], list[Any]]]:
        """Yields a new enumerator and the list of the splits that it has assigned, at least one."""
        context = CoordinatorContext(2, "localhost")
        enumerator = self.source.create_enumerator(context)

        def assigned() -> dict[str, Any]:
            context.run_due()
            enumerator.admit(ReadLimits())
            return context.splits

        try:
            enumerator.start()
            wait_until(assigned, "splits to be assigned", _TIME_LIMIT_S)
            yield enumerator, list(context.splits.values())
        finally:
            context.close()
            enumerator.close()

    def __enter__(self) -> SourceQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._coordinator.close()


def _copy(value: T) -> T:
    """Returns a copy of ``value`` as it arrives in another process (pickled)."""
    copied: T = pickle.loads(pickle.dumps(value))
    return copied
