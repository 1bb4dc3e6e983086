"""Reads the end of a source again, in the planning process, to find out which rows the next source leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReaderContext,
    Watermark,
)
from flip27_stream.connectors.hybrid.source_end import TailSplit
from flip27_stream.connectors.hybrid.source_list import ActiveSource

_AVAILABILITY_TIMEOUT_S = 60.0


def read_again(active: ActiveSource, tail: Iterable[TailSplit], checkpoint: Any) -> Iterator[pa.RecordBatch]:
    """The rows of splits that were read before, as rows of the hybrid source.

    Args:
        active: the source.
        tail: its splits, and the ranges to read.
        checkpoint: the state of the source's enumerator.
    """
    wanted = [t for t in tail if t.begin < t.end]
    if not wanted:
        return
    serializer = active.source.split_serializer
    stored = [serializer.deserialize(t.split.version, t.split.data) for t in wanted]
    given = active.source.splits_for_readers(stored, checkpoint)
    splits = [split.between(t.begin, t.end) for split, t in zip(given, wanted, strict=True)]
    output = _Collected()
    reader = active.source.create_reader(_PlannerContext())
    try:
        reader.start()
        reader.add_splits(splits)
        reader.notify_no_more_splits()
        status = InputStatus.MORE_AVAILABLE
        while status is not InputStatus.END_OF_INPUT:
            status = reader.poll_next(output)
            yield from (active.rows(records) for records in output.take())
            if status is InputStatus.NOTHING_AVAILABLE:
                reader.is_available().result(_AVAILABILITY_TIMEOUT_S)
    finally:
        reader.close()


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
        """Nothing is kept by split."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        self._records.append(records)

    def emit_watermark(self, watermark: Watermark) -> None:
        """Watermarks are not used here."""

    def mark_idle(self) -> None:
        """See :meth:`emit_watermark`."""

    def mark_active(self) -> None:
        """See :meth:`emit_watermark`."""


class _PlannerContext(SourceReaderContext):
    """The context of a reader that runs in no task. It drops events: the enumerator got them at the first reading."""

    def __init__(self) -> None:
        self._metrics = MetricGroup()

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def index_of_subtask(self) -> int:
        return 0

    def send_split_request(self) -> None:
        """See the class."""

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        """See the class."""
