"""What is known of the event times in a partition: pieces of its log that were looked at, kept as two columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

NO_EVENT_TIME = -1
"""Stands for a missing or negative event time in a column of event times (ms)."""

Longs = npt.NDArray[np.int64]


class Hit(NamedTuple):
    """Where a search ended: at a record with an event time, or with ``None`` at the first offset not known."""

    offset: int
    time: int | None


@dataclass(frozen=True)
class Chunk:
    """The data records with ``start`` <= offset < ``stop``: their offsets, ascending, and event times (ms)."""

    start: int
    stop: int
    offsets: Longs
    times: Longs

    def between(self, start: int, stop: int) -> Chunk:
        """The part of this chunk in a range of offsets."""
        if start <= self.start and self.stop <= stop:
            return self
        start, stop = max(start, self.start), min(stop, self.stop)
        first, end = np.searchsorted(self.offsets, (start, stop))
        return Chunk(start, stop, self.offsets[first:end], self.times[first:end])

    def first(self, at_least: int, at_most: int | None) -> Hit | None:
        """The first record with an event time in these bounds."""
        found = self.times >= max(at_least, 0)
        if at_most is not None:
            found &= self.times <= at_most
        index = int(found.argmax()) if len(found) else 0
        if not len(found) or not found[index]:
            return None
        return Hit(int(self.offsets[index]), int(self.times[index]))

    def last_below(self, event_time: int) -> int | None:
        """The offset of the last record that has an event time, one below ``event_time``."""
        found = np.flatnonzero((self.times >= 0) & (self.times < event_time))
        return int(self.offsets[found[-1]]) if len(found) else None

    def greatest(self, at_most: int | None) -> int | None:
        """The greatest event time, ``None`` if no record has one."""
        times = self.times if at_most is None else self.times[self.times <= at_most]
        greatest = int(times.max()) if len(times) else NO_EVENT_TIME
        return greatest if greatest >= 0 else None


class EventTimeCache:
    """The chunks known of one partition; they never overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return sum(len(chunk.offsets) for chunk in self._chunks)

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk; what is known already of its range stays."""
        for start, stop in list(self._gaps(chunk.start, chunk.stop)):
            at = bisect_right(self._starts, start)
            self._starts.insert(at, start)
            self._chunks.insert(at, chunk.between(start, stop))

    def first(self, low: int, high: int, at_least: int, at_most: int | None) -> Hit:
        """The first event time in these bounds from ``low`` to ``high``, as far as known without a gap.

        Without one: the first gap, or ``high``.
        """
        for chunk in self._from(low):
            if chunk.start > low or low >= high:
                break
            hit = chunk.between(low, high).first(at_least, at_most)
            if hit is not None:
                return hit
            low = chunk.stop
        return Hit(min(low, high), None)

    def known_until(self, low: int) -> int:
        """The first offset from ``low`` on that nothing is known of."""
        for chunk in self._from(low):
            if chunk.start > low:
                break
            low = chunk.stop
        return low

    def within(self, low: int, high: int) -> Iterator[Chunk]:
        """What is known of a range, in order, with gaps."""
        for chunk in self._from(low):
            if chunk.start >= high:
                return
            yield chunk.between(low, high)

    def greatest(self, low: int, high: int, at_most: int | None) -> int | None:
        """The greatest event time known in a range."""
        known = (chunk.greatest(at_most) for chunk in self.within(low, high))
        return max((time for time in known if time is not None), default=None)

    def trim(self, position: int, most: int) -> None:
        """Forget what lies before ``position``, and the farthest if there are more than so many records."""
        kept = list(self.within(position, 2**63 - 1))
        while kept and sum(len(chunk.offsets) for chunk in kept) > most:
            kept.pop()
        self._chunks = kept
        self._starts = [chunk.start for chunk in kept]

    def _from(self, offset: int) -> Iterator[Chunk]:
        """The chunk that contains ``offset``, if there is one, and those behind it."""
        at = bisect_right(self._starts, offset) - 1
        if at >= 0 and self._chunks[at].stop > offset:
            yield self._chunks[at]
        yield from self._chunks[at + 1 :]

    def _gaps(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        for chunk in self._from(low):
            if chunk.start >= high:
                break
            if low < chunk.start:
                yield low, chunk.start
            low = chunk.stop
        if low < high:
            yield low, high
