"""Measures by how much the event times of a split fall back, across the borders of tasks and batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.spark.reporting.reports import SplitReport


class Disorder:
    """Compares the event times of each range with those of the ranges before it.

    A task measures how far event times fall back within its own range. The first records of a range can also be behind
    those of the range before, which another task or an earlier batch has read.
    """

    def __init__(self) -> None:
        self._batch = -1
        self._before: Mapping[str, int | None] = {}
        self._reports: dict[str, SplitReport | dict[int, SplitReport]] = {}

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
        greatest, fell_back = self._before.get(report.split), 0
        for part in self._parts(report):
            if part.disorder > fell_back:
                fell_back = part.disorder
            least, newest = part.min_event_time, part.max_event_time
            if least is not None and newest is not None:
                if greatest is not None and greatest - least > fell_back:
                    fell_back = greatest - least
                greatest = newest if greatest is None or newest > greatest else greatest
        return fell_back

    def _parts(self, report: SplitReport) -> Collection[SplitReport]:
        """Adds a report, and returns those of all ranges of its split, in their order; usually it is the only one."""
        known = self._reports.get(report.split)
        if known is None or (isinstance(known, SplitReport) and known.start == report.start):
            self._reports[report.split] = report
            return (report,)
        ranges = {known.start: known} if isinstance(known, SplitReport) else known
        ranges[report.start] = report
        self._reports[report.split] = ranges
        return [ranges[start] for start in sorted(ranges)]
