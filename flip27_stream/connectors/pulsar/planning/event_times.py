"""Positions by event time.

The first messages of a range are read. A position after them is found by publish time, for which the broker has a
search. If event time is the publish time, one such search finds the position. Otherwise the publish times up to the end
are bisected, and from the position that is found messages are read up to the first one at or after the event time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest, SplitRange
from flip27_stream.arrays import Int64s
from flip27_stream.connectors.pulsar.planning.partition_log import PartitionLog
from flip27_stream.connectors.pulsar.planning.scan import event_times
from flip27_stream.connectors.pulsar.positions import position_of
from flip27_stream.connectors.pulsar.records.columns import is_publish_time, rows_of
from flip27_stream.threads import CallPool

_SCANNED = 2000
_PAGE = 500
_MOST_READ = 20_000
"""The greatest number of messages that are read one after the other to find a position."""
_SAMPLE = 20


class SplitEventTimes:
    """The event times of one partition within one range."""

    def __init__(self, log: PartitionLog, r: SplitRange, request: PositioningRequest) -> None:
        self._log = log
        self._end = r.end
        self._request = request
        budget = request.budget if request.budget is not None else _SCANNED
        log.scan_to(min(budget, _SCANNED) + 1, r.end)
        self._times = self._scanned()
        self._positions = list(log.scan.positions)
        self._behind = log.scan.behind
        self._rows = r.cost
        self._found: dict[int, tuple[int, int]] = {}
        self._samples: dict[int, tuple[int, int] | None] = {}
        known = self._times[self._times >= 0]
        first = int(known[0]) if len(known) else self._first_time_behind()
        reached = (first, int(known.max()) if len(known) else None, self._last_time())
        self.times = EventTimes(first, max((time for time in reached if time is not None), default=None))

    def _first_time_behind(self) -> int | None:
        """Returns the event time (ms) of the first message behind the scan that has one; ``None`` without such a one.

        The messages are not kept, because there may be any number of them. Not more than the budget are looked at.
        """
        at, budget = self._behind, self._request.budget
        left = math.inf if budget is None else budget - len(self._times)
        while at < self._end and left > 0:
            messages = list(self._log.client.read(self._log.topic, at, _SCANNED, self._end))
            if not messages:
                break
            times = self._times_of(messages)
            if (times >= 0).any():
                return int(times[times >= 0][0])
            at, left = position_of(messages[-1].message_id()) + 1, left - len(messages)
        return None

    def _scanned(self) -> Int64s:
        request, scan = self._request, self._log.scan
        times = scan.event_times(request.timestamp_assigner, request.plausible_until)
        return times[: int(np.searchsorted(np.array(scan.positions, dtype=object), self._end))]

    def _last_time(self) -> int | None:
        last = self._log.last
        if last is None or not self._behind <= position_of(last.message_id()) < self._end:
            return None
        time = int(self._times_of([last])[0])
        return time if time >= 0 else None

    def _times_of(self, messages: list[object]) -> Int64s:
        rows, published = rows_of(messages)
        return event_times(rows, published, self._request.timestamp_assigner, self._request.plausible_until)

    @property
    def _is_complete(self) -> bool:
        return self._behind >= self._end

    def rows_before(self, event_time: int) -> int:
        """Returns the estimated number of messages before the first one at or after ``event_time`` (ms).

        The number is exact among the messages that were read. The event times of later messages are assumed to rise
        evenly.
        """
        reached = np.flatnonzero(self._times >= event_time)
        if len(reached):
            return int(reached[0])
        count, last = len(self._times), self.times.reach
        if self._is_complete or last is None or event_time > last:
            return max(self._rows, count)
        known = self._times[self._times >= 0]
        first = int(known.max()) if len(known) else self.times.next or last
        part = (event_time - first) / max(last - first, 1)
        return count + int((max(self._rows, count) - count) * min(max(part, 0.0), 1.0))

    def first_at_or_after(self, event_time: int) -> tuple[int, int]:
        """Returns the position of the first message at or after ``event_time`` (ms), and the number of rows before."""
        reached = np.flatnonzero(self._times >= event_time)
        if len(reached):
            return self._positions[int(reached[0])], int(reached[0])
        if self._is_complete:
            return self._end, len(self._times)
        if event_time not in self._found:
            position = self._search(event_time)
            self._found[event_time] = position, max(self._log.rows_to(position), len(self._times))
        return self._found[event_time]

    def _search(self, event_time: int) -> int:
        at = max(self._below(event_time - self._request.max_out_of_orderness_ms), self._behind)
        most = 0
        while at < self._end and most < _MOST_READ:
            messages = list(self._log.client.read(self._log.topic, at, _PAGE, self._end))
            if not messages:
                return self._end
            reached = np.flatnonzero(self._times_of(messages) >= event_time)
            if len(reached):
                return min(position_of(messages[int(reached[0])].message_id()), self._end)
            at, most = position_of(messages[-1].message_id()) + 1, most + len(messages)
        return min(at, self._end)

    def _below(self, event_time: int) -> int:
        """Returns a position before which all event times are less than ``event_time`` (ms).

        It assumes that the event times of the partition never decrease.
        """
        client, topic = self._log.client, self._log.topic
        last = self._log.last
        if is_publish_time(self._request.timestamp_assigner):
            if last is not None and event_time > last.publish_timestamp():
                return self._end
            found = client.at_publish_time(topic, event_time)
            return position_of(found[0].message_id()) if found else self._end
        low, high = self._log.scan.last_published, 0 if last is None else last.publish_timestamp()
        below = self._behind
        while high - low > 1:
            middle = (low + high) // 2
            sample = self._sample(middle)
            if sample is None or sample[1] >= event_time:
                high = middle
            else:
                low, below = middle, sample[0]
        return below

    def _sample(self, published: int) -> tuple[int, int] | None:
        """Returns a sample of the messages that were published at ``published`` (ms) or later.

        The sample is the position of the first of them, and the first event time (ms) among them; it is ``None`` if
        none of the first messages has an event time.
        """
        if published not in self._samples:
            log = self._log
            messages = list(log.client.at_publish_time(log.topic, published, _SAMPLE, until=self._end))
            times = self._times_of(messages) if messages else np.empty(0, np.int64)
            known = np.flatnonzero(times >= 0)
            self._samples[published] = (
                (position_of(messages[0].message_id()), int(times[int(known[0])])) if len(known) else None
            )
        return self._samples[published]


class PulsarEventTimes(EventTimePositions):
    """Positions by event time within the ranges of one plan."""

    def __init__(self, pool: CallPool, splits: Mapping[str, Callable[[], SplitEventTimes]]) -> None:
        self._pool = pool
        self._splits = pool.results(splits)

    def event_times(self) -> Mapping[str, EventTimes]:
        return {name: split.times for name, split in self._splits.items()}

    def rows_before(self, event_time: int) -> Mapping[str, int]:
        return {name: split.rows_before(event_time) for name, split in self._splits.items()}

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        calls = {name: partial(split.first_at_or_after, event_time) for name, split in self._splits.items()}
        return self._pool.results(calls)
