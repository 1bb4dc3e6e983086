"""The known event times of a partition, by offset, in chunks of two columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flip27_stream.arrays import Int64s

NO_EVENT_TIME = -1
"""The value of a missing or negative event time in a column of event times (ms)."""


class Hit(NamedTuple):
    """The result of a search: a record and its event time (ms), or the first unknown offset and ``None``."""

    offset: int
    time: int | None


@dataclass(frozen=True)
class Chunk:
    """The data records with ``start`` <= offset < ``stop``.

    Attributes:
        start: The first offset of the chunk.
        stop: The end of the chunk (exclusive).
        offsets: The offsets of the data records, ascending.
        times: Their event times in ms, or :data:`NO_EVENT_TIME`.
    """

    start: int
    stop: int
    offsets: Int64s
    times: Int64s

    def between(self, start: int, stop: int) -> Chunk:
        """Returns the part of this chunk with ``start`` <= offset < ``stop``."""
        if start <= self.start and self.stop <= stop:
            return self
        start, stop = max(start, self.start), min(stop, self.stop)
        first, end = np.searchsorted(self.offsets, (start, stop))
        return Chunk(start, stop, self.offsets[first:end], self.times[first:end])

    def timed(self) -> Chunk:
        """Returns this chunk without the records that have no event time, which no search needs."""
        has_time = self.times >= 0
        if has_time.all():
            return self
        return Chunk(self.start, self.stop, self.offsets[has_time], self.times[has_time])

    def first(self, at_least: int, at_most: int | None) -> Hit | None:
        """Returns the first record with an event time (ms) from ``at_least`` to ``at_most``.

        Returns ``None`` if there is no such record.
        """
        found = self.times >= max(at_least, 0)
        if at_most is not None:
            found &= self.times <= at_most
        index = int(found.argmax()) if len(found) else 0
        if not len(found) or not found[index]:
            return None
        return Hit(int(self.offsets[index]), int(self.times[index]))

    def last_below(self, event_time: int) -> int | None:
        """Returns the offset of the last record with an event time below ``event_time`` (ms).

        Returns ``None`` if there is no such record.
        """
        found = np.flatnonzero((self.times >= 0) & (self.times < event_time))
        return int(self.offsets[found[-1]]) if len(found) else None

    def greatest(self, at_most: int | None) -> int | None:
        """Returns the greatest event time (ms) that is not above ``at_most``; ``None`` if no record has one."""
        times = self.times if at_most is None else self.times[self.times <= at_most]
        greatest = int(times.max()) if len(times) else NO_EVENT_TIME
        return greatest if greatest >= 0 else None


class EventTimeCache:
    """The known chunks of one partition; they do not overlap. Its length is the number of records with an event time.

    Records without an event time take no memory: the chunk that contains them is known, so they are not read again.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return sum(len(chunk.offsets) for chunk in self._chunks)

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk. Offsets that are known already keep their event times."""
        timed = chunk.timed()
        for start, stop in list(self._gaps(chunk.start, chunk.stop)):
            at = bisect_right(self._starts, start)
            self._starts.insert(at, start)
            self._chunks.insert(at, timed.between(start, stop))

    def first(self, low: int, high: int, at_least: int, at_most: int | None) -> Hit:
        """Returns the first record with ``low`` <= offset < ``high`` whose event time fits the bounds.

        If there is no such record before the first unknown offset, the result has that offset, or ``high``, and no
        time.

        Args:
            low: The first offset.
            high: The end of the offsets (exclusive).
            at_least: The least event time (ms).
            at_most: The greatest event time (ms); ``None`` for no bound.
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
        """Returns the first unknown offset at or after ``low``."""
        for chunk in self._from(low):
            if chunk.start > low:
                break
            low = chunk.stop
        return low

    def within(self, low: int, high: int) -> Iterator[Chunk]:
        """Yields the known chunks with ``low`` <= offset < ``high``, in order; there may be gaps between them."""
        for chunk in self._from(low):
            if chunk.start >= high:
                return
            yield chunk.between(low, high)

    def greatest(self, low: int, high: int, at_most: int | None) -> int | None:
        """Returns the greatest event time (ms) with ``low`` <= offset < ``high``; ``None`` if no time is known."""
        known = (chunk.greatest(at_most) for chunk in self.within(low, high))
        return max((time for time in known if time is not None), default=None)

    def trim(self, position: int, most: int) -> None:
        """Drops the records before ``position``, and the last chunks while there are more than ``most`` records."""
        kept = list(self.within(position, 2**63 - 1))
        records = sum(len(chunk.offsets) for chunk in kept)
        while records > most:
            records -= len(kept.pop().offsets)
        self._chunks = kept
        self._starts = [chunk.start for chunk in kept]

    def _from(self, offset: int) -> Iterator[Chunk]:
        """Yields the chunk that contains ``offset``, if it is known, and all later chunks."""
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
