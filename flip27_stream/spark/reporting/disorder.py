"""Measures by how much the event times of a split fall back, across the borders of tasks and batches."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.spark.reporting.reports import SplitReport


class Disorder:
    """Compares the event times of each range with those of the ranges before it.

    A task measures how far event times fall back within its own range. The first records of a range can also be behind
    those of the range before, which another task or an earlier batch has read.
    """

    def __init__(self) -> None:
        self._batch = -1
        self._before: Mapping[str, int | None] = {}
        self._reports: dict[str, dict[int, SplitReport]] = {}

    def begin_batch(self, batch: int, read_max: Mapping[str, int | None]) -> None:
        """Records that a batch is about to run.

        Args:
            batch: The number of the batch.
            read_max: By split id, the greatest event time (ms) that was read before this batch; ``None`` if no event
                time was read.
        """
        if batch != self._batch:
            self._batch, self._before, self._reports = batch, read_max, {}

    def add(self, batch: int, report: SplitReport) -> int:
        """Returns the time (ms) by which event times of the split fell back, by all reports of the batch so far."""
        if batch != self._batch:
            return report.disorder
        ranges = self._reports.setdefault(report.split, {})
        ranges[report.start] = report
        greatest, fell_back = self._before.get(report.split), 0
        for _, part in sorted(ranges.items()):
            fell_back = max(fell_back, part.disorder)
            if part.min_event_time is not None and part.max_event_time is not None:
                if greatest is not None:
                    fell_back = max(fell_back, greatest - part.min_event_time)
                greatest = max(part.max_event_time, greatest or 0)
        return fell_back
