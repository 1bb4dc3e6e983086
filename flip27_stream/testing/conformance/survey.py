"""Finds the event times and positions of a source by reading all of it once."""

from __future__ import annotations

from dataclasses import dataclass, field

from flip27_stream.api import RecordTimestampAssigner
from flip27_stream.testing.aligned_run import SplitTimes
from flip27_stream.testing.conformance.checks import positions_of
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import TaskRows


@dataclass
class Survey:
    """The event times and positions of a source.

    Attributes:
        splits: The event times of each split, by id; an empty list if its rows have no event time.
        positions: The number of positions of all splits, or of rows if positions do not count rows.
    """

    splits: dict[str, SplitTimes] = field(default_factory=dict)
    positions: int = 0

    @property
    def times(self) -> list[int]:
        return [time for split in self.splits.values() for time in split.times]


def survey(query: SourceQuery, expected: int) -> Survey:
    """Reads ``expected`` rows, and returns their event times and positions."""
    found, rows = Survey(), 0
    while rows < expected:
        start, query.offset = query.wait_for_batch()
        for planned in (r for task in query.tasks(start, query.offset) for r in task):
            output = query.collect([planned])
            rows += output.table.num_rows
            found.positions += positions_of([planned], output.table.num_rows)
            found.splits.setdefault(planned.split.split_id, SplitTimes([])).times += _times(query, output)
    return found


def _times(query: SourceQuery, output: TaskRows) -> list[int]:
    assigner = query.spec.strategy.timestamp_assigner
    return [
        time
        for batch in output.batches
        if batch.timestamps is not None or assigner != RecordTimestampAssigner()
        for time in assigner.extract_timestamps(batch.records, batch.timestamps).to_pylist()
        if time is not None
    ]
