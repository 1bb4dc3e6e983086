"""Makes the rows of the split-watermark table from the plan of a micro-batch and the reports of its tasks."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from flip27_stream.api.planned_range import RangeKey
from flip27_stream.in_order import found_in, values_of
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_rows import columns_of


class PlannedSplit(NamedTuple):
    """The range of one split in a micro-batch.

    Attributes:
        start: The position of the split before the batch.
        end: The position of the split after the batch.
        status: The status when the batch was planned; ``None`` if a former process planned it.
        counts_rows: Whether positions count rows; otherwise only reported rows are known.
    """

    start: int
    end: int
    status: SplitStatus | None
    counts_rows: bool = True

    def rows_between(self, start: int, end: int) -> int:
        return end - start if self.counts_rows else 0

    def status_before(self, after: SplitStatus | None) -> SplitStatus:
        """Returns the planned status; if unknown, IDLE if the split did not move and is IDLE ``after`` the batch."""
        if self.status is not None:
            return self.status
        was_idle = self.start == self.end and after is SplitStatus.IDLE
        return SplitStatus.IDLE if was_idle else SplitStatus.ACTIVE


@dataclass
class BatchRecord:
    """A micro-batch that was planned and whose rows are not yet in the table.

    Attributes:
        batch: The number of the batch.
        splits: The planned ranges, by split id.
        reports: The reports of tasks, by range.
        metrics: The counters of the readers, by task number and name.
    """

    batch: int
    splits: Mapping[str, PlannedSplit]
    reports: dict[RangeKey, SplitReport] = field(default_factory=dict)
    metrics: dict[int, Mapping[str, int]] = field(default_factory=dict)

    def add_report(self, report: TaskReport) -> None:
        """Adds a report. A range and the counters of a task count once, even if Spark ran the task several times."""
        self.reports.update({split.key: split for split in report.splits})
        if not report.failed:
            self.metrics[report.task] = report.metrics

    def rows_read(self) -> dict[str, int]:
        """Returns the number of rows read, by split id: the reported number, or the planned one without a report."""
        rows = {name: last - first if counts else 0 for name, (first, last, _, counts) in self.splits.items()}
        for report in self.reports.values():
            if report.split in rows:
                counted = self.splits[report.split].rows_between(report.start, report.end)
                rows[report.split] += report.rows - counted
        return rows

    def unreported(self) -> int:
        """Returns the number of splits with planned ranges that tasks did not report."""
        reported = dict.fromkeys(self.splits, 0)
        for report in self.reports.values():
            if report.split in reported:
                reported[report.split] += report.end - report.start
        return sum(last - first > reported[name] for name, (first, last, _, _) in self.splits.items())

    def is_unobserved(self) -> bool:
        """Returns whether rows were planned and no task has sent a report."""
        return not self.reports and any(p.start < p.end for p in self.splits.values())

    def implausible(self) -> collections.Counter[str]:
        """Returns the number of records with an implausible event time, by split id, without zeros."""
        counts = collections.Counter[str]()
        for report in self.reports.values():
            if report.implausible:
                counts[report.split] += report.implausible
        return counts


@dataclass(frozen=True)
class TableRows:
    """Makes the table's rows of one source.

    Attributes:
        group: The alignment group.
        source: The id of the source in the group.
        out_of_orderness: ``scan.watermark.max-out-of-orderness`` (ms).
    """

    group: str
    source: str
    out_of_orderness: int

    def of_batch(
        self,
        batch: BatchRecord,
        after: Plan,
        read_max: Mapping[str, int | None],
        floor: int | None,
        recorded_at: int,
    ) -> pa.Table:
        """Returns the table's rows of ``batch``, one for each split, column by column.

        Args:
            batch: The batch and its reports.
            after: The next plan, which has the fronts after the batch.
            read_max: Greatest event time (ms) read after the batch, by split id.
            floor: Least watermark (ms) of the other members of the group (rule 2); ``None`` without other members.
            recorded_at: The machine's clock (ms).
        """
        names = sorted(batch.splits)
        splits = values_of(names, batch.splits)
        starts, ends, *_ = zip(*splits, strict=True) if splits else ((), ())
        states_after = found_in(names, after.states)
        states = [
            split.status or split.status_before(then)
            for split, then in zip(splits, states_after, strict=True)
        ]
        fronts = found_in(names, after.fronts)
        rows = values_of(names, batch.rows_read())
        seen = found_in(names, read_max)
        least = self._least_front(fronts, states, states_after, floor)
        behind_front = self.out_of_orderness + 1
        return columns_of(
            self.group,
            self.source,
            batch.batch,
            recorded_at,
            split=names,
            start_position=list(map(str, starts)),
            end_position=list(map(str, ends)),
            rows=list(rows),
            watermark=[None if front is None else front - behind_front for front in fronts],
            max_event_time=list(seen),
            status=states,
            # The drift is that of the records read, not of the next record of a paused split.
            drift_ms=[
                None if time is None or least is None else time - least if time > least else 0
                for time in seen
            ],
        )

    def _least_front(
        self,
        fronts: Collection[int | None],
        states: Collection[SplitStatus],
        states_after: Collection[SplitStatus | None],
        floor: int | None,
    ) -> int | None:
        """Returns the least front (ms) of the splits that count and of the other members; ``None`` if unknown."""
        counting = {state for state in SplitStatus if state.counts}
        known = [
            front
            for front, state, then in zip(fronts, states, states_after, strict=True)
            if front is not None and state in counting and then is not SplitStatus.FINISHED
        ]
        if floor is not None:
            known.append(floor + self.out_of_orderness + 1)
        return min(known, default=None)
