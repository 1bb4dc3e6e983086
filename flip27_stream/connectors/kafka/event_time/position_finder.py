"""Positions by event time in Kafka; all splits of one plan are searched together, one request per leader and step.

If event times are the timestamps of records, the first read of a plan decodes only the headers of record batches
(:class:`HeaderPositions`). Splits whose positions the headers do not prove are searched (:class:`SplitSearch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import compress
from typing import TypeVar

import numpy as np

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest, SplitRange
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.client.unanswered import UnansweredPartitions
from flip27_stream.connectors.kafka.event_time.event_time_cache import EventTimeCache
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.header_positions import HeaderPositions
from flip27_stream.connectors.kafka.event_time.positions import (
    PROBE_BYTES,
    Locator,
    LogRead,
    Lookup,
    Search,
    SearchAnswer,
    SearchRequest,
    SplitSearch,
)
from flip27_stream.connectors.kafka.event_time.undecoded_logs import UndecodedLogs
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.in_order import found_in, missing_from, values_of

_CACHED_RECORDS = 4_000_000

T = TypeVar("T")


class KafkaEventTimePositions(EventTimePositions):
    """Positions by event time within the ranges of one plan."""

    def __init__(
        self, partitions: Mapping[str, TopicPartition], request: PositioningRequest, finder: PositionFinder
    ) -> None:
        self._partitions = partitions
        self._request = request
        self._finder = finder
        self._searches: dict[str, SplitSearch] = {}
        self._event_times: dict[str, EventTimes] | None = None
        self._header_ids: list[str] = []
        self._by_header: HeaderPositions | None = None

    def event_times(self) -> Mapping[str, EventTimes]:
        if self._event_times is None:
            asked = self._finder.without_known_records(self._partitions, self._request.ranges)
            logs = self._finder.read_headers(asked)
            found = self._by_headers(logs) if logs.partitions else {}
            silent = set(map(str, asked.keys() - logs.answered))
            searches = self._search(missing_from(found, self._partitions) - silent)
            times = self._finder.run({tp: search.event_times() for tp, search in searches.items()})
            found.update({str(tp): known for tp, known in times.items() if known is not None})
            self._event_times = found
        return self._event_times

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        known = self.event_times()
        found: dict[str, tuple[int, int]] = {}
        if self._by_header is not None:
            positions, proven = self._by_header.first_at_or_after(event_time)
            answers = zip(positions.tolist(), self._by_header.rows_to(positions).tolist(), strict=True)
            found = dict(compress(zip(self._header_ids, answers, strict=True), proven.tolist()))
        searches = self._search(missing_from(found, known))
        behind = self._finder.run(
            {tp: search.first_at_or_after(event_time) for tp, search in searches.items()}
        )
        found.update({str(tp): (at, at - searches[tp].position) for tp, at in behind.items()})
        return found

    def _by_headers(self, logs: UndecodedLogs) -> dict[str, EventTimes]:
        """Returns the event times that are known from the headers of batches, by split id."""
        ranges, request = self._request.ranges, self._request
        self._header_ids = list(self._partitions)
        if logs.partitions != list(self._partitions.values()):
            split_of = dict(zip(self._partitions.values(), self._partitions, strict=True))
            self._header_ids = [split_of[tp] for tp in logs.partitions]
        spans = values_of(self._header_ids, ranges)
        starts = np.fromiter([span.position for span in spans], np.int64, len(spans))
        ends = np.fromiter([span.end for span in spans], np.int64, len(spans))
        found = HeaderPositions(logs.headers, starts, ends, request.budget, request.plausible_until)
        self._by_header = found
        times = map(EventTimes, found.next.tolist(), found.reach.tolist())
        return dict(compress(zip(self._header_ids, times, strict=True), found.known.tolist()))

    def _search(self, splits: Set[str]) -> dict[TopicPartition, SplitSearch]:
        """Returns the searches in ``splits``, which are kept for the whole plan."""
        wanted = [split for split in self._partitions if split in splits] if splits else []
        for split in wanted:
            if split not in self._searches:
                tp, span = self._partitions[split], self._request.ranges[split]
                self._searches[split] = self._finder.search(tp, span, self._request)
        return {self._partitions[split]: self._searches[split] for split in wanted}


class PositionFinder:
    """Makes the :class:`EventTimePositions` of each plan, and keeps the event times that were read from plan to plan.

    Args:
        client: Sends lookups in the time index of the brokers.
        probe: Fetches records and computes their event times.
        locator: Finds the offset at which to begin reading.
        read_committed: Whether the isolation level is ``read_committed``.
        unanswered: Raises an error if a partition cannot be read for too long.
        by_headers: Whether event times are the timestamps of records, so that the headers of batches have event times.
    """

    def __init__(
        self,
        client: KafkaClient,
        probe: EventTimeProbe,
        locator: Locator,
        *,
        read_committed: bool,
        unanswered: UnansweredPartitions | None = None,
        by_headers: bool = False,
    ) -> None:
        self._client = client
        self._unanswered = unanswered
        self._read: Set[TopicPartition] = set()
        self._unread: Set[TopicPartition] = set()
        self._probe = probe
        self._locator = locator
        self._read_committed = read_committed
        self._by_headers = by_headers
        self._undecoded: UndecodedLogs | None = None
        self._caches: dict[TopicPartition, EventTimeCache] = {}
        self._topic_ids: Mapping[TopicPartition, str] = {}

    def forget(self, tp: TopicPartition) -> None:
        """Drops the known event times of a partition, because its log was replaced or has lost records."""
        self._caches.pop(tp, None)
        if self._undecoded is not None:
            self._undecoded.forget(tp)

    def positions(
        self,
        partitions: Mapping[str, TopicPartition],
        topic_ids: Mapping[TopicPartition, str],
        request: PositioningRequest,
    ) -> KafkaEventTimePositions:
        """Returns the positions in the ranges of ``request``.

        Args:
            partitions: The partitions of these ranges, by split id.
            topic_ids: The ids of their topics; empty for an id that is not known.
            request: The ranges, and the bounds of the searches.

        Raises:
            UnreachableError: A partition could not be read for too long, even if its leader answered about its end.
        """
        self._note_unread()
        self._topic_ids = topic_ids
        spans = values_of(list(partitions), request.ranges)
        self._keep({tp: span.position for tp, span in zip(partitions.values(), spans, strict=True)})
        return KafkaEventTimePositions(partitions, request, self)

    def without_known_records(
        self, partitions: Mapping[str, TopicPartition], ranges: Mapping[str, SplitRange]
    ) -> dict[TopicPartition, int]:
        """Returns the positions of the partitions whose batch headers are to be read first.

        These are the partitions with records to read and without known event times. The result is empty if the
        headers of batches do not have event times.
        """
        if not self._by_headers:
            return {}
        known, spans = self._caches, values_of(list(partitions), ranges)
        return {
            tp: span.position
            for tp, span in zip(partitions.values(), spans, strict=True)
            if span.position < span.end and tp not in known
        }

    def read_headers(self, offsets: Mapping[TopicPartition, int]) -> UndecodedLogs:
        """Returns the headers of the batches from these offsets on, without the partitions that did not answer."""
        ids = found_in(list(offsets), self._topic_ids)
        tuple_of = tuple.__new__  # Takes half the time of a call of the class.
        reads = {
            tp: tuple_of(FetchFrom, (offset, PROBE_BYTES, topic_id or ""))
            for (tp, offset), topic_id in zip(offsets.items(), ids, strict=True)
        }
        logs = self._probe.read_headers(reads) if reads else UndecodedLogs(self._probe)
        self._record_read(reads.keys(), logs.answered)
        decoded = list(logs) if logs.is_full else list(logs.chunks)
        for tp in decoded:
            self._known(tp).add(logs.chunk(tp))
        self._undecoded = logs
        if len(decoded) == len(logs):
            self._undecoded = None
        return logs

    def search(self, tp: TopicPartition, span: SplitRange, request: PositioningRequest) -> SplitSearch:
        """Returns the search in the range ``span`` of a partition, with the known event times of its records."""
        cache = self._known(tp)
        if self._undecoded is not None and tp in self._undecoded:
            cache.add(self._undecoded.chunk(tp))
        return SplitSearch(span.position, span.end, request, cache, self._locator)

    def _known(self, tp: TopicPartition) -> EventTimeCache:
        return self._caches.setdefault(tp, EventTimeCache())

    def _keep(self, positions: Mapping[TopicPartition, int]) -> None:
        """Keeps the event times of records at or after the position of their partition, and drops the others."""
        logs, self._undecoded = self._undecoded, None
        if logs is not None:
            for tp in logs.read_beyond(positions):
                self._known(tp).add(logs.chunk(tp))
        share = _CACHED_RECORDS // max(1, len(positions))
        for tp in self._caches.keys() & positions.keys():
            self._caches[tp].trim(positions[tp], share)
            if self._caches[tp].is_empty:
                del self._caches[tp]

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
        reads = {
            tp: FetchFrom(ask.offset, ask.max_bytes, self._topic_ids.get(tp, ""))
            for tp, ask in asked.items()
            if isinstance(ask, LogRead)
        }
        answers: dict[TopicPartition, SearchAnswer] = {}
        if lookups:
            answers.update(self._client.list_offsets(lookups, read_committed=self._read_committed)[0])
        if reads:
            chunks = self._probe.read(reads)
            self._record_read(reads.keys(), chunks.keys())
            answers.update(chunks)
        return answers

    def _record_read(self, asked: Set[TopicPartition], answered: Set[TopicPartition]) -> None:
        self._read = self._read | asked if self._read else asked
        if self._unread or len(answered) < len(asked):
            self._unread = ((self._unread - answered) | (asked - answered)) - self._probe.out_of_range

    def _note_unread(self) -> None:
        """Reports to :class:`UnansweredPartitions` which partitions the fetches of the last plan could read."""
        if self._unanswered is not None:
            self._unanswered.note(self._read, self._read - self._unread if self._unread else self._read)
        self._read, self._unread = set(), set()
