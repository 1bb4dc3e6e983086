"""The costs (numbers of rows) of ranges for the planner, also of splits whose positions do not count rows."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api import EventTimePositions, SplitRange
from flip27_stream.spark.planning.micro_batch.rate_limit import PositionsAfter
from watermark_alignment.planner import SparsePositions


def rows_to(r: SplitRange, end: int) -> int:
    """Returns the cost of reading a range up to ``end``.

    If positions do not count rows, it is the cost of the whole range, an upper bound. It is 0 if nothing is read.
    """
    if r.rows is None:
        return end - r.position
    return r.cost if end > r.position else 0


def sparse_positions(
    after: PositionsAfter | None, run: Mapping[str, SplitRange], positions: EventTimePositions | None
) -> SparsePositions | None:
    """Returns the planner's functions for positions that do not count rows; ``None`` if positions count rows.

    Args:
        after: Returns the positions after numbers of rows; ``None`` if positions count rows.
        run: The ranges that the run can read, by split id.
        positions: The positions by event time in these ranges; ``None`` if the enumerator finds none.
    """
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
