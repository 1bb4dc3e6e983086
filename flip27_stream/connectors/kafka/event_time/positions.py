"""Searches for positions by event time in the log of one partition.

The search of one split is a generator. It yields a request, a :class:`Lookup` in the time index of the broker or a
:class:`LogRead`, and receives the answer, or ``None`` if the leader gave no answer. Records that were read are kept in
an :class:`EventTimeCache` for later searches and plans, so that they are not fetched twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from flip27_stream.api import EventTimes, PositioningRequest
from flip27_stream.connectors.kafka.client.protocol import OffsetAndTimestamp
from flip27_stream.connectors.kafka.event_time.event_time_cache import Chunk, EventTimeCache, Hit
from flip27_stream.connectors.kafka.event_time.position_reads import PROBE_BYTES, SCAN_BYTES

_TAIL_RECORDS = 64
_TAIL_TRIES = 6
_NEAR = 256

T = TypeVar("T")


@dataclass(frozen=True)
class Lookup:
    """A request for the first record of the log with a timestamp (ms) at or above ``timestamp`` (ListOffsets).

    With :data:`MAX_TIMESTAMP` it asks for the record with the greatest timestamp.
    """

    timestamp: int


@dataclass(frozen=True)
class LogRead:
    """A request to fetch records from ``offset`` on, ``max_bytes`` at most."""

    offset: int
    max_bytes: int = PROBE_BYTES


SearchRequest = Lookup | LogRead
SearchAnswer = OffsetAndTimestamp | Chunk | None
Search = Generator[SearchRequest, SearchAnswer, T]


class KnownPositions:
    """The positions by event time that one plan has found in one split, kept monotone in event time.

    If two event times have the same position, event times between them need no search.

    Args:
        position: The first offset of the range.
        limit: The end of the range (exclusive).
    """

    def __init__(self, position: int, limit: int) -> None:
        self._position = position
        self._limit = limit
        self._times: list[int] = []
        self._positions: list[int] = []

    def bounds(self, event_time: int) -> tuple[int, int]:
        """Returns two offsets; the position of ``event_time`` (ms) lies between them, or is one of them.

        No record before the first offset is at or above ``event_time``. Both are equal if the position is known.
        """
        at = bisect_left(self._times, event_time)
        if at < len(self._times) and self._times[at] == event_time:
            return self._positions[at], self._positions[at]
        low = self._positions[at - 1] if at else self._position
        return low, self._positions[at] if at < len(self._times) else self._limit

    def learn(self, event_time: int, position: int) -> None:
        """Adds a position of ``event_time`` (ms).

        A greater position of a smaller event time takes precedence over it.
        """
        at = bisect_left(self._times, event_time)
        if at == len(self._times) or self._times[at] != event_time:
            self._times.insert(at, event_time)
            self._positions.insert(at, max([position, *self._positions[max(at - 1, 0) : at]]))


class SplitSearch:
    """The searches in one split for one plan.

    Args:
        position: The first offset of the range.
        end: The end of the range, exclusively.
        request: The budget in records, and the bound on plausible event times.
        cache: The event times of the partition that are known.
        locator: Finds the offset at which to begin reading.

    Attributes:
        position: The first offset of the range.
        end: The end of the range, exclusively.
        limit: The greatest position that a search returns: ``end``, or less if the request has a budget.
        plausible_until: Event times after this time (ms) are ignored as implausible; ``None`` for no bound.
        cache: The event times of the partition that are known.
    """

    def __init__(
        self,
        position: int,
        end: int,
        request: PositioningRequest,
        cache: EventTimeCache,
        locator: Locator,
    ) -> None:
        self.position = position
        self.end = end
        self.limit = end if request.budget is None else min(end, position + request.budget)
        self.plausible_until = request.plausible_until
        self.cache = cache
        self._locator = locator
        self._known = KnownPositions(position, self.limit)

    def event_times(self) -> Search[EventTimes | None]:
        """Returns the first and the greatest known event time (ms); ``None`` if the leader did not answer."""
        first = yield from self.scan(self.position, self.end, 0)
        if first.time is None:
            return EventTimes(None, None) if first.offset >= self.end else None
        self._learn(0, first)
        if self.cache.known_until(first.offset) < self.end:
            yield from self._locator.look_for_greatest(self, first.offset)
        return EventTimes(first.time, self.cache.greatest(self.position, self.end, self.plausible_until))

    def first_at_or_after(self, event_time: int) -> Search[int]:
        """Returns the first position with an event time at or above ``event_time`` (ms), at most :attr:`limit`."""
        event_time = max(event_time, 0)
        low, high = self._known.bounds(event_time)
        if low >= high:
            return min(low, self.limit)
        if self.plausible_until is not None and event_time > self.plausible_until:
            return high
        hit = self.known(low, high, event_time)
        if hit.time is None and hit.offset < high:
            low = yield from self._locator.skip(self, hit.offset, high, event_time)
            hit = yield from self.scan(low, high, event_time)
        self._learn(event_time, hit)
        return hit.offset

    def known(self, low: int, high: int, event_time: int) -> Hit:
        """Returns the first known record at or above ``event_time`` (ms) from offset ``low`` up to ``high``.

        If there is no such record before the first unknown offset, the result has that offset, or ``high``, and no
        time.
        """
        return self.cache.first(low, high, event_time, self.plausible_until)

    def scan(self, low: int, high: int, event_time: int) -> Search[Hit]:
        """Reads forward from ``low`` and returns the first record at or above ``event_time`` (ms).

        If there is no such record, the result has the offset ``high`` and no time. If the leader gave no answer, it has
        the first unknown offset and no time.
        """
        size = PROBE_BYTES
        while True:
            hit = self.known(low, high, event_time)
            if hit.time is not None or hit.offset >= high:
                return hit
            low = hit.offset
            if not (yield from self.read(low, size)):
                return hit
            size = min(size * 4, SCAN_BYTES)

    def read(self, offset: int, max_bytes: int = PROBE_BYTES) -> Search[bool]:
        """Reads some records at ``offset``, ``max_bytes`` at most. Returns whether the leader answered."""
        chunk = yield LogRead(offset, max_bytes)
        if not isinstance(chunk, Chunk):
            return False
        self.cache.add(chunk)
        return True

    def look_at_tail(self, first: int) -> Search[None]:
        """Reads some records before the end of the range, and further back until one of them has an event time."""
        back = _TAIL_RECORDS
        for _ in range(_TAIL_TRIES):
            start = max(first, self.end - back)
            if start == first or self.cache.greatest(start, self.end, self.plausible_until) is not None:
                return
            gap = self.known(start, self.end, 0).offset
            if gap < self.end and not (yield from self.read(gap)):
                return
            back *= 8

    def _learn(self, event_time: int, hit: Hit) -> None:
        self._known.learn(event_time, hit.offset)
        if hit.time is not None:
            self._known.learn(hit.time, hit.offset)


class Locator:
    """Finds the offset at which to begin reading for an event time. This base class skips no records."""

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        """Returns an offset from ``low`` to ``high`` before which no record is at or above ``event_time`` (ms)."""
        return low
        yield Lookup(0)

    def look_for_greatest(self, search: SplitSearch, first: int) -> Search[None]:
        """Reads a record with an event time that is as late in the range as possible."""
        yield from search.look_at_tail(first)


class Bisection(Locator):
    """Locates event times that are part of the payload, by bisection with small reads.

    If event times fall back by at most B ms, no record before a record below H - B is at or above H. If the records
    break this bound, a record may be read too early, but no position moves backwards.

    Args:
        max_out_of_orderness_ms: The bound B, in ms.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        floor = event_time - self._bound
        start, band = low, high
        for chunk in search.cache.within(low, high):
            below = chunk.last_below(floor)
            low = low if below is None else below + 1
        for chunk in search.cache.within(low, high):
            if chunk.first(floor, search.plausible_until) is not None:
                band = max(low, chunk.start)
                break
        while band - low > _NEAR:
            middle = (low + band) // 2
            if search.cache.known_until(middle) == middle and not (yield from search.read(middle)):
                break
            chunk = next(search.cache.within(middle, band))
            below = chunk.last_below(floor)
            if below is None:
                band = middle
            else:
                low = below + 1
        return max(start, low)
