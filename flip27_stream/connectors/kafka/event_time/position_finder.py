"""Positions by event time in Kafka, if event times are in the payload of records.

The searches of all splits of one plan run together, with one request per leader and step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest, SplitRange
from flip27_stream.connectors.kafka.event_time.event_time_cache import EventTimeCache
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.event_time.positions import (
    Locator,
    LogRead,
    Lookup,
    Search,
    SearchAnswer,
    SearchRequest,
    SplitSearch,
)
from flip27_stream.connectors.kafka.split import TopicPartition

_CACHED_RECORDS = 4_000_000

T = TypeVar("T")


class KafkaEventTimePositions(EventTimePositions):
    """Positions by event time within the ranges of one plan."""

    def __init__(
        self, partitions: Mapping[str, TopicPartition], request: PositioningRequest, finder: PositionFinder
    ) -> None:
        self._finder = finder
        self._searches = {
            tp: finder.search(tp, request.ranges[split], request) for split, tp in partitions.items()
        }
        self._event_times: dict[TopicPartition, EventTimes] | None = None

    def event_times(self) -> Mapping[str, EventTimes]:
        return {str(tp): times for tp, times in self._times().items()}

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        searches = {tp: self._searches[tp] for tp in self._times()}
        found = self._finder.run(
            {tp: search.first_at_or_after(event_time) for tp, search in searches.items()}
        )
        return {str(tp): (at, at - searches[tp].position) for tp, at in found.items()}

    def _times(self) -> dict[TopicPartition, EventTimes]:
        if self._event_times is None:
            found = self._finder.run({tp: search.event_times() for tp, search in self._searches.items()})
            self._event_times = {tp: times for tp, times in found.items() if times is not None}
        return self._event_times


class PositionFinder:
    """Makes the :class:`EventTimePositions` of each plan, and keeps the event times that were read from plan to plan.

    Args:
        reads: Sends the requests.
        locator: Finds the offset at which to begin reading.
    """

    def __init__(self, reads: PositionReads, locator: Locator) -> None:
        self._reads = reads
        self._locator = locator
        self._caches: dict[TopicPartition, EventTimeCache] = {}

    def forget(self, tp: TopicPartition) -> None:
        """Drops the known event times of a partition, because its log was replaced or has lost records."""
        self._caches.pop(tp, None)

    def positions(
        self,
        partitions: Mapping[str, TopicPartition],
        topic_ids: Mapping[TopicPartition, str],
        request: PositioningRequest,
    ) -> EventTimePositions:
        """Returns the positions in the ranges of ``request``.

        Args:
            partitions: The partitions of these ranges, by split id.
            topic_ids: The ids of their topics; empty for an id that is not known.
            request: The ranges, and the bounds of the searches.

        Raises:
            UnreachableError: A partition could not be read for too long, even if its leader answered about its end.
        """
        self._reads.begin(topic_ids)
        self._keep({tp: request.ranges[split].position for split, tp in partitions.items()})
        return KafkaEventTimePositions(partitions, request, self)

    def search(self, tp: TopicPartition, span: SplitRange, request: PositioningRequest) -> SplitSearch:
        """Returns the search in the range ``span`` of a partition, with the known event times of its records."""
        cache = self._caches.setdefault(tp, EventTimeCache())
        return SplitSearch(span.position, span.end, request, cache, self._locator)

    def _keep(self, positions: Mapping[TopicPartition, int]) -> None:
        """Keeps the event times of records at or after the position of their partition, and drops the others."""
        share = _CACHED_RECORDS // max(1, len(positions))
        for tp in self._caches.keys() & positions.keys():
            self._caches[tp].trim(positions[tp], share)

    def run(self, searches: Mapping[TopicPartition, Search[T]]) -> dict[TopicPartition, T]:
        """Runs searches to their ends, and returns their results.

        The requests of all searches are sent together in each step.
        """
        results: dict[TopicPartition, T] = {}
        running = dict(searches)
        answers: dict[TopicPartition, SearchAnswer] = {}
        while running:
            asked: dict[TopicPartition, SearchRequest] = {}
            for tp, search in list(running.items()):
                try:
                    asked[tp] = search.send(answers.get(tp))
                except StopIteration as done:  # noqa: PERF203 - how a generator returns
                    results[tp] = done.value
                    del running[tp]
            answers = self._answer(asked)
        return results

    def _answer(self, asked: Mapping[TopicPartition, SearchRequest]) -> dict[TopicPartition, SearchAnswer]:
        lookups = {tp: ask.timestamp for tp, ask in asked.items() if isinstance(ask, Lookup)}
        reads = {tp: (ask.offset, ask.max_bytes) for tp, ask in asked.items() if isinstance(ask, LogRead)}
        answers: dict[TopicPartition, SearchAnswer] = {}
        if lookups:
            answers.update(self._reads.lookups(lookups))
        if reads:
            answers.update(self._reads.chunks(reads))
        return answers
