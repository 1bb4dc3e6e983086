"""The ranges that the micro-batch between two offsets reads."""

from __future__ import annotations

from flip27_stream.api.enumerator import CheckpointT
from flip27_stream.api.planned_range import PlannedRange, RangeKey
from flip27_stream.api.split import SplitT
from flip27_stream.errors import CorruptCheckpointError
from offsets.offset import Offset


def ranges(
    start: Offset[SplitT, CheckpointT] | None, end: Offset[SplitT, CheckpointT] | None
) -> list[PlannedRange]:
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
    found = sorted(range_keys(start, end).values())
    return [PlannedRange(end.splits[key.split_id].split, key.start, key.end) for key in found]


def range_keys(
    start: Offset[SplitT, CheckpointT] | None, end: Offset[SplitT, CheckpointT]
) -> dict[str, RangeKey]:
    """Returns the ranges that :func:`ranges` returns, without the splits: a dict by split id, not sorted."""
    if start is not None:
        _check_order(start, end)
        if start.batch == end.batch:
            return {}
    begins = end.begins_since(start.batch if start is not None else -1)
    batch = {}
    for split_id, state in end.splits.items():
        first = begins[split_id][0] if split_id in begins else _position(split_id, start, end)
        if state.position < first:
            raise _corrupt(f"split {split_id!r} would be read backwards, from {first} to {state.position}")
        if first < state.position:
            batch[split_id] = RangeKey(split_id, first, state.position)
    return batch


def _position(
    split_id: str, start: Offset[SplitT, CheckpointT] | None, end: Offset[SplitT, CheckpointT]
) -> int:
    if start is None or split_id not in start.splits:
        raise _corrupt(f"split {split_id!r} is new in batch {end.batch} but has no begin position")
    return start.splits[split_id].position


def _check_order(start: Offset[SplitT, CheckpointT], end: Offset[SplitT, CheckpointT]) -> None:
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
