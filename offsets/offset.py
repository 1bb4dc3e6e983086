"""The state of a source between two micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from flip27_stream.api.enumerator import CheckpointT


class SplitState(NamedTuple):
    """How far one split has been read.

    It is a named tuple, because a plan creates one for each split, and a frozen dataclass takes three times as long.

    Attributes:
        split: The split, of the type that the source has.
        position: The next position to read; >= 0.
        read_max: Greatest event time (ms) read; ``None`` if no record with an event time was read.
        quiet_since: The time (ms) at which the log end of the split was first found at ``position``. If it stays there
            for the idle timeout, the split is idle (rule 9). ``None`` if the log end was elsewhere.
    """

    split: Any
    position: int
    read_max: int | None = None
    quiet_since: int | None = None


@dataclass(frozen=True, slots=True)
class Offset(Generic[CheckpointT]):
    """The state of a source between two micro-batches, from which a restarted query goes on.

    Attributes:
        source: The fingerprint of the source that began the checkpoint; it never changes.
        lineage: The random id of the checkpoint, drawn at its first plan; it never changes.
        batch: The number of the plan that made this offset; it grows with every offset of a checkpoint.
        enumerator: The state of the enumerator.
        splits: The states of the splits, by split id.
        begin: The positions at which this batch begins to read splits, by split id: splits that the offset before does
            not have, or whose data at its position is lost. Only the first offset with such a position has it here.
        plausible_until: Event times after this time (ms) are implausible in this batch (rule 6); ``None`` for no
            bound.
        earlier_begins: The entries of ``begin`` in earlier offsets that may not be in Spark's offset log, by split id:
            the position and the number of that offset. With asynchronous progress tracking Spark logs only some
            offsets, and may replay a batch from one logged offset to the next.

    Raises:
        ValueError: The batch number is negative; ``begin`` has a split that ``splits`` lacks; or a split is both in
            ``begin`` and in ``earlier_begins``.
    """

    source: str
    lineage: str
    batch: int
    enumerator: CheckpointT
    splits: Mapping[str, SplitState]
    begin: Mapping[str, int]
    plausible_until: int | None
    earlier_begins: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch < 0:
            raise ValueError(f"batch must not be negative: {self.batch}")
        if unknown := (self.begin.keys() | self.earlier_begins.keys()) - self.splits.keys():
            raise ValueError(f"begin names splits that the offset does not have: {sorted(unknown)}")
        if twice := self.begin.keys() & self.earlier_begins.keys():
            raise ValueError(f"these splits begin both in this offset and in an earlier one: {sorted(twice)}")

    def begins_since(self, batch: int) -> dict[str, tuple[int, int]]:
        """Returns the entries of ``begin`` in this offset and in earlier offsets after number ``batch``, by split id.

        Returns:
            The position, and the number of the offset that has the entry.
        """
        here = {split: (position, self.batch) for split, position in self.begin.items()}
        return {split: begin for split, begin in {**self.earlier_begins, **here}.items() if begin[1] > batch}


AnyOffset = Offset[Any]
"""An offset of any source. The Spark adapter does not know the type of its enumerator's state."""
