"""Positions by event time in Kafka, if event times are the timestamps of records.

All splits are searched together (:class:`LogSearch`), and most batches are known by their headers
(:class:`KnownBatches`). The result for a split equals that of a search in its records (:class:`SplitSearch`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import compress

import numpy as np

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest
from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.event_time.batch_search import NO_TIME
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.known_batches import KnownBatches
from flip27_stream.connectors.kafka.event_time.log_search import Answer, LogSearch
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.in_order import values_of

_LARGEST = 2**63 - 1


class TimestampFinder:
    """Makes the :class:`TimestampPositions` of each plan, and keeps the batches that were read from plan to plan.

    Args:
        probe: Fetches batches.
        reads: Sends the requests.
    """

    def __init__(self, probe: EventTimeProbe, reads: PositionReads) -> None:
        self._known = KnownBatches(probe)
        self._reads = reads

    def forget(self, tp: TopicPartition) -> None:
        """Drops the known batches of a partition, because its log was replaced or has lost records."""
        self._known.forget(tp)

    def positions(
        self,
        partitions: Mapping[str, TopicPartition],
        topic_ids: Mapping[TopicPartition, str],
        request: PositioningRequest,
    ) -> TimestampPositions:
        """Returns the positions in the ranges of ``request``; see :meth:`PositionFinder.positions`."""
        self._reads.begin(topic_ids)
        return TimestampPositions(partitions, request, self._known, self._reads)


class TimestampPositions(EventTimePositions):
    """Positions by the timestamps of records within the ranges of one plan.

    Args:
        partitions: The partitions by split id.
        request: The ranges, and the bounds of the searches.
        known: The batches that earlier plans have read.
        reads: Sends the requests.
    """

    def __init__(
        self,
        partitions: Mapping[str, TopicPartition],
        request: PositioningRequest,
        known: KnownBatches,
        reads: PositionReads,
    ) -> None:
        self._splits = list(partitions)
        spans = values_of(self._splits, request.ranges)
        self._starts = np.fromiter([span.position for span in spans], np.int64, len(spans))
        self._ends = np.fromiter([span.end for span in spans], np.int64, len(spans))
        self._limits = self._ends
        if request.budget is not None:
            budget = min(request.budget, _LARGEST)
            self._limits = self._starts + np.minimum(self._ends - self._starts, budget)
        self._search = LogSearch(known, reads, request.plausible_until)
        self._is_known = np.ones(len(spans), bool)
        self._event_times: dict[str, EventTimes] | None = None
        self._asked: list[int] = []
        self._answers: list[Answer] = []
        known.keep(list(partitions.values()), self._starts, self._search.plausible_until)

    def event_times(self) -> Mapping[str, EventTimes]:
        if self._event_times is None:
            self._event_times = self._find_event_times()
        return self._event_times

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        self.event_times()
        positions = self._positions_at(max(event_time, 0))
        rows = (positions - self._starts).tolist()
        answers = zip(self._splits, zip(positions.tolist(), rows, strict=True), strict=True)
        return dict(answers if self._is_known.all() else compress(answers, self._is_known.tolist()))

    def _find_event_times(self) -> dict[str, EventTimes]:
        first = self._search.first(0, self._starts, self._ends)
        has_time = first.times != NO_TIME
        self._is_known = has_time | (first.positions >= self._ends)
        self._asked, self._answers = [0], [Answer(np.minimum(first.positions, self._limits), first.times)]
        reach = np.maximum(self._search.greatest(self._starts, self._ends, first), first.times)
        times = map(EventTimes, first.times.tolist(), reach.tolist())
        if has_time.all():
            return dict(zip(self._splits, times, strict=True))
        nothing, has = EventTimes(None, None), has_time.tolist()
        known = [each if is_timed else nothing for each, is_timed in zip(times, has, strict=True)]
        return dict(compress(zip(self._splits, known, strict=True), self._is_known.tolist()))

    def _positions_at(self, event_time: int) -> Int64s:
        """Returns the first position of each log at or above ``event_time`` (ms), at most its limit.

        The answers for other event times bound the search, so positions never fall as the event time grows.
        """
        at = bisect_left(self._asked, event_time)
        if at < len(self._asked) and self._asked[at] == event_time:
            return self._answers[at].positions
        high = self._answers[at].positions if at < len(self._asked) else self._limits
        if event_time > self._search.plausible_until:
            return high
        below = self._answers[at - 1]
        is_same = below.times >= event_time
        low = np.where(is_same | ~self._is_known, high, below.positions)
        found = self._search.first(event_time, low, high)
        # fmt: off
        answer = Answer(
            np.where(is_same, below.positions, found.positions), np.where(is_same, below.times, found.times)
        )
        # fmt: on
        self._asked.insert(at, event_time)
        self._answers.insert(at, answer)
        return answer.positions
