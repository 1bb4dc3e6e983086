"""Makes the rows of the split-watermark table from the plan of a micro-batch and the reports of its tasks."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from flip27_stream.api.planned_range import RangeKey
from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import longs, texts
from flip27_stream.in_order import found_in
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from watermark_alignment.planner import Plan
from watermark_alignment.split_columns import UNKNOWN, column_of
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_rows import columns_of

_GREATEST_LONG = 2**63 - 1


@dataclass(frozen=True)
class PlannedSplits:
    """The ranges of the splits of a micro-batch, in columns.

    Attributes:
        ids: The ids of the splits, sorted.
        starts: The position of each split before the batch.
        ends: The position of each split after the batch.
        states: The state of each split when the batch was planned; ``None`` if a former process planned it.
        counts_rows: Whether the positions of each split count rows; otherwise only reported rows are known.
    """

    ids: list[str]
    starts: Sequence[int]
    ends: Sequence[int]
    states: Sequence[SplitStatus | None]
    counts_rows: Sequence[bool]

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each split, by id."""
        return {split: i for i, split in enumerate(self.ids)}

    def rows(self) -> list[int]:
        """Returns the planned number of rows of each split; 0 if positions do not count rows."""
        spans = zip(self.starts, self.ends, self.counts_rows, strict=True)
        return [end - start if counts else 0 for start, end, counts in spans]

    def states_before(self, after: Sequence[SplitStatus | None]) -> list[SplitStatus]:
        """Returns the planned states; if unknown, IDLE if a split did not move and is IDLE ``after`` the batch."""
        known = [state for state in self.states if state is not None]
        if len(known) == len(self.states):
            return known
        return [
            state or (SplitStatus.IDLE if start == end and then is SplitStatus.IDLE else SplitStatus.ACTIVE)
            for state, start, end, then in zip(self.states, self.starts, self.ends, after, strict=True)
        ]


@dataclass
class BatchRecord:
    """A micro-batch that was planned and whose rows are not yet in the table.

    Attributes:
        batch: The number of the batch.
        splits: The planned ranges.
        reports: The reports of tasks, by range.
        metrics: The counters of the readers, by task number and name.
    """

    batch: int
    splits: PlannedSplits
    reports: dict[RangeKey, SplitReport] = field(default_factory=dict)
    metrics: dict[int, Mapping[str, int]] = field(default_factory=dict)

    def add_report(self, report: TaskReport) -> None:
        """Adds a report. A range and the counters of a task count once, even if Spark ran the task several times."""
        self.reports.update({split.key: split for split in report.splits})
        if not report.failed:
            self.metrics[report.task] = report.metrics

    def rows_read(self) -> list[int]:
        """Returns how many rows of each split were read, in the order of the ids in ``splits``.

        It is the number that tasks have reported; for a range without a report, it is the planned number.
        """
        splits, rows = self.splits, self.splits.rows()
        for index, report in self._reports():
            planned = report.end - report.start if splits.counts_rows[index] else 0
            rows[index] += report.rows - planned
        return rows

    def unreported(self) -> int:
        """Returns the number of splits with planned ranges that tasks did not report."""
        reported = [0] * len(self.splits.ids)
        for index, report in self._reports():
            reported[index] += report.end - report.start
        spans = zip(self.splits.starts, self.splits.ends, reported, strict=True)
        return sum([end - start > read for start, end, read in spans])

    def is_unobserved(self) -> bool:
        """Returns whether rows were planned and no task has sent a report."""
        return not self.reports and self.splits.starts != self.splits.ends

    def implausible(self) -> collections.Counter[str]:
        """Returns the number of records with an implausible event time, by split id, without zeros."""
        counts = collections.Counter[str]()
        for report in [report for report in self.reports.values() if report.implausible]:
            counts[report.split] += report.implausible
        return counts

    def _reports(self) -> list[tuple[int, SplitReport]]:
        """Returns the reports about splits of the batch, each with the index of its split."""
        index = self.splits.index if self.reports else {}
        return [(index[r.split], r) for r in self.reports.values() if r.split in index]


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
        splits = batch.splits
        states_after = list(found_in(splits.ids, after.states))
        states = splits.states_before(states_after)
        fronts = column_of(found_in(splits.ids, after.fronts))
        seen = column_of(found_in(splits.ids, read_max))
        behind_front = self.out_of_orderness + 1
        return columns_of(
            self.group,
            self.source,
            batch.batch,
            recorded_at,
            split=splits.ids,
            start_position=_texts(splits.starts),
            end_position=_texts(splits.ends),
            rows=batch.rows_read(),
            watermark=np.maximum(fronts, UNKNOWN + behind_front) - behind_front,
            max_event_time=seen,
            status=states,
            drift_ms=_drift(seen, self._least_front(fronts, states, states_after, floor)),
        )

    def _least_front(
        self,
        fronts: Int64s,
        states: Sequence[SplitStatus],
        states_after: Sequence[SplitStatus | None],
        floor: int | None,
    ) -> int | None:
        """Returns the least front (ms) of the splits that count and of the other members; ``None`` if unknown."""
        active, finished = SplitStatus.ACTIVE, SplitStatus.FINISHED
        both = enumerate(zip(states, states_after, strict=True))
        resting = [
            i for i, (state, then) in both if then is finished or not (state is active or state.counts)
        ]
        counting = fronts != UNKNOWN
        counting[resting] = False
        known = [] if floor is None else [floor + self.out_of_orderness + 1]
        if counting.any():
            known.append(int(fronts[counting].min()))
        return min(known, default=None)


def _texts(positions: Sequence[int]) -> pa.Array:
    """Returns the decimal digits of positions, which in some sources do not fit 64 bits."""
    try:
        return longs(column_of(positions)).cast(pa.string())
    except OverflowError:
        return texts(list(map(str, positions)))


def _drift(seen: Int64s, least: int | None) -> Int64s:
    """Returns how far (ms) event times are above the least front, at most the greatest 64-bit number.

    The drift is :data:`UNKNOWN` if either is unknown. It is that of the records read, not of the next record of a
    paused split.
    """
    if least is None:
        return np.full_like(seen, UNKNOWN)
    least = min(max(least, UNKNOWN), _GREATEST_LONG)
    drift = np.maximum(seen, least) - least
    return np.where(seen == UNKNOWN, UNKNOWN, np.where(drift < 0, _GREATEST_LONG, drift))
