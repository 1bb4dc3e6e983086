"""The sums of the reports of tasks since the query of a source started, and warnings about event times."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from flip27_stream.spark.reporting.reports import SplitReport
from watermark_alignment.table.batch_note import ObservedEventTimes

log = logging.getLogger("flip27_stream.spark.reporting.recorder")

_MANY = 100
"""The number of consecutive records without an event time that counts as a mistake. A few can be deletions."""

_MOST_SPLITS = 10_000
"""The greatest number of splits whose records without event times are counted: files are many splits."""


class Observations:
    """Sums up reports, batch by batch.

    Args:
        event_time: ``scan.watermark.event-time``.
        unit: The unit of event times that are integers.
    """

    def __init__(self, event_time: str, unit: str) -> None:
        self._newest = ObservedEventTimes(event_time=event_time, unit=unit)
        self._told: set[str] = set()
        self._untimed: dict[str, int] = {}

    def after(self, reports: Iterable[SplitReport]) -> ObservedEventTimes:
        """Adds the reports of one more batch, and returns the sum."""
        known, new_reports = self._newest, list(reports)
        example = next(
            (r.implausible_example for r in new_reports if r.implausible_example is not None), None
        )
        for report in new_reports:
            if self._untimed or report.untimed:
                self._count_untimed(report)
        untimed = None
        if self._untimed:
            untimed = next((r for r in new_reports if self._untimed.get(r.split, 0) >= _MANY), None)
        if untimed is not None and not known.untimed_split:
            in_a_row = self._untimed[untimed.split]
            self._untimed.clear()
            known = replace(
                known, untimed_split=untimed.split, untimed_in_split=in_a_row, sample=untimed.sample
            )
        rows, size, untimed_rows, least, greatest, samples = _columns(new_reports)
        self._newest = replace(
            known,
            records=known.records + sum(rows),
            bytes=known.bytes + sum(size),
            untimed=known.untimed + sum(untimed_rows),
            sample=known.sample or next(filter(None, samples), ""),
            min_event_time=min((time for time in least if time is not None), default=None),
            max_event_time=max((time for time in greatest if time is not None), default=None),
            implausible_example=known.implausible_example if example is None else example,
        )
        return self._newest

    def _count_untimed(self, report: SplitReport) -> None:
        """Counts the consecutive records without an event time of each split, until a warning about a split is due."""
        if report.untimed < report.rows:
            self._untimed.pop(report.split, None)
        elif report.rows and not self._newest.untimed_split:
            self._untimed[report.split] = self._untimed.pop(report.split, 0) + report.rows
            if len(self._untimed) > _MOST_SPLITS:
                del self._untimed[next(iter(self._untimed))]

    def warn(self, source: str, now: int) -> None:
        """Logs each mistake about event time once; ``now`` is the time (ms)."""
        for about, text in self._newest.mistakes(source, now):
            if about not in self._told:
                self._told.add(about)
                log.warning("%s", text)


def _columns(reports: Sequence[SplitReport]) -> Iterable[tuple[Any, ...]]:
    """Returns the columns of reports that are summed up: their numbers, times and samples."""
    fields = attrgetter("rows", "bytes", "untimed", "min_event_time", "max_event_time", "sample")
    return zip(*map(fields, reports), strict=True) if reports else ((),) * 6
