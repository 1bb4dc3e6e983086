"""The ranges that the micro-batch between two offsets reads."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api.enumerator import CheckpointT
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import CorruptCheckpointError
from flip27_stream.in_order import found_in
from offsets.offset import Offset, SplitState


def ranges(start: Offset[CheckpointT] | None, end: Offset[CheckpointT] | None) -> list[PlannedRange]:
    """Returns the ranges between two offsets: a pure function of the two, so that a replay reads the same ranges.

    A split is read from its entry in :attr:`Offset.begin`, if ``end`` or another offset after ``start`` has one;
    otherwise from its position in ``start``. A split that ``end`` does not have is not read.

    Args:
        start: The offset where the batch starts; ``None`` for the initial offset.
        end: The offset where the batch ends; ``None`` for the initial offset.

    Returns:
        The ranges that are not empty, sorted by split id.

    Raises:
        CorruptCheckpointError: The two offsets contradict each other.
    """
    if end is None:
        if start is not None:
            raise _corrupt(f"batch {start.batch} is followed by the initial offset")
        return []
    firsts = first_positions(start, end)
    return [
        PlannedRange(end.splits[split_id].split, first, last)
        for split_id, first in sorted(firsts.items())
        if first < (last := end.splits[split_id].position)
    ]


def first_positions(start: Offset[CheckpointT] | None, end: Offset[CheckpointT]) -> dict[str, int]:
    """Returns the position at which a batch begins to read each split, by split id, as :func:`ranges` defines it.

    Args:
        start: The offset where the batch starts; ``None`` for the initial offset.
        end: The offset where the batch ends. For a split that the batch does not read, its position in ``end`` is
            returned.

    Raises:
        CorruptCheckpointError: The two offsets contradict each other.
    """
    begins = end.begins_since(start.batch if start is not None else -1)
    before: Mapping[str, SplitState] = {}
    if start is not None:
        _check_order(start, end)
        before = start.splits
    firsts = {}
    ids = list(end.splits)
    for split_id, state, former in zip(ids, end.splits.values(), found_in(ids, before), strict=True):
        if split_id in begins:
            first = begins[split_id][0]
        elif former is not None:
            first = former.position
        else:
            raise _corrupt(f"split {split_id!r} is new in batch {end.batch} but has no begin position")
        if state.position < first:
            raise _corrupt(f"split {split_id!r} would be read backwards, from {first} to {state.position}")
        firsts[split_id] = first
    return firsts


def _check_order(start: Offset[CheckpointT], end: Offset[CheckpointT]) -> None:
    if start.lineage != end.lineage:
        raise _corrupt(
            f"the start offset is of checkpoint {start.lineage!r}, the end offset of checkpoint {end.lineage!r}"
        )
    if start.batch > end.batch or (start.batch == end.batch and start != end):
        raise _corrupt(
            f"the end offset is of batch {end.batch}, which is not after batch {start.batch} of the start offset"
        )


def _corrupt(what: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The stored offsets contradict each other: {what}. "
        "Restore the checkpoint from a copy, or use another checkpointLocation."
    )
