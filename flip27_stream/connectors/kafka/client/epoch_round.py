"""One round of OffsetForLeaderEpoch requests (KIP-320): one per leader, to all leaders at once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kafka.errors import IncompatibleBrokerVersion

from flip27_stream.connectors.kafka.client.answer_deadlines import FULL_S
from flip27_stream.connectors.kafka.client.calls import Call
from flip27_stream.connectors.kafka.client.protocol import UNKNOWN_SERVER_ERROR, retriable
from flip27_stream.connectors.kafka.client.round_context import RoundContext
from flip27_stream.connectors.kafka.kafka_python.messages import OffsetForLeaderEpochRequest
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import AuthenticationError

UNKNOWN_END = 2**63 - 1
"""The end of the records of an epoch if the leader cannot say it: no offset is greater."""

Epochs = Mapping[TopicPartition, int]


class EpochRound:
    """One round of questions where the records end that leaders up to an epoch have written.

    Args:
        context: The cluster, and the state that earlier rounds left.
    """

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._cluster = context.cluster

    def run(self, epochs: Epochs) -> dict[TopicPartition, int]:
        """Returns these ends by partition; partitions whose leaders did not answer within 5 s are left out.

        Args:
            epochs: The epoch of a leader, by partition.

        Raises:
            UnreachableError: No broker says which brokers lead the partitions.
            AuthenticationError: A leader refuses this client, or its certificate is not trusted.
        """
        self._context.begin()
        asked: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for tp, leader in self._cluster.leaders(epochs).items():
            if not self._context.in_flight.unanswered_by(leader):
                asked[leader][tp] = epochs[tp]
        calls = {
            leader: self._context.call(leader, wanted, partial(_request, wanted))
            for leader, wanted in asked.items()
        }
        until = time.monotonic() + FULL_S
        while (left := [c for c in calls.values() if not c.is_done]) and time.monotonic() < until:
            self._context.wait(left, until)
        found = {tp: end for leader, call in calls.items() for tp, end in self._ends(call, asked[leader])}
        self._cluster.forget_leaders(epochs.keys() - found.keys())
        return found

    def _ends(self, call: Call, wanted: Epochs) -> Iterator[tuple[TopicPartition, int]]:
        if isinstance(call.error, AuthenticationError):
            raise call.error
        if isinstance(call.error, IncompatibleBrokerVersion):
            yield from dict.fromkeys(wanted, UNKNOWN_END).items()
        elif call.answer is not None:
            answers = _answers(call.answer)
            for tp in wanted:
                error, end = answers.get(tp, (UNKNOWN_SERVER_ERROR, -1))
                if not retriable(error):
                    yield tp, UNKNOWN_END if error or end < 0 else end
        elif not call.is_done:
            self._context.in_flight.keep(call)


def _request(epochs: Epochs) -> Any:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, epoch in epochs.items():
        partition = topic.OffsetForLeaderPartition(
            partition=tp.partition, current_leader_epoch=-1, leader_epoch=epoch
        )
        by_topic[tp.topic].append(partition)
    topics = [topic(topic=name, partitions=partitions) for name, partitions in by_topic.items()]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _answers(response: Any) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the error code and the end of each partition in a response."""
    return {
        TopicPartition(topic.topic, p.partition): (p.error_code, p.end_offset)
        for topic in response.topics or ()
        for p in topic.partitions or ()
    }
