"""``Trigger.AvailableNow``: a run ends at what was there when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import SplitRange
from flip27_stream.errors import DataLossError

_LOOKS = 3


class FrozenEnds:
    """The ends of a run's splits, each frozen when its leader first answers.

    An end that is there only for the read limits is none. A split that is discovered later is not read, but enters the
    offset, so that the next run goes on with it.

    A log that ends before the frozen end now has lost records that the run is to read. Like Spark's Kafka source (class
    ``KafkaMicroBatchStream``, ``verifyEndOffsetForTriggerAvailableNow``) the run fails then, whatever an option says of
    data loss, and like Spark only once three answers in a row say so: a leader that was elected just now can answer
    with an end that it has not caught up with. Until then nothing is known of the split.
    """

    def __init__(self, splits: Collection[str]) -> None:
        self._ends: dict[str, int | None] = dict.fromkeys(splits)
        self._seen = set(splits)
        self._short: dict[str, int] = {}
        """How many answers in a row said that a log ends before its frozen end."""

    def follow(self, splits: Collection[str], *, more: bool) -> None:
        """``splits`` are assigned now: others are done with, and new ones belong to the run if it has ``more``."""
        new = set(splits) - self._seen if more else set()
        self._ends = {s: self._ends.get(s) for s in splits if s in self._ends or s in new}
        self._seen = set(splits)

    def cut(self, log: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """The part of ``log`` that belongs to the run; a split is left out where its log seems to have lost its tail.

        Raises:
            DataLossError: it has.
        """
        self._check_tails(log)
        cut = {}
        for split, r in log.items():
            if split in self._short:
                continue
            if split in self._ends and self._ends[split] is None and not r.limited:
                self._ends[split] = r.end
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

    def _check_tails(self, log: Mapping[str, SplitRange]) -> None:
        short = {split: r.end for split, r in log.items() if self._is_short(split, r)}
        self._short = {split: self._short.get(split, 0) + 1 for split in short}
        lost = [split for split, looks in self._short.items() if looks >= _LOOKS]
        if lost:
            one = min(lost)
            raise DataLossError(
                f"{len(lost)} splits report available offset which is less than end offset during running query with "
                f"Trigger.AvailableNow, or a batch read: split {one} ends at {short[one]} now, and the run is to read "
                f"it up to {self._ends[one]}. Its last records are gone, say by an unclean leader election or with a "
                "disk that was restored. What is before is not lost: the next run reads what is there."
            )

    def _is_short(self, split: str, r: SplitRange) -> bool:
        frozen = self._ends.get(split)
        return frozen is not None and not r.limited and r.end < frozen
