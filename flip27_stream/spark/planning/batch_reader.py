"""The batch reader (``spark.read``): a bounded read from the start that the options name to the current ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from flip27_stream.api import ReadLimits, SplitEnumerator
from flip27_stream.api.contract import check_made
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.spark.execution.task import SplitTask, read_task
from flip27_stream.spark.planning.available_now import FrozenEnds
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.micro_batch.packing import for_readers, tasks_of
from flip27_stream.spark.planning.range_lookup import RangeLookup
from flip27_stream.spark.planning.session_answers import parallelism_now
from flip27_stream.spark.planning.stall_detector import StallDetector, find_stall
from flip27_stream.spark.planning.stream_reader import TaskPartition
from flip27_stream.spark.source_contract import pending_splits
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec


class Flip27BatchReader(DataSourceReader):
    """A reader that plans once, at the first action. It reads unaligned: a batch query has no watermark (WM-24).

    Args:
        spec: The source, its event time and the options of alignment.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def partitions(self) -> Sequence[InputPartition]:
        parallelism = parallelism_now(self._spec.driver)
        context = CoordinatorContext(max(parallelism, 1), self._spec.driver.host)
        enumerator = self._spec.source.create_enumerator(context)
        check_made("The source's create_enumerator()", enumerator, SplitEnumerator)
        try:
            enumerator.start()
            for subtask in context.registered_readers():
                enumerator.add_reader(subtask)
            to_read = _all_ranges(self._spec.fingerprint, enumerator, context)
            to_read = for_readers(self._spec.source, to_read, enumerator.snapshot_state())
        finally:
            context.close()
            with contextlib.suppress(Exception):
                enumerator.close()
        tasks = tasks_of(to_read, parallelism or len(to_read), self._spec.limits)
        slots = len(context.registered_readers())
        return [TaskPartition(SplitTask(i % slots, 0, tuple(task), number=i)) for i, task in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a task. If there are no partitions, Spark passes a partition with the value ``None``."""
        task = partition.value
        return iter(()) if task is None else read_task(self._spec, task)


def _all_ranges(source: str, enumerator: AnyEnumerator, context: CoordinatorContext) -> list[PlannedRange]:
    """Returns the ranges that an AvailableNow run would read; a planned range counts as processed for the next plan."""
    ranges: list[PlannedRange] = []
    positions: dict[str, int] = {}
    run: FrozenEnds | None = None
    detector, lookup, pending = StallDetector(), RangeLookup(), 0
    while True:
        context.run_due()
        enumerator.admit(ReadLimits())
        assigned = dict(context.splits)
        found = lookup.ranges(enumerator, assigned, positions)
        if run is None:
            run = FrozenEnds(assigned)
        else:
            run.follow(assigned, more=pending > 0)
        pending = pending_splits(enumerator)
        new = [PlannedRange(assigned[name], r.position, r.end) for name, r in run.cut(found).items()]
        ranges += [piece for piece in new if piece.size]
        positions.update({piece.split.split_id: piece.end for piece in new})
        left = run.left(positions)
        if not pending and not left:
            return ranges
        if pending:
            enumerator.notify_checkpoint_complete(dict(positions))
        silent, moved = assigned.keys() - found.keys(), any(piece.size for piece in new)
        stall = None
        if not silent and not moved:
            stall = find_stall(
                source, enumerator, pending=pending, left=left, handled=context.handled_calls()
            )
        detector.wait_for(silent, stall)
