"""The end of a source, which is recorded while the source is read and used at the switch to the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flip27_stream.api import EventTimes, SplitRange
from flip27_stream.connectors.hybrid.exact_seam import RangesRead, merge
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, Stored
from flip27_stream.errors import ConnectorError

_MOST_SPLITS = 10_000


@dataclass(frozen=True)
class TailSplit:
    """A split that may hold rows of the overlap.

    Attributes:
        split: the split in serialized form.
        begin: the first position that was read.
        end: its end position, as far as it is known.
        reach: the greatest event time in the split (ms); ``None`` if it is not known.
    """

    split: Stored
    begin: int
    end: int
    reach: int | None = None


@dataclass(frozen=True)
class SourceEnd:
    """The end of a source, as far as it is known; kept in the checkpoint.

    Attributes:
        greatest: the greatest event time (ms) that was planned to be read; ``None`` if there was no event time.
        blind: whether rows may have been read whose event times were not looked at.
        tail: splits with rows of the overlap, by id in their source. For an exact seam: splits whose rows, from
            ``begin`` on, no task has reported.
        ends: for an exact seam, the position behind the greatest one that was reported, by split of the next source;
            ``None`` if there is no such seam.
    """

    greatest: int | None = None
    blind: bool = False
    tail: Mapping[str, TailSplit] = field(default_factory=dict)
    ends: Mapping[str, int] | None = None


class SourceEndRecorder:
    """Records the :class:`SourceEnd` of the active source.

    Args:
        end: what the checkpoint knows of the end.
        overlap_ms: the overlap of the next source with this one (ms); ``None`` without an overlap.
    """

    def __init__(self, end: SourceEnd, overlap_ms: int | None) -> None:
        self._end = end
        self._overlap_ms = overlap_ms
        self._seen: dict[str, int] = {}
        self._offered: dict[str, int] = {}
        self._reported: dict[str, list[tuple[int, int]]] = {}

    def looked(
        self, positions: Mapping[HybridSourceSplit, int | None], ranges: Mapping[str, SplitRange]
    ) -> None:
        """Take in the ranges that can be read; ids are those of the active source."""
        self._seen = {split.stored.id: self._seen.get(split.stored.id, -1) for split in positions}
        tail = dict(self._end.tail)
        for split, position in positions.items():
            name = split.stored.id
            if (r := ranges.get(name)) is None:
                continue
            self._seen[name] = max(self._seen[name], r.position)
            self._offered[name] = r.end
            if self._keeps_splits and (name in tail or position is None):
                tail[name] = replace(tail.get(name, TailSplit(split.stored, r.position, r.end)), end=r.end)
        if self._end.ends is not None:
            tail = {name: t for name, t in tail.items() if name in self._seen or t.begin < t.end}
        if tail != self._end.tail:
            self._end = replace(self._end, tail=tail)

    @property
    def _keeps_splits(self) -> bool:
        return self._overlap_ms is not None or self._end.ends is not None

    def was_read(self, read: RangesRead) -> None:
        """Take in a report of a task. Rows are known up to the end of reported ranges without a gap before them."""
        ends, tail = dict(self._end.ends or {}), dict(self._end.tail)
        merge(ends, read.ends)
        for name, start, end in read.ranges:
            self._reported.setdefault(name, []).append((start, end))
        for name in {name for name, _, _ in read.ranges} & tail.keys():
            for start, end in sorted(self._reported[name]):
                if start <= tail[name].begin < end:
                    tail[name] = replace(tail[name], begin=end)
            self._reported[name] = [one for one in self._reported[name] if one[1] > tail[name].begin]
        self._end = replace(self._end, ends=ends, tail=tail)

    def unseen(self, ranges: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
        """The ranges with something to read whose event times were not all looked at."""
        return {
            name: r for name, r in ranges.items() if r.position < r.end and self._seen.get(name, -1) < r.end
        }

    def saw(self, ranges: Mapping[str, SplitRange], times: Mapping[str, EventTimes]) -> None:
        """Event times of ranges were looked at."""
        reaches = {name: t.reach for name, t in times.items() if t.reach is not None}
        for name, r in ranges.items():
            if name in times:
                self._seen[name] = max(self._seen.get(name, -1), r.end)
        greatest = _greatest([self._end.greatest, *reaches.values()])
        tail = {
            name: replace(t, reach=_greatest([t.reach, reaches.get(name)]))
            for name, t in self._end.tail.items()
        }
        self._end = replace(self._end, greatest=greatest, tail=self._pruned(tail, greatest))

    def aligned(self, ranges: Mapping[str, SplitRange], times: Mapping[str, EventTimes]) -> None:
        """As :meth:`saw`, for an aligned plan: it reads nothing of splits whose event times are not known."""
        self.saw(ranges, times)
        for name in ranges.keys() - times.keys():
            self._offered.pop(name, None)

    def end(self) -> SourceEnd:
        """The end of the source, if all that was offered last is read.

        Raises:
            ConnectorError: too many splits would have to be read again.
        """
        if not self._end.blind and any(self._seen.get(name, -1) < end for name, end in self._offered.items()):
            self._end = replace(self._end, blind=True)
        self._offered.clear()
        if len(self._end.tail) > _MOST_SPLITS:
            raise ConnectorError(
                f"More than {_MOST_SPLITS} splits of a source would have to be read again for the next one: they have, "
                "or may have, rows within the overlap. Lay the source out by event time, choose a shorter overlap, or "
                "name the column of event time."
                if self._end.ends is None
                else f"Of more than {_MOST_SPLITS} splits of a source no task reported what rows they have, which an "
                "exact seam needs. See that tasks reach the driver (spark.driver.host), or read fewer files at once."
            )
        return self._end

    def _pruned(self, tail: Mapping[str, TailSplit], greatest: int | None) -> dict[str, TailSplit]:
        """Without splits that end before the overlap. As much again is kept, for rows that came out of order."""
        if greatest is None or self._overlap_ms is None:
            return dict(tail)
        least = greatest - 2 * self._overlap_ms
        return {name: t for name, t in tail.items() if t.reach is None or t.reach >= least}


def _greatest(times: Iterable[int | None]) -> int | None:
    return max((t for t in times if t is not None), default=None)
