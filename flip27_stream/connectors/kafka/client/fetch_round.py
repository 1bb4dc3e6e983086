"""One round of small fetches, to several leaders at once. Planning reads event times with it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from flip27_stream.connectors.kafka.client.answer_deadlines import FULL_S
from flip27_stream.connectors.kafka.client.calls import Call
from flip27_stream.connectors.kafka.client.protocol import (
    FetchedPartition,
    FetchFrom,
    fetch_request,
    fetched_partitions,
    refusal,
    retriable,
)
from flip27_stream.connectors.kafka.client.round_context import RoundContext
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import AuthenticationError

Wanted = Mapping[TopicPartition, FetchFrom]


class FetchRound:
    """One round of fetches, with one request to each leader.

    :class:`AnswerDeadlines` has the time for which the round waits for each partition.

    Args:
        context: The cluster, and the state that earlier rounds left.
        read_committed: Whether the isolation level is ``read_committed``.
        max_bytes: The greatest size of each response, in bytes.
    """

    def __init__(self, context: RoundContext, *, read_committed: bool, max_bytes: int) -> None:
        self._context = context
        self._cluster = context.cluster
        self._read_committed = read_committed
        self._max_bytes = max_bytes
        self._max_wait_s = context.cluster.options.fetch_max_wait_ms / 1000
        self._began = 0.0
        self._unsent: dict[int, dict[TopicPartition, FetchFrom]] = defaultdict(dict)
        self._calls: dict[int, Call] = {}

    def run(self, wanted: Wanted) -> dict[TopicPartition, FetchedPartition]:
        """Returns the answers of the leaders, by partition. Partitions that were not answered in time are left out.

        Args:
            wanted: The offset and size to fetch, by partition.

        Raises:
            UnreachableError: No broker says which brokers lead the partitions.
            AuthenticationError: A leader refuses this client, or its certificate is not trusted.
            ConnectorError: A leader refused the request.
        """
        self._began = self._context.begin()
        by_leader: dict[int, dict[TopicPartition, FetchFrom]] = defaultdict(dict)
        for tp, leader in self._leaders(wanted).items():
            by_leader[leader][tp] = wanted[tp]
        while waiting := self._send(by_leader):
            until = self._began + max(self._allowed(leader, by_leader[leader]) for leader in waiting)
            if time.monotonic() >= until:
                break
            self._context.wait([call for calls in waiting.values() for call in calls], until)
        return self._end(by_leader)

    def _leaders(self, wanted: Wanted) -> dict[TopicPartition, int]:
        """Returns the known leaders. If no leader is known, waits until metadata may be requested again."""
        leaders = self._cluster.leaders(wanted)
        while not leaders and (left := self._cluster.retry.next_at - time.monotonic()) > 0:
            self._cluster.connections.wait(left)
        return leaders or self._cluster.leaders(wanted)

    def _send(self, by_leader: Mapping[int, Wanted]) -> dict[int, list[Call]]:
        """Sends the fetches of leaders that have no unanswered request. Returns the unanswered calls by leader."""
        waiting: dict[int, list[Call]] = {}
        for leader, wanted in by_leader.items():
            call = self._calls.get(leader)
            owed = self._context.in_flight.unanswered_by(leader) if call is None else [call]
            if not owed:
                owed = [self._call(leader, wanted)]
                self._calls[leader] = owed[0]
            if open_calls := [each for each in owed if not each.is_done]:
                waiting[leader] = open_calls
        return waiting

    def _call(self, leader: int, wanted: Wanted) -> Call:
        def request() -> Any:
            return fetch_request(
                wanted,
                read_committed=self._read_committed,
                max_bytes=self._max_bytes,
                max_wait_ms=self._cluster.options.fetch_max_wait_ms,
            )

        return self._context.call(leader, wanted, request, self._max_wait_s)

    def _allowed(self, leader: int, wanted: Wanted) -> float:
        """Returns the time for which the round waits for the answers of a leader, in seconds."""
        throttled = self._cluster.connections.throttled_for(leader)
        # A plan does not wait for a longer throttle time.
        throttled = throttled if throttled <= FULL_S else 0.0
        deadlines = self._context.deadlines
        return throttled + deadlines.longest(wanted, self._began, at_once=True, held_s=self._max_wait_s)

    def _answers(self, leader: int, response: Any, wanted: Wanted) -> dict[TopicPartition, FetchedPartition]:
        """Returns the answers of a leader by partition; an error of the whole request counts for each of them."""
        error = int(response.error_code or 0)
        if error and not retriable(error):
            raise refusal(f"a fetch by {self._cluster.address(leader)}", error)
        return (
            dict.fromkeys(wanted, FetchedPartition(error, b"", []))
            if error
            else fetched_partitions(response, wanted)
        )

    def _end(self, by_leader: Mapping[int, Wanted]) -> dict[TopicPartition, FetchedPartition]:
        answers: dict[TopicPartition, FetchedPartition] = {}
        for leader, partitions in by_leader.items():
            call = self._calls.get(leader)
            if call is not None and isinstance(call.error, AuthenticationError):
                raise call.error
            if call is not None and call.answer is not None:
                answers.update(self._answers(leader, call.answer, partitions))
            elif call is None or not call.is_done:
                for tp in partitions:
                    self._context.gave_up(tp, self._context.deadlines.seconds(tp, self._began, at_once=True))
                if call is not None:
                    self._context.in_flight.keep(call)
        self._cluster.forget_leaders(tp for tp, at in answers.items() if retriable(at.error))
        self._cluster.forget_leaders(
            tp for leader, call in self._calls.items() if call.error is not None for tp in by_leader[leader]
        )
        return answers
