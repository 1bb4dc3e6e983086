"""``Trigger.AvailableNow``: a run ends at what was there when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import SplitRange


class FrozenEnds:
    """The ends of a run's splits, each frozen when its leader first answers.

    Splits that are discovered later wait for the next run.
    """

    def __init__(self, splits: Collection[str]) -> None:
        self._ends: dict[str, int | None] = dict.fromkeys(splits)

    def cut(self, log: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """The part of ``log`` that belongs to the run."""
        cut = {}
        for split, r in log.items():
            if split in self._ends:
                frozen = self._ends[split]
                self._ends[split] = end = r.end if frozen is None else frozen
                cut[split] = SplitRange(r.position, max(min(r.end, end), r.position), r.drained)
        return cut

    def reached(self, positions: Mapping[str, int]) -> bool:
        """Whether every split of the run stands at its end."""
        return all(
            end is not None and split in positions and positions[split] >= end
            for split, end in self._ends.items()
        )
