"""The splits of one plan as rows or columns, and their aligned plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from flip27_stream.in_order import values_of
from flip27_stream.spark.planning.micro_batch.split_tracker import TrackedRow
from watermark_alignment.planner import Plan, PositionsAt, SparsePositions, SplitView, plan
from watermark_alignment.split_columns import SplitColumns, known_times, plan_in_columns


@dataclass(frozen=True)
class TrackedSplits:
    """The splits of a plan.

    Attributes:
        ids: The ids of the splits, sorted.
        rows: One tuple for each split, in the order of ``ids``: the fields of
            :class:`~watermark_alignment.planner.SplitView` without the id, which is its first field.
    """

    ids: Sequence[str]
    rows: Sequence[TrackedRow]

    @cached_property
    def views(self) -> list[SplitView]:
        """The splits in the form in which the planner takes them, one object for each split."""
        return [SplitView(split, *row) for split, row in zip(self.ids, self.rows, strict=True)]

    @cached_property
    def columns(self) -> SplitColumns | None:
        """The splits in columns; ``None`` if a number does not fit 64 bits."""
        return SplitColumns.of_rows(self.ids, self.rows)

    def plan(
        self,
        at: PositionsAt,
        sparse: SparsePositions | None,
        *,
        limit: int | None,
        max_drift: int,
        out_of_orderness: int,
        idle_timeout: int,
        now: int,
        floor: int | None,
    ) -> Plan:
        """Returns the aligned plan of these splits, computed in columns if positions count records.

        Arguments are those of :func:`watermark_alignment.planner.plan`.
        """
        columns = self.columns if sparse is None else None
        rule = (
            partial(plan, self.views, at, sparse=sparse)
            if columns is None
            else partial(plan_in_columns, columns, at)
        )
        return rule(
            limit=limit,
            max_drift=max_drift,
            out_of_orderness=out_of_orderness,
            idle_timeout=idle_timeout,
            now=now,
            floor=floor,
        )

    def positions(self) -> dict[str, int]:
        """Returns the next position to read of each split, by id."""
        return {split: row[0] for split, row in zip(self.ids, self.rows, strict=True)}

    def read_max(self) -> dict[str, int | None]:
        """Returns the greatest event time (ms) read of each split, by id; ``None`` if unknown."""
        return {split: row[2] for split, row in zip(self.ids, self.rows, strict=True)}

    def read_max_after(self, planned: Plan) -> dict[str, int | None]:
        """Returns the greatest event time (ms) of each split that is proven to be read after the batch, or ``None``."""
        ends, horizon, columns = planned.ends, planned.horizon, self.columns
        if columns is not None:
            read_to = np.fromiter(values_of(list(self.ids), ends), np.int64, len(self.ids))
            times = columns.read_max_after(read_to, horizon)
            return dict(zip(self.ids, known_times(times), strict=True))
        return {
            split: _read_max_after(row, ends[split], horizon)
            for split, row in zip(self.ids, self.rows, strict=True)
        }


def _read_max_after(row: TrackedRow, end: int, horizon: int | None) -> int | None:
    position, last, read_max, first, reach, *_ = row
    if end == position:
        return read_max
    read = reach if end == last else first
    if read is None or (horizon is not None and read >= horizon):
        return read_max
    return read if read_max is None else max(read_max, read)
