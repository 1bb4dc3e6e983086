"""How far event times of a split fall back, across the borders of tasks and batches."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.spark.reporting.reports import SplitReport


class Disorder:
    """Compares what was read of each split with what was read of it before.

    A task sees how far event times fall back within its own range. What it reads first may be behind what the range
    before had, be that of another task or of an earlier batch.
    """

    def __init__(self) -> None:
        self._batch = -1
        self._before: Mapping[str, int | None] = {}
        self._reports: dict[str, dict[int, SplitReport]] = {}

    def begins(self, batch: int, read_max: Mapping[str, int | None]) -> None:
        """A batch is about to run; ``read_max`` is the greatest event time (ms) read before it, by split."""
        if batch != self._batch:
            self._batch, self._before, self._reports = batch, read_max, {}

    def seen(self, batch: int, report: SplitReport) -> int:
        """How far (ms) event times of the split fell back, by this report and those on other ranges of the batch."""
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
