"""Reads the end of a source again in the planning process, to find the rows that the next source must leave out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from flip27_stream.api import (
    MetricGroup,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReaderContext,
)
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.hybrid.planning.source_end import TailSplit
from flip27_stream.connectors.hybrid.source_list import ActiveSource
from flip27_stream.reader.drive import read_ranges

log = logging.getLogger(__name__)

_SKIPPED: Final = ("corrupt_files", "missing_files")
"""The counters of readers for skipped files and records."""


def read_again(active: ActiveSource, tail: Iterable[TailSplit], checkpoint: Any) -> Iterator[pa.RecordBatch]:
    """Reads ranges of the active source again that were read before.

    Args:
        active: The active source.
        tail: The splits, each with the range to read.
        checkpoint: The checkpoint of that source's enumerator.

    Yields:
        The rows in the schema of the hybrid source.
    """
    wanted = [t for t in tail if t.begin < t.end]
    if not wanted:
        return
    serializer = active.source.split_serializer
    splits = [serializer.deserialize(t.split.version, t.split.data) for t in wanted]
    given = active.source.splits_for_readers(splits, checkpoint)
    ranges = [PlannedRange(split, t.begin, t.end) for split, t in zip(given, wanted, strict=True)]
    output, context = _Collected(), _PlannerContext()
    for _ in read_ranges(active.source, context, ranges, output):
        yield from (active.rows(records) for records in output.take())
    counters = context.metric_group().snapshot()
    if skipped := [f"{name} {counters[name]}" for name in _SKIPPED if counters.get(name)]:
        log.warning(
            "%s was read again, to find rows that the next source also has. Skipped parts: %s. Their rows may be read "
            "twice.",
            active.name,
            ", ".join(skipped),
        )


class _Collected(ReaderOutput):
    """An output that collects the rows of all splits."""

    def __init__(self) -> None:
        self._records: list[pa.RecordBatch] = []

    def take(self) -> list[pa.RecordBatch]:
        taken, self._records = self._records, []
        return taken

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        return self

    def release_output_for_split(self, split_id: str) -> None:
        """Does nothing: no state is kept by split."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        self._records.append(records)


class _PlannerContext(SourceReaderContext):
    """The context of a reader outside of a task. Its messages are dropped, because the first reader has sent them."""

    def __init__(self) -> None:
        self._metrics = MetricGroup()

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def index_of_subtask(self) -> int:
        return 0

    def send_split_request(self) -> None:
        """Does nothing, because a task has read these ranges before, and its reader has sent its requests."""

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """Does nothing, because a task has read these ranges before, and its reader has sent its events."""
