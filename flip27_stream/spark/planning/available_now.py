"""The ends of a run with ``Trigger.AvailableNow``, which reads the records that existed when it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from flip27_stream.api import SplitRange
from flip27_stream.errors import DataLossError

_LOOKS = 3


class FrozenEnds:
    """The ends of the splits of a run. Each end is frozen when the split's leader first answers.

    An end that only the read limits set is not frozen. A split that is discovered later is not read, but the offset
    has it, so that the next run goes on with it.

    If a log ends before the frozen end, it has lost records that the run must read. Then the run fails, whatever the
    options say about data loss, like Spark's Kafka source (class ``KafkaMicroBatchStream``, method
    ``verifyEndOffsetForTriggerAvailableNow``). As in Spark, the run fails only after three answers in a row, because a
    leader that was just elected can answer with an older end. Until then the split is unknown.

    Args:
        splits: Ids of the splits that are assigned when the run begins.
    """

    def __init__(self, splits: Collection[str]) -> None:
        self._ends: dict[str, int | None] = dict.fromkeys(splits)
        self._seen = set(splits)
        self._short: dict[str, int] = {}
        """For each split, the number of answers in a row that had an end before the frozen end."""

    def follow(self, splits: Collection[str], *, more: bool) -> None:
        """Updates the splits of the run: the assigned splits; new splits belong to it only if ``more`` were pending."""
        new = set(splits) - self._seen if more else set()
        self._ends = {s: self._ends.get(s) for s in splits if s in self._ends or s in new}
        self._seen = set(splits)

    def cut(self, log: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """Returns the part of ``log`` that belongs to the run, without splits whose logs end before the frozen ends.

        Raises:
            DataLossError: In three answers in a row a log ended before its frozen end.
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
                cut[split] = replace(r, end=max(end, r.position), final=False, limited=False)
            else:
                cut[split] = r
        return cut

    def reached(self, positions: Mapping[str, int]) -> bool:
        """Returns whether the position of every split of the run is at its end."""
        return not self.left(positions)

    def left(self, positions: Mapping[str, int]) -> list[str]:
        """Returns the splits of the run whose positions are not at their ends."""
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
                f"Trigger.AvailableNow, or a batch read: split {one} ends at {short[one]} now, but the run must read "
                f"it up to {self._ends[one]}. Its last records are gone, for example by an unclean leader election or "
                "a restored disk. No other records are lost: the next run reads all that exist."
            )

    def _is_short(self, split: str, r: SplitRange) -> bool:
        frozen = self._ends.get(split)
        return frozen is not None and not r.limited and r.end < frozen
