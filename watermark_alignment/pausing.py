"""Pausing by the event times that were read (FLIP-217), for connectors that cannot find positions by event time.

A split is paused while its greatest event time read is more than max-drift above that of the slowest split. The pause
comes after the records were read, so a split can get ahead further by the records of one micro-batch. Connectors that
find positions by event time use :mod:`watermark_alignment.planner`, which cuts splits exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watermark_alignment.planner import (
    END_OF_TIME,
    Plan,
    SparsePositions,
    SplitView,
    cap_of,
    resting_state,
    share,
    share_sparsely,
)
from watermark_alignment.states import SplitStatus


def plan_by_pausing(
    splits: Sequence[SplitView],
    *,
    limit: int | None,
    max_drift: int,
    out_of_orderness: int,
    idle_timeout: int,
    now: int,
    floor: int | None,
    sparse: SparsePositions | None = None,
) -> Plan:
    """Returns the plan of one micro-batch; arguments as for :func:`watermark_alignment.planner.plan`.

    A split without any read record does not count, and is read. A final split (one that gets no more records) holds the
    others back until it is read to its end, because the limit may cut it at any event time.
    """
    views = sorted(splits, key=lambda v: v.id)
    fixed = {v.id: state for v in views if (state := resting_state(v, idle_timeout, now)) is not None}
    counting = [replace(v, final=False) for v in views if v.id not in fixed and v.front is not None]
    horizon, holder = cap_of(counting, floor, max_drift, out_of_orderness)
    readable = [v for v in views if v.position < v.end]
    ahead = {v.id for v in readable if horizon is not None and v.front is not None and v.front >= horizon}
    free = [v for v in readable if v.id not in ahead]
    ends = {v.id: v.position for v in views} | _ends(free, limit, sparse)
    least = min((v.front for v in counting if v.front is not None), default=None)
    return Plan(
        horizon=horizon,
        ends=ends,
        states={
            v.id: fixed.get(v.id, SplitStatus.PAUSED if v.id in ahead else SplitStatus.ACTIVE) for v in views
        },
        fronts={v.id: v.front for v in views},
        own_watermark=None if least is None else least - out_of_orderness - 1,
        held_by=holder if ahead else None,
        cut=frozenset(v.id for v in free if ends[v.id] < v.end),
    )


def _ends(free: Sequence[SplitView], limit: int | None, sparse: SparsePositions | None) -> dict[str, int]:
    rows = {v.id: v.end - v.position for v in free} if sparse is None else sparse.rows_before(END_OF_TIME)
    if limit is None or sum(rows.get(v.id, 0) for v in free) <= limit:
        return {v.id: v.end for v in free}
    positions = {v.id: (v.end, rows.get(v.id, 0)) for v in free}
    return share(free, positions, limit) if sparse is None else share_sparsely(free, positions, limit, sparse)
