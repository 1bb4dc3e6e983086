"""``Trigger.AvailableNow``: a run ends at what was there when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import SplitRange


class FrozenEnds:
    """The ends of a run's splits, each frozen when its leader first answers.

    A split that is discovered later is not read, but enters the offset, so that the next run goes on with it.
    """

    def __init__(self, splits: Collection[str]) -> None:
        self._ends: dict[str, int | None] = dict.fromkeys(splits)

    def cut(self, log: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """The part of ``log`` that belongs to the run."""
        cut = {}
        for split, r in log.items():
            if split in self._ends:
                frozen = self._ends[split]
                # A log that lost its tail ends the run where it ends now.
                self._ends[split] = r.end if frozen is None else min(frozen, r.end)
            end = self._ends.get(split)
            if end is None:
                cut[split] = SplitRange(r.position, r.position, r.drained)
            elif end < r.end:
                cut[split] = SplitRange(r.position, max(end, r.position), r.drained)
            else:
                cut[split] = r
        return cut

    def reached(self, positions: Mapping[str, int]) -> bool:
        """Whether every split of the run stands at its end."""
        return all(
            end is not None and split in positions and positions[split] >= end
            for split, end in self._ends.items()
        )
