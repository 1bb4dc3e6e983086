"""The end of a source. It is recorded while the source is read, and used at the switch to the next source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flip27_stream.api import EventTimes, SplitRange
from flip27_stream.connectors.hybrid.seam.exact_seam import ExactSeam, SourceRangesRead, merge
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, SerializedSplit
from flip27_stream.errors import ConnectorError, OptionError

_MOST_SPLITS = 10_000


@dataclass(frozen=True)
class TailSplit:
    """A split that may have rows in the overlap.

    Attributes:
        split: The serialized split.
        begin: The first position that was read.
        end: The known end position.
        reach: The greatest event time (ms) in the split; ``None`` if it is unknown.
    """

    split: SerializedSplit
    begin: int
    end: int
    reach: int | None = None


@dataclass(frozen=True)
class SourceEnd:
    """The known end of a source, a part of the checkpoint.

    Attributes:
        greatest: The greatest event time (ms) that was planned to be read; ``None`` if no event time was found.
        blind: Whether rows may have been read whose event times were not checked.
        tail: The splits with rows in the overlap, by id in their source. For an exact seam, the splits with rows that
            no task has reported; these are the rows from ``begin`` on.
        ends: For an exact seam, the greatest reported position plus one, by split of the next source. ``None`` if the
            next source has no exact seam.
        overlap_ms: The overlap (ms) of the next source, for which ``tail`` was recorded; ``None`` without an overlap.
        seam: The exact seam by which ``ends`` were recorded; ``None`` if it is not known.
    """

    greatest: int | None = None
    blind: bool = False
    tail: Mapping[str, TailSplit] = field(default_factory=dict)
    ends: Mapping[str, int] | None = None
    overlap_ms: int | None = None
    seam: ExactSeam | None = None

    def continued(
        self, name: str, overlap_ms: int | None, seam: ExactSeam | None, *, has_splits: bool
    ) -> SourceEnd:
        """Returns the end with which a restarted query goes on.

        Version 1 of the state has no ``overlap_ms``. There a ``tail`` without ``ends`` shows that there was an overlap.
        Versions 1 and 2 have no ``seam``.

        Args:
            name: The name of the source, for the error.
            overlap_ms: The overlap of the next source now (ms); ``None`` without an overlap.
            seam: The exact seam of the next source now; ``None`` without one.
            has_splits: Whether the last offset has splits of the source.

        Raises:
            OptionError: Rows of the source were read without recording what the seam needs.
        """
        if seam is not None and self.ends is None:
            raise OptionError(
                f"{name} was begun without an exact seam to the next source, or went on without it, so the positions "
                "of its last rows are not known. Leave the exact seam out, or start with another checkpointLocation."
            )
        if seam is not None and self.ends and self.seam not in (None, seam):
            raise OptionError(
                f"{name} was begun with {self.seam} to the next source, and now has {seam}. The positions of the rows "
                "that were read are known by the former seam only. Give that seam again, or start with another "
                "checkpointLocation."
            )
        is_begun = has_splits or self.greatest is not None or self.blind
        if overlap_ms is not None and is_begun and not self._covers(overlap_ms):
            raise OptionError(
                f"{name} was begun with {self._seam} to the next source, which has an overlap of {overlap_ms} ms now. "
                "It is not known which of the rows that were read are within that overlap, so they would be read "
                f"twice. {self._remedy}, or start with another checkpointLocation."
            )
        # Without a seam no task reports what it reads. So the tail would grow, and another seam could not use the ends.
        ends, is_unused = self.ends if seam is not None else None, overlap_ms is None and seam is None
        return replace(self, overlap_ms=overlap_ms, seam=seam, ends=ends, tail={} if is_unused else self.tail)

    def _covers(self, overlap_ms: int) -> bool:
        if self.overlap_ms is None:
            return self.ends is None and bool(self.tail)
        return overlap_ms <= self.overlap_ms

    @property
    def _seam(self) -> str:
        if self.ends is not None:
            return "an exact seam"
        return "no overlap" if self.overlap_ms is None else f"an overlap of {self.overlap_ms} ms"

    @property
    def _remedy(self) -> str:
        if self.ends is not None:
            return "Give the exact seam again"
        return "Leave the overlap out" if self.overlap_ms is None else "Give that overlap again"


class SourceEndRecorder:
    """Records the :class:`SourceEnd` of the active source.

    Args:
        end: The end as the checkpoint has it.
    """

    def __init__(self, end: SourceEnd) -> None:
        self._end = end
        self._seen: dict[str, int] = {}
        self._offered: dict[str, int] = {}
        self._reported: dict[str, list[tuple[int, int]]] = {}

    def record_ranges(
        self, positions: Mapping[HybridSourceSplit, int | None], ranges: Mapping[str, SplitRange]
    ) -> None:
        """Records the ranges that can be read now.

        Args:
            positions: The position of each split; ``None`` if it was not read yet.
            ranges: The ranges, by split id of the active source.
        """
        self._seen = {split.serialized.id: self._seen.get(split.serialized.id, -1) for split in positions}
        tail = dict(self._end.tail)
        for split, position in positions.items():
            name = split.serialized.id
            if (r := ranges.get(name)) is None:
                continue
            self._seen[name] = max(self._seen[name], r.position)
            self._offered[name] = r.end
            if self._keeps_splits and (name in tail or position is None):
                tail[name] = replace(
                    tail.get(name, TailSplit(split.serialized, r.position, r.end)), end=r.end
                )
        if self._end.ends is not None:
            tail = {name: t for name, t in tail.items() if name in self._seen or t.begin < t.end}
        if tail != self._end.tail:
            self._end = replace(self._end, tail=tail)

    @property
    def _keeps_splits(self) -> bool:
        return self._end.overlap_ms is not None or self._end.ends is not None

    def record_report(self, read: SourceRangesRead) -> None:
        """Records the report of a task.

        ``begin`` of a split moves up to the end of the reported ranges that follow it without a gap.
        """
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
        """Returns the ranges that are not empty and have event times that were not checked."""
        return {
            name: r for name, r in ranges.items() if r.position < r.end and self._seen.get(name, -1) < r.end
        }

    def record_event_times(self, ranges: Mapping[str, SplitRange], times: Mapping[str, EventTimes]) -> None:
        """Records the event times of ranges."""
        reaches = {name: t.reach for name, t in times.items() if t.reach is not None}
        for name, r in ranges.items():
            if name in times:
                self._seen[name] = max(self._seen.get(name, -1), r.end)
        greatest = _greatest_known([self._end.greatest, *reaches.values()])
        tail = {
            name: replace(t, reach=_greatest_known([t.reach, reaches.get(name)]))
            for name, t in self._end.tail.items()
        }
        self._end = replace(self._end, greatest=greatest, tail=self._pruned(tail, greatest))

    def record_aligned_plan(self, ranges: Mapping[str, SplitRange], times: Mapping[str, EventTimes]) -> None:
        """Records the event times of an aligned plan, which does not read splits without known event times."""
        self.record_event_times(ranges, times)
        for name in ranges.keys() - times.keys():
            self._offered.pop(name, None)

    def end(self) -> SourceEnd:
        """Returns the end of the source, assuming that the last ranges passed to :meth:`record_ranges` are read.

        Raises:
            ConnectorError: Too many splits would have to be read again.
        """
        if not self._end.blind and any(self._seen.get(name, -1) < end for name, end in self._offered.items()):
            self._end = replace(self._end, blind=True)
        self._offered.clear()
        if len(self._end.tail) > _MOST_SPLITS:
            raise ConnectorError(
                f"More than {_MOST_SPLITS} splits of a source would have to be read again for the next source: they "
                "have, or may have, rows within the overlap. Sort the source by event time, choose a shorter overlap, "
                "or name the column of event time."
                if self._end.ends is None
                else f"For more than {_MOST_SPLITS} splits of a source no task reported the positions of rows, which "
                "an exact seam needs. Let tasks reach the driver (spark.driver.host), or read fewer files at once."
            )
        return self._end

    def _pruned(self, tail: Mapping[str, TailSplit], greatest: int | None) -> dict[str, TailSplit]:
        """Returns the splits that reach into the overlap. Twice the overlap is kept, for rows with late event times."""
        if greatest is None or self._end.overlap_ms is None:
            return dict(tail)
        least = greatest - 2 * self._end.overlap_ms
        return {name: t for name, t in tail.items() if t.reach is None or t.reach >= least}


def _greatest_known(times: Iterable[int | None]) -> int | None:
    return max((t for t in times if t is not None), default=None)
