"""What one round of requests leaves to the next ones of a client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.kafka.client.answer_deadlines import AnswerDeadlines
from flip27_stream.connectors.kafka.client.calls import Call, CallsUnderWay, wait_for_news
from flip27_stream.connectors.kafka.client.cluster import Cluster
from flip27_stream.connectors.kafka.split import TopicPartition


@dataclass(frozen=True)
class RoundContext:
    """The cluster, the waits for its brokers, and the calls that are not answered yet."""

    cluster: Cluster
    patience: AnswerDeadlines[TopicPartition]
    under_way: CallsUnderWay = field(default_factory=CallsUnderWay)

    def begin(self) -> float:
        """Take in what came since the last round; the time now, in monotonic seconds.

        Raises:
            UnreachableError: the first contact with the cluster failed.
        """
        self.cluster.connections.wait(0)
        now = time.monotonic()
        self.under_way.prune(now - self.cluster.options.request_timeout_ms / 1000)
        return now

    def call(
        self,
        leader: int,
        wanted: Collection[TopicPartition],
        request: Callable[[], Any],
        max_wait_s: float = 0.0,
    ) -> Call:
        """Ask a leader about partitions; it may wait so long for something to answer."""

        def answered(latency: float) -> None:
            for tp in wanted:
                self.patience.answered(tp, latency - max_wait_s)

        self.cluster.connections.wait(0)  # a connection that has ended by now is not used
        usual_s = max(map(self.patience.latency, wanted)) + max_wait_s
        return Call(self.cluster.connections, leader, request, usual_s, answered)

    def wait(self, calls: Collection[Call], until: float) -> None:
        """Until something happens, or until then (monotonic seconds)."""
        wait_for_news(self.cluster.connections, calls, until)

    def gave_up(self, tp: TopicPartition, waited: float) -> None:
        """A round ended without an answer about a partition; perhaps somebody else leads it by now."""
        self.cluster.doubt_leader(tp)
        leader = self.cluster.leader(tp)
        if leader is None or not self.cluster.connections.throttled_for(leader):
            self.patience.gave_up(tp, waited, time.monotonic())
