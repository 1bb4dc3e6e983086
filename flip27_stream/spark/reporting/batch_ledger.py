"""Joins what was planned for a micro-batch with what its tasks reported, into rows of the split-watermark table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from flip27_stream.spark.reporting.report_channel import SplitReport
from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_watermark_table import SplitRow


@dataclass(frozen=True)
class PlannedSplit:
    """One split's part in a micro-batch; its status is ``None`` if the process that planned it is gone."""

    start: int
    end: int
    status: SplitStatus | None

    def status_before(self, after: SplitStatus | None) -> SplitStatus:
        """When it was planned; if that is not known: idle if it did not move and is idle ``after`` the batch."""
        if self.status is not None:
            return self.status
        was_idle = self.start == self.end and after is SplitStatus.IDLE
        return SplitStatus.IDLE if was_idle else SplitStatus.ACTIVE


@dataclass
class PlannedBatch:
    """A micro-batch that was planned and whose rows are not yet in the table."""

    batch: int
    splits: Mapping[str, PlannedSplit]
    reports: dict[tuple[str, int, int], SplitReport] = field(default_factory=dict)

    def take_in(self, report: SplitReport) -> None:
        """Count a range once, however often tasks were retried or the batch was read."""
        self.reports[report.split, report.start, report.end] = report

    def rows_read(self) -> dict[str, int]:
        """Rows by split: what its tasks reported, and of ranges that no task reported what was planned."""
        rows = {name: p.end - p.start for name, p in self.splits.items()}
        for report in self.reports.values():
            if report.split in rows:
                rows[report.split] += report.rows - (report.end - report.start)
        return rows

    def unreported(self) -> int:
        """Of how many splits not all that was planned was reported."""
        reported = Counter[str]()
        for report in self.reports.values():
            reported[report.split] += report.end - report.start
        return sum(p.end - p.start > reported[name] for name, p in self.splits.items())

    def is_unobserved(self) -> bool:
        """Whether rows were planned and no task has reported any."""
        return not self.reports and any(p.start < p.end for p in self.splits.values())

    def implausible(self) -> Counter[str]:
        """Records by split whose event time was not believed; splits without any are left out."""
        counts = Counter[str]()
        for report in self.reports.values():
            if report.implausible:
                counts[report.split] += report.implausible
        return counts


@dataclass(frozen=True)
class Ledger:
    """Names the source in the table's rows."""

    group: str
    source: str
    out_of_orderness: int

    def rows(
        self,
        batch: PlannedBatch,
        after: Plan,
        read_max: Mapping[str, int | None],
        floor: int | None,
        recorded_at: int,
    ) -> list[SplitRow]:
        """The table's rows of ``batch``.

        Args:
            batch: what was planned.
            after: the next plan; its fronts are those that the batch left behind.
            read_max: greatest event time read, by split.
            floor: least watermark of the other members of the group, as rule 2 counts it.
            recorded_at: the clock (ms).
        """
        states = {name: p.status_before(after.states.get(name)) for name, p in batch.splits.items()}
        fronts = [
            after.fronts.get(split)
            for split, status in states.items()
            if status.counts and after.states.get(split) is not SplitStatus.FINISHED
        ]
        fronts.append(None if floor is None else floor + self.out_of_orderness + 1)
        least = min((front for front in fronts if front is not None), default=None)
        rows = batch.rows_read()
        return [
            SplitRow(
                group=self.group,
                source=self.source,
                split=split,
                batch=batch.batch,
                start_position=str(planned.start),
                end_position=str(planned.end),
                rows=rows[split],
                watermark=None
                if (front := after.fronts.get(split)) is None
                else front - self.out_of_orderness - 1,
                max_event_time=(seen := read_max.get(split)),
                status=str(states[split]),
                # What was read is ahead, not what a paused split has next.
                drift_ms=None if seen is None or least is None else max(seen - least, 0),
                recorded_at=recorded_at,
            )
            for split, planned in sorted(batch.splits.items())
        ]
