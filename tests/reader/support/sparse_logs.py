"""Logs in memory whose positions do not count rows: even numbers of 56 digits, far apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flip27_stream.api import (
    EventTimePositions,
    EventTimes,
    PositioningRequest,
    SourceReader,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitRange,
)
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader
from tests.reader.support.memory_logs import (
    AssignedLogs,
    Enumerator,
    Log,
    MemoryLogs,
    MemoryLogSource,
    Positions,
    read,
)
from tests.watermark_alignment.support.simulator import dense_of, sparse


@dataclass(frozen=True)
class SparseLog(Log):
    @property
    def positions_count_rows(self) -> bool:
        return False

    def between(self, start: int, end: int) -> SparseLog:
        """Returns the split with a range. Both positions must be positions that the source has named."""
        return replace(self, start=dense_of(start), end=dense_of(end))


class SparseLogs(MemoryLogs):
    @property
    def source(self) -> SparseLogSource:
        return SparseLogSource(self.number)


@dataclass(frozen=True)
class SparseLogSource(MemoryLogSource):
    @property
    def split_serializer(self) -> DataclassSerializer[Any]:
        return DataclassSerializer(SparseLog)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Log]:
        return IteratorSourceReader(context, self.schema, lambda split: read(split, "has no positions"))

    def create_enumerator(self, context: SplitEnumeratorContext[Log]) -> SparseEnumerator:
        return SparseEnumerator(self, context, AssignedLogs(0))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[Log], checkpoint: AssignedLogs
    ) -> SparseEnumerator:
        return SparseEnumerator(self, context, checkpoint, restored=True)


class SparseEnumerator(Enumerator):
    """An enumerator that returns how many rows its ranges have, and finds the positions of all cuts."""

    _ranges: Mapping[str, SplitRange] = {}

    def split_of(self, log: int) -> Log:
        return SparseLog(self._source.system, log)

    def split_ranges(self, positions: Mapping[Log, int | None]) -> Mapping[str, SplitRange]:
        dense = {split: None if at is None else dense_of(at) for split, at in positions.items()}
        self._ranges = super().split_ranges(dense)
        return {
            name: replace(r, position=sparse(r.position), end=sparse(r.end), rows=r.end - r.position)
            for name, r in self._ranges.items()
        }

    def positions_after(self, rows: Mapping[str, int]) -> Mapping[str, int]:
        ranges = {name: self._ranges[name] for name in rows}
        return {name: sparse(min(r.position + rows[name], r.end)) for name, r in ranges.items()}

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        ranges = {
            name: replace(r, position=dense_of(r.position), end=dense_of(r.end), rows=None)
            for name, r in request.ranges.items()
        }
        return SparseLogPositions(Positions(self._logs, replace(request, ranges=ranges), ""))


@dataclass(frozen=True)
class SparseLogPositions(EventTimePositions):
    dense: Positions

    def event_times(self) -> Mapping[str, EventTimes]:
        return self.dense.event_times()

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        found = self.dense.first_at_or_after(event_time)
        return {name: (sparse(position), rows) for name, (position, rows) in found.items()}

    def rows_before(self, event_time: int) -> Mapping[str, int]:
        return {name: rows for name, (_, rows) in self.dense.first_at_or_after(event_time).items()}
