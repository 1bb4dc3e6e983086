"""What the coordinator remembers between two micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from flip27_stream.api.enumerator import CheckpointT
from flip27_stream.api.split import SplitT


@dataclass(frozen=True, slots=True)
class SplitState(Generic[SplitT]):
    """How far one split has been read.

    Attributes:
        split: the split.
        position: the next position to read; >= 0.
        read_max: greatest event time read (ms), ``None`` when none was.
        quiet_since: when (ms) the end of the split was first seen at ``position``; idleness is proven by it.
    """

    split: SplitT
    position: int
    read_max: int | None = None
    quiet_since: int | None = None

    def __post_init__(self) -> None:
        if self.position < 0:
            raise ValueError(f"negative position of split {self.split.split_id!r}: {self.position}")


@dataclass(frozen=True, slots=True)
class Offset(Generic[SplitT, CheckpointT]):
    """The state of a source between two micro-batches; what a restarted query goes on from.

    Attributes:
        source: fingerprint of the source that began the checkpoint; kept for ever, as the lineage is.
        lineage: drawn at the first plan of a checkpoint and kept for ever.
        batch: number of the plan that made this offset; grows with every new offset of a lineage.
        enumerator: checkpoint of the enumerator.
        splits: by split id.
        begin: where this batch starts to read the splits that the offset before did not have, or whose
            position was moved past lost data. Only in the offset that introduces it.
        plausible_until: event times after this (ms) were not believed by this plan; ``None`` for no bound.
        begun: what ``begin`` said in an earlier offset of which it is not known that it is in Spark's log, by split:
            the position and the number of that offset. With asynchronous progress tracking Spark logs some offsets
            only, and may run a batch again that reaches from one of these to the next.
    """

    source: str
    lineage: str
    batch: int
    enumerator: CheckpointT
    splits: Mapping[str, SplitState[SplitT]]
    begin: Mapping[str, int]
    plausible_until: int | None
    begun: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch < 0:
            raise ValueError(f"batch must not be negative: {self.batch}")
        if unknown := (self.begin.keys() | self.begun.keys()) - self.splits.keys():
            raise ValueError(f"begin names splits that the offset does not have: {sorted(unknown)}")
        if twice := self.begin.keys() & self.begun.keys():
            raise ValueError(f"these splits begin in this offset and in an earlier one: {sorted(twice)}")

    def begins_since(self, batch: int) -> dict[str, tuple[int, int]]:
        """Where splits begin in this offset or an earlier one behind number ``batch``; and in which."""
        here = {split: (position, self.batch) for split, position in self.begin.items()}
        return {split: begin for split, begin in {**self.begun, **here}.items() if begin[1] > batch}
