"""Positions by event time in Kafka: the splits of one plan are searched in step, one request per leader and step.

A search of one split is a generator. It yields what it wants to know, a :class:`Lookup` in the broker's time index or a
:class:`Read` of the log, and gets the answer, or ``None`` if the leader gave none. What a search reads is kept in a
:class:`EventTimeCache` for the next searches and plans, so a piece of log is fetched once while it lasts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP, FetchFrom, OffsetAndTimestamp
from flip27_stream.connectors.kafka.planning.event_time_cache import Chunk, EventTimeCache, Hit
from flip27_stream.connectors.kafka.planning.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.planning.unanswered import Unanswered
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition

_PROBE_BYTES = 32 << 10
_SCAN_BYTES = 1 << 20
_TAIL_RECORDS = 64
_TAIL_TRIES = 6
_NEAR = 256
_CACHED_RECORDS = 4_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class Lookup:
    """The first record with a timestamp (ms) at or above this one, in the whole log, or :data:`MAX_TIMESTAMP`."""

    timestamp: int


@dataclass(frozen=True)
class Read:
    """Records from an offset on."""

    offset: int
    max_bytes: int = _PROBE_BYTES


Ask = Lookup | Read
Answer = OffsetAndTimestamp | Chunk | None
Search = Generator[Ask, Answer, T]


class KnownPositions:
    """The answers of one plan about one split, kept monotone: what lies between two equal ones needs no search."""

    def __init__(self, position: int, limit: int) -> None:
        self._position = position
        self._limit = limit
        self._times: list[int] = []
        self._positions: list[int] = []

    def bounds(self, event_time: int) -> tuple[int, int]:
        """Between which positions the answer lies; no record before the first is at or above ``event_time``."""
        at = bisect_left(self._times, event_time)
        if at < len(self._times) and self._times[at] == event_time:
            return self._positions[at], self._positions[at]
        low = self._positions[at - 1] if at else self._position
        return low, self._positions[at] if at < len(self._times) else self._limit

    def learn(self, event_time: int, position: int) -> None:
        """An answer; where an earlier one of a smaller event time lies behind it, that one stands for both."""
        at = bisect_left(self._times, event_time)
        if at == len(self._times) or self._times[at] != event_time:
            self._times.insert(at, event_time)
            self._positions.insert(at, max([position, *self._positions[max(at - 1, 0) : at]]))


class SplitSearch:
    """One split in one plan.

    ``latest_plausible`` (ms, or ``None``) bounds the event times believed, ``limit`` the positions that matter.
    """

    def __init__(
        self,
        position: int,
        end: int,
        request: PositioningRequest,
        scanned: EventTimeCache,
        locator: Locator,
    ) -> None:
        self.position = position
        self.end = end
        self.limit = end if request.budget is None else min(end, position + request.budget)
        self.latest_plausible = request.plausible_until
        self.scanned = scanned
        self._locator = locator
        self._known = KnownPositions(position, self.limit)

    def event_times(self) -> Search[EventTimes | None]:
        """First and greatest event time; ``None`` if the leader did not answer."""
        first = yield from self.scan(self.position, self.end, 0)
        if first.time is None:
            return EventTimes(None, None) if first.offset >= self.end else None
        self._learn(0, first)
        if self.scanned.known_until(first.offset) < self.end:
            yield from self._locator.look_for_greatest(self, first.offset)
        return EventTimes(first.time, self.scanned.greatest(self.position, self.end, self.latest_plausible))

    def first_at_or_after(self, event_time: int) -> Search[int]:
        """The first position with an event time at or above this one."""
        event_time = max(event_time, 0)
        low, high = self._known.bounds(event_time)
        if low >= high:
            return min(low, self.limit)
        if self.latest_plausible is not None and event_time > self.latest_plausible:
            return high
        hit = self.known(low, high, event_time)
        if hit.time is None and hit.offset < high:
            low = yield from self._locator.skip(self, hit.offset, high, event_time)
            hit = yield from self.scan(low, high, event_time)
        self._learn(event_time, hit)
        return hit.offset

    def known(self, low: int, high: int, event_time: int) -> Hit:
        """The first record from ``low`` at or above ``event_time`` in what was read already, or the first gap there."""
        return self.scanned.first(low, high, event_time, self.latest_plausible)

    def scan(self, low: int, high: int, event_time: int) -> Search[Hit]:
        """Read forward to the first record at or above ``event_time``; without one the hit is at ``high``, or at the
        place where the leader gave no answer."""
        size = _PROBE_BYTES
        while True:
            hit = self.known(low, high, event_time)
            if hit.time is not None or hit.offset >= high:
                return hit
            low = hit.offset
            if not (yield from self.read(low, size)):
                return hit
            size = min(size * 4, _SCAN_BYTES)

    def read(self, offset: int, max_bytes: int = _PROBE_BYTES) -> Search[bool]:
        """Read some records at ``offset``; whether there was an answer."""
        chunk = yield Read(offset, max_bytes)
        if not isinstance(chunk, Chunk):
            return False
        self.scanned.add(chunk)
        return True

    def look_at_tail(self, first: int) -> Search[None]:
        """Read some records before the end, farther back until one of them has an event time."""
        back = _TAIL_RECORDS
        for _ in range(_TAIL_TRIES):
            start = max(first, self.end - back)
            if start == first or self.scanned.greatest(start, self.end, self.latest_plausible) is not None:
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
    """How to skip what lies before an event time without reading it; this one reads everything."""

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        """A position from ``low`` on; no record between the two is at or above ``event_time``."""
        return low
        yield Lookup(0)

    def look_for_greatest(self, search: SplitSearch, first: int) -> Search[None]:
        """Bring a record with an event time as late as possible into what was read."""
        yield from search.look_at_tail(first)


class TimestampIndex(Locator):
    """Event time is the record's timestamp: the broker's index (ListOffsets) knows where it lies.

    Its answer is the first record of the whole log, and may be a transaction marker, an aborted record, one from the
    far future, or one below the position. So it only says where to begin reading, or that there is nothing; the record
    itself is read before it counts.
    """

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        answer = yield Lookup(event_time)
        if not isinstance(answer, OffsetAndTimestamp):
            return low
        return high if answer.offset < 0 else max(low, min(answer.offset, high))

    def look_for_greatest(self, search: SplitSearch, first: int) -> Search[None]:
        answer = yield Lookup(MAX_TIMESTAMP)
        if isinstance(answer, OffsetAndTimestamp) and first <= answer.offset < search.end:
            hit = yield from search.scan(answer.offset, answer.offset + 1, answer.timestamp)
            if hit.time is not None:
                return
        yield from search.look_at_tail(first)


class Bisection(Locator):
    """Event time is in the payload: bisect by small reads.

    With event times that fall back by at most B, nothing before a record below H - B is at or above H. Where the data
    break that promise, a record may be read too early, but no answer moves backwards.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        floor = event_time - self._bound
        start, band = low, high
        for chunk in search.scanned.within(low, high):
            below = chunk.last_below(floor)
            low = low if below is None else below + 1
        for chunk in search.scanned.within(low, high):
            if chunk.first(floor, search.latest_plausible) is not None:
                band = max(low, chunk.start)
                break
        while band - low > _NEAR:
            middle = (low + band) // 2
            if search.scanned.known_until(middle) == middle and not (yield from search.read(middle)):
                break
            chunk = next(search.scanned.within(middle, band))
            below = chunk.last_below(floor)
            if below is None:
                band = middle
            else:
                low = below + 1
        return max(start, low)


class KafkaEventTimePositions(EventTimePositions):
    """Positions within the ranges of one plan."""

    def __init__(self, searches: Mapping[TopicPartition, SplitSearch], finder: PositionFinder) -> None:
        self._searches = searches
        self._run = finder.run
        self._event_times: dict[str, EventTimes] | None = None

    def event_times(self) -> Mapping[str, EventTimes]:
        if self._event_times is None:
            found = self._run({tp: search.event_times() for tp, search in self._searches.items()})
            self._event_times = {str(tp): times for tp, times in found.items() if times is not None}
        return self._event_times

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        known = self.event_times()
        searches = {tp: search for tp, search in self._searches.items() if str(tp) in known}
        found = self._run({tp: search.first_at_or_after(event_time) for tp, search in searches.items()})
        return {str(tp): (position, position - searches[tp].position) for tp, position in found.items()}


class PositionFinder:
    """Makes the :class:`EventTimePositions` of each plan; what was read stays from plan to plan."""

    def __init__(
        self,
        client: KafkaClient,
        probe: EventTimeProbe,
        locator: Locator,
        *,
        read_committed: bool,
        unanswered: Unanswered | None = None,
    ) -> None:
        self._client = client
        self._unanswered = unanswered
        self._read: set[TopicPartition] = set()
        self._unread: set[TopicPartition] = set()
        self._probe = probe
        self._locator = locator
        self._read_committed = read_committed
        self._scanned: dict[TopicPartition, EventTimeCache] = {}
        self._topic_ids: dict[TopicPartition, str] = {}

    def forget(self, tp: TopicPartition) -> None:
        """Its log is another one now, or has lost records."""
        self._scanned.pop(tp, None)

    def positions(
        self, splits: Mapping[str, KafkaPartitionSplit], request: PositioningRequest
    ) -> KafkaEventTimePositions:
        """Positions in the ranges of ``request``; ``splits`` are those ranges' splits, by id, as readers get
        them.

        Raises:
            UnreachableError: a partition could not be read for too long, though its leader may tell where its log ends.
        """
        self._note_unread()
        share = _CACHED_RECORDS // max(1, len(splits))
        searches = {}
        for split_id, span in request.ranges.items():
            tp = splits[split_id].topic_partition
            self._topic_ids[tp] = splits[split_id].topic_id
            scanned = self._scanned.setdefault(tp, EventTimeCache())
            scanned.trim(span.position, share)
            searches[tp] = SplitSearch(span.position, span.end, request, scanned, self._locator)
        return KafkaEventTimePositions(searches, self)

    def run(self, searches: Mapping[TopicPartition, Search[T]]) -> dict[TopicPartition, T]:
        """Run searches to their ends, answering what all of them ask in one round."""
        results: dict[TopicPartition, T] = {}
        running = dict(searches)
        answers: dict[TopicPartition, Answer] = {}
        while running:
            asked: dict[TopicPartition, Ask] = {}
            for tp, search in list(running.items()):
                try:
                    asked[tp] = search.send(answers.get(tp))
                except StopIteration as done:  # noqa: PERF203 - how a generator returns
                    results[tp] = done.value
                    del running[tp]
            answers = self._answer(asked)
        return results

    def _answer(self, asked: Mapping[TopicPartition, Ask]) -> dict[TopicPartition, Answer]:
        lookups = {tp: ask.timestamp for tp, ask in asked.items() if isinstance(ask, Lookup)}
        reads = {
            tp: FetchFrom(ask.offset, ask.max_bytes, self._topic_ids.get(tp, ""))
            for tp, ask in asked.items()
            if isinstance(ask, Read)
        }
        answers: dict[TopicPartition, Answer] = {}
        if lookups:
            answers.update(self._client.list_offsets(lookups, read_committed=self._read_committed)[0])
        if reads:
            chunks = self._probe.read(reads)
            self._read |= reads.keys()
            self._unread = (self._unread | reads.keys()) - chunks.keys() - self._probe.out_of_range
            answers.update(chunks)
        return answers

    def _note_unread(self) -> None:
        """What came of the fetches of the last plan."""
        if self._unanswered is not None:
            self._unanswered.note(self._read, self._read - self._unread)
        self._read, self._unread = set(), set()
