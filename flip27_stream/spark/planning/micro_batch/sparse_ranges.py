"""Ranges of splits whose positions do not count rows, as the planner wants them."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api import EventTimePositions, SplitRange
from flip27_stream.spark.planning.micro_batch.rate_limit import PositionsAfter
from watermark_alignment.planner import SparsePositions


def rows_to(r: SplitRange, end: int) -> int:
    """What reading the range up to ``end`` costs; where positions do not count rows, at most so much."""
    if r.rows is None:
        return end - r.position
    return r.cost if end > r.position else 0


def sparse_positions(
    after: PositionsAfter | None, run: Mapping[str, SplitRange], positions: EventTimePositions | None
) -> SparsePositions | None:
    """How splits are planned whose positions do not count rows; ``None`` where they do."""
    if after is None:
        return None

    def rows_before(event_time: int) -> Mapping[str, int]:
        if positions is None:
            return {name: r.cost for name, r in run.items()}
        estimated = positions.rows_before(event_time)
        if estimated is not None:
            return estimated
        return {name: rows for name, (_, rows) in positions.first_at_or_after(event_time).items()}

    return SparsePositions(rows_before, after)
