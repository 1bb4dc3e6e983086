"""The state that rounds of requests share: the cluster, the deadlines, and the calls that are not answered yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.kafka.client.answer_deadlines import AnswerDeadlines
from flip27_stream.connectors.kafka.client.calls import Call, CallsInFlight, wait_for_answers
from flip27_stream.connectors.kafka.client.cluster import Cluster
from flip27_stream.connectors.kafka.split import TopicPartition


@dataclass(frozen=True)
class RoundContext:
    """The state that the rounds of requests of one client share.

    Attributes:
        cluster: The leaders, and the connections to the brokers.
        deadlines: The time for which a round waits for each partition.
        in_flight: The calls of earlier rounds that are not answered yet.
    """

    cluster: Cluster
    deadlines: AnswerDeadlines[TopicPartition]
    in_flight: CallsInFlight = field(default_factory=CallsInFlight)

    def begin(self) -> float:
        """Receives the responses that have come since the last round. Returns the current time in monotonic seconds.

        Raises:
            UnreachableError: The first contact with the cluster failed.
        """
        self.cluster.connections.wait(0)
        now = time.monotonic()
        self.in_flight.prune(now - self.cluster.options.request_timeout_ms / 1000)
        return now

    def call(
        self,
        leader: int,
        wanted: Collection[TopicPartition],
        request: Callable[[], Any],
        max_wait_s: float = 0.0,
    ) -> Call:
        """Sends a request to a leader, and returns the call.

        Args:
            leader: The id of the broker.
            wanted: The partitions of the request; their latency is recorded when the response comes.
            request: Makes the request.
            max_wait_s: The longest time that the broker may wait for records before it answers, in seconds.
        """

        def answered(latency: float) -> None:
            self.deadlines.answered(wanted, latency - max_wait_s)

        # This detects connections that have ended, so that they are not used.
        self.cluster.connections.wait(0)
        usual_s = self.deadlines.greatest_latency(wanted) + max_wait_s
        return Call(self.cluster.connections, leader, request, usual_s, answered)

    def wait(self, calls: Collection[Call], until: float) -> None:
        """Waits until something is sent or received, but not after ``until`` (monotonic seconds)."""
        wait_for_answers(self.cluster.connections, calls, until)

    def gave_up(self, tp: TopicPartition, waited: float) -> None:
        """Records that a round ended without an answer about a partition.

        Metadata is requested before the next request, because the leader may have changed.

        Args:
            tp: The partition.
            waited: The time that the round waited for it, in seconds.
        """
        self.cluster.mark_leader_outdated(tp)
        leader = self.cluster.leader(tp)
        if leader is None or not self.cluster.connections.throttled_for(leader):
            self.deadlines.gave_up(tp, waited, time.monotonic())
