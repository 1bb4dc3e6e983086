"""The Kafka client of planning: Metadata, ListOffsets and Fetch, one request per leader, to all leaders at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flip27_stream.connectors.kafka.client.answer_deadlines import AnswerDeadlines
from flip27_stream.connectors.kafka.client.calls import Call, wait_for_answers
from flip27_stream.connectors.kafka.client.cluster import Cluster
from flip27_stream.connectors.kafka.client.epoch_round import EpochRound
from flip27_stream.connectors.kafka.client.fetch_round import FetchRound
from flip27_stream.connectors.kafka.client.offset_round import Answers, Asked, OffsetRound
from flip27_stream.connectors.kafka.client.protocol import (
    FetchedPartition,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.client.round_context import RoundContext
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from flip27_stream.errors import AuthenticationError, UnreachableError

__all__ = ["ConnectionOptions", "KafkaClient"]

log = logging.getLogger(__name__)


class KafkaClient:
    """A client of one cluster. Several threads may use it; it runs one round of requests at a time.

    The first request makes the first contact with the cluster. All methods raise AuthenticationError if a broker
    refuses this client or the certificate of a broker is not trusted. If no broker answers, :meth:`list_offsets`,
    :meth:`epoch_ends` and :meth:`fetch` return no answers, and all other methods raise UnreachableError.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._lock = threading.RLock()
        self._cluster = Cluster(options)
        self._rounds = RoundContext(self._cluster, AnswerDeadlines(options.request_timeout_ms / 1000))

    @property
    def options(self) -> ConnectionOptions:
        """The connection options of this client."""
        return self._options

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that answered last; empty if brokers do not send it."""
        return self._cluster.cluster_id

    def close(self) -> None:
        """Closes the connections, unless another thread is using them and does not stop within a second."""
        if self._lock.acquire(timeout=1):
            try:
                self._cluster.close()
            finally:
                self._lock.release()

    def topics(
        self, names: Collection[str] | None = None, within_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """Returns the topics that exist, by name.

        Args:
            names: The names to look for; ``None`` for all topics.
            within_ms: The time limit in ms; by default ``api_timeout_ms``.

        Raises:
            UnreachableError: No broker answered in time.
            ConnectorError: The cluster refused the request.
        """
        with self._lock:
            return self._cluster.topics(names, within_ms)

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        """Returns offsets, one mapping per mapping in ``rounds``. All requests are sent together.

        Partitions are left out if the leader does not know the offset, or did not answer in time (see
        :class:`AnswerDeadlines`).

        Args:
            rounds: The timestamp (ms) to look up by partition, or :data:`EARLIEST`, :data:`LATEST` or
                :data:`MAX_TIMESTAMP`.
            read_committed: Whether the isolation level is ``read_committed``.
            late_answers: Whether the response to the same lookup of an earlier call may be used, if it came too late
                for that call.

        Raises:
            ConnectorError: A broker refused the request.
        """
        with _repeated_if_unreachable():
            found = self._ask(rounds, read_committed, late=late_answers)
            return [{tp: answer for tp, answer in each.items() if answer is not None} for each in found]
        return [{} for _ in rounds]

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """Returns the offsets of all these partitions, as :meth:`list_offsets` does; -1 if no record matches.

        Raises:
            UnreachableError: Not all leaders answered within ``api_timeout_ms``.
            ConnectorError: A broker refused the request.
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
        """Returns the end offsets (exclusive) of all these partitions. The errors are those of :meth:`offsets`."""
        return self.offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the end (exclusive) of the records that leaders up to an epoch have written, by partition.

        It is :data:`UNKNOWN_END` if the leader cannot say it. Partitions that were not answered in time are left out.

        Args:
            epochs: The epoch of a leader, by partition; there is a later leader.
        """
        with _repeated_if_unreachable(), self._lock:
            return EpochRound(self._rounds).run(epochs)
        return {}

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        """Returns records by partition, from one round of fetches.

        Partitions that were not answered in time are left out.

        Args:
            wanted: The offset and size to fetch, by partition; a broker fills its response in this order.
            read_committed: Whether the isolation level is ``read_committed``.
            max_bytes: The greatest size of each response, in bytes.
        """
        fetches = FetchRound(self._rounds, read_committed=read_committed, max_bytes=max_bytes)
        with _repeated_if_unreachable(), self._lock:
            return fetches.run(wanted)
        return {}

    # The methods below are for callers that keep requests in flight themselves. They are not thread-safe.

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the known leaders, by partition.

        Requests metadata of unknown leaders first, unless it was just requested.
        """
        return self._cluster.leaders(partitions)

    def any_node(self) -> int | None:
        """Returns the id of the broker that is most likely to answer; ``None`` if no broker is known."""
        return next(iter(self._cluster.connections.nodes()), None)

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Marks the leaders of these partitions as unknown, so that metadata is requested before the next request."""
        self._cluster.forget_leaders(partitions)

    def ask(self, node: int, request: Any, seconds: float) -> Any | None:
        """Returns the response of a broker; ``None`` if no response came within ``seconds``.

        Args:
            node: The id of the broker.
            request: A request of kafka-python.
            seconds: The time limit.
        """
        connections = self._cluster.connections
        call, deadline = Call(connections, node, lambda: request), time.monotonic() + seconds
        while not call.is_done and time.monotonic() < deadline:
            wait_for_answers(connections, [call], deadline)
        if isinstance(call.error, AuthenticationError):
            raise call.error
        return call.answer

    def wait(self, seconds: float) -> None:
        """Sends and receives until a byte was sent or received, but no longer than ``seconds``."""
        self._cluster.connections.wait(seconds)

    def endpoint(self, node: int) -> tuple[str, int] | None:
        """Returns host and port of a broker; ``None`` if the broker is not known."""
        return self._cluster.endpoint(node)

    def address(self, node: int) -> str:
        """Returns the address of a broker for messages, also of a broker that has left the cluster."""
        return self._cluster.address(node)

    def why_silent(self, tp: TopicPartition) -> str:
        """Returns the reason why no answer about a partition came, for messages."""
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


@contextmanager
def _repeated_if_unreachable() -> Iterator[None]:
    """Logs a warning in place of the error that no broker answers, for a request that the caller repeats."""
    try:
        yield
    except UnreachableError as error:
        log.warning("No broker says which brokers lead the partitions; the request is repeated: %s", error)
