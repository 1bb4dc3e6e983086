"""A Kafka client of raw requests: metadata, ListOffsets and Fetch, one request per leader, to all leaders at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from flip27_stream.connectors.kafka.client.answer_deadlines import AnswerDeadlines
from flip27_stream.connectors.kafka.client.calls import Call, wait_for_news
from flip27_stream.connectors.kafka.client.cluster import Cluster
from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.client.fetch_round import FetchRound
from flip27_stream.connectors.kafka.client.offset_round import Answers, Asked, OffsetRound
from flip27_stream.connectors.kafka.client.protocol import (
    Fetched,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.client.round_context import RoundContext
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from flip27_stream.errors import AuthenticationError, UnreachableError

__all__ = ["ConnectionOptions", "KafkaClient"]


class KafkaClient:
    """Connections to one cluster. Safe to use from several threads, one request round at a time.

    The cluster is contacted with the first request. All methods raise UnreachableError where that first contact fails,
    and AuthenticationError where a broker refuses this client, or this client a broker's certificate.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._lock = threading.RLock()
        self._cluster = Cluster(options)
        self._rounds = RoundContext(self._cluster, AnswerDeadlines(options.request_timeout_ms / 1000))

    @property
    def options(self) -> ConnectionOptions:
        return self._options

    @property
    def cluster_id(self) -> str:
        """Of the cluster that answered last; empty where brokers do not tell."""
        return self._cluster.cluster_id

    def close(self) -> None:
        """Close the connections, unless another thread is using them just now and does not stop within a second."""
        if self._lock.acquire(timeout=1):
            try:
                self._cluster.close()
            finally:
                self._lock.release()

    def topics(
        self, names: Collection[str] | None = None, within_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """The topics of that name that exist, or all topics.

        Raises:
            UnreachableError: no broker answered within that time, by default ``api_timeout_ms``.
            ConnectorError: the cluster refused.
        """
        with self._lock:
            return self._cluster.topics(names, within_ms)

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        """Offsets by timestamp (ms), :data:`EARLIEST`, :data:`LATEST` or :data:`MAX_TIMESTAMP`; one answer per round.

        All rounds go out together. What a leader did not answer in time, or cannot tell, is left out. In time is what
        :class:`AnswerDeadlines` says.

        Args:
            rounds: what to ask of each partition.
            read_committed: the isolation level.
            late_answers: the answer may be that to the same question of an earlier call, which came too late for it.

        Raises:
            ConnectorError: a broker refused.
        """
        found = self._ask(rounds, read_committed, late=late_answers)
        return [{tp: answer for tp, answer in each.items() if answer is not None} for each in found]

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """As one round of :meth:`list_offsets`, but of all these partitions; -1 where no record is as asked for.

        Raises:
            UnreachableError: not all leaders answered within ``api_timeout_ms``.
            ConnectorError: a broker refused.
        """
        within_s = self._options.api_timeout_ms / 1000
        (found,) = self._ask([wanted], read_committed, within_s=within_s)
        if missing := wanted.keys() - found.keys():
            raise UnreachableError(
                f"There was no answer about {min(missing)} within {within_s:g} s: {self.why_silent(min(missing))}."
            )
        return {tp: -1 if answer is None else answer.offset for tp, answer in found.items()}

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """Where all these partitions end now; errors as :meth:`offsets`."""
        return self.offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, Fetched]:
        """Records, in one round, of partitions in the order given. What no leader answered in time is left out."""
        with self._lock:
            return FetchRound(self._rounds, read_committed=read_committed, max_bytes=max_bytes).run(wanted)

    # What follows is for callers that keep requests in flight themselves; one thread at a time.

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The known leaders, by partition. Unknown leaders are asked for first, unless that was done just now."""
        return self._cluster.leaders(partitions)

    def any_node(self) -> int | None:
        """The id of the broker that is most likely to answer; ``None`` where no broker is known."""
        return next(iter(self._cluster.connections.nodes()), None)

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask again before the next request about these partitions."""
        self._cluster.forget_leaders(partitions)

    def ask(self, node: int, request: Any, seconds: float) -> Any | None:
        """The response of a broker to a request (of kafka-python); ``None`` where none came in that many seconds."""
        connections = self._cluster.connections
        call, deadline = Call(connections, node, lambda: request), time.monotonic() + seconds
        while not call.is_done and time.monotonic() < deadline:
            wait_for_news(connections, [call], deadline)
        if isinstance(call.error, AuthenticationError):
            raise call.error
        return call.answer

    def wait(self, seconds: float) -> None:
        """Let requests and responses flow until something happens, but no longer than so many seconds."""
        self._cluster.connections.wait(seconds)

    def endpoint(self, node: int) -> tuple[str, int] | None:
        """Host and port of a broker; ``None`` if it is not known (any more)."""
        return self._cluster.endpoint(node)

    def address(self, node: int) -> str:
        """A broker's address, for messages; the last one known of a broker that has left the cluster."""
        return self._cluster.address(node)

    def why_silent(self, tp: TopicPartition) -> str:
        """Why there is no answer about a partition, for messages."""
        return self._cluster.why_silent(tp)

    def _ask(
        self,
        rounds: Sequence[Asked],
        read_committed: bool,
        *,
        late: bool = False,
        within_s: float | None = None,
    ) -> list[Answers]:
        with self._lock:
            return OffsetRound(self._rounds, read_committed=read_committed, late=late, within_s=within_s).run(
                rounds
            )
