"""``Trigger.AvailableNow``: a run ends at what was there when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import SplitRange


class FrozenEnds:
    """The ends of a run's splits, each frozen when its leader first answers.

    An end that is there only for the read limits is none. A split that is discovered later is not read, but enters the
    offset, so that the next run goes on with it.
    """

    def __init__(self, splits: Collection[str]) -> None:
        self._ends: dict[str, int | None] = dict.fromkeys(splits)
        self._seen = set(splits)

    def follow(self, splits: Collection[str], *, more: bool) -> None:
        """``splits`` are assigned now: others are done with, and new ones belong to the run if it has ``more``."""
        new = set(splits) - self._seen if more else set()
        self._ends = {s: self._ends.get(s) for s in splits if s in self._ends or s in new}
        self._seen = set(splits)

    def cut(self, log: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """The part of ``log`` that belongs to the run."""
        cut = {}
        for split, r in log.items():
            if split in self._ends:
                self._ends[split] = self._end(self._ends[split], r)
            end = self._ends.get(split)
            if end is None and split in self._ends:
                cut[split] = r
            elif end is None:
                cut[split] = SplitRange(r.position, r.position, r.drained)
            elif end < r.end:
                cut[split] = SplitRange(r.position, max(end, r.position), r.drained)
            else:
                cut[split] = r
        return cut

    def reached(self, positions: Mapping[str, int]) -> bool:
        """Whether every split of the run stands at its end."""
        return not self.left(positions)

    def left(self, positions: Mapping[str, int]) -> list[str]:
        """The splits of the run that do not stand at their ends."""
        return [
            split
            for split, end in self._ends.items()
            if end is None or split not in positions or positions[split] < end
        ]

    @staticmethod
    def _end(frozen: int | None, r: SplitRange) -> int | None:
        if frozen is None:
            return None if r.limited else r.end
        # A log that lost its tail ends the run where it ends now.
        return frozen if r.limited else min(frozen, r.end)
