"""Sends fetches to the brokers of a cluster, with one in flight to each broker (Kafka's ``Fetcher``)."""

from __future__ import annotations

import logging
import math
import select
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import (
    FetchedPartition,
    FetchFrom,
    fetch_request,
    fetch_version,
)
from flip27_stream.connectors.kafka.fetching.broker_pauses import BrokerPauses
from flip27_stream.connectors.kafka.fetching.connection_attempt import ConnectionAttempt
from flip27_stream.connectors.kafka.fetching.fetch_connection import LARGEST_BATCH, FetchConnection
from flip27_stream.connectors.kafka.fetching.fetch_responses import (
    LEAST_VERSION,
    FetchResponse,
    read_fetch_response,
)
from flip27_stream.connectors.kafka.fetching.fetched_ahead import FetchedAhead
from flip27_stream.connectors.kafka.kafka_python.messages import FetchRequest
from flip27_stream.connectors.kafka.split import TopicPartition

log = logging.getLogger(__name__)

_DOUBT_S = 3.0
"""The time limit, added to ``fetch.max.wait.ms``, of a fetch over a connection that may be dead, in seconds."""

_LONGEST_WAIT_FOR_LARGE_PART_S = 0.5
_LEAST_GROWTH = 4096
"""The number of further bytes that restart the time limit of a response that is being received.

A slow broker or network sends at least so much within the request timeout; a few bytes do not count.
"""

_QUIET_S = 30.0
"""The idle time after which a connection may be dead, in seconds; networks do not drop connections sooner."""


@dataclass(frozen=True)
class _Fetch:
    """A fetch to be sent to one broker.

    Attributes:
        wanted: The offset and size to fetch, by partition.
        read_committed: Whether the isolation level is ``read_committed``.
        max_bytes: The greatest size of the response, in bytes.
        until: The deadline for connecting, in monotonic seconds.
    """

    wanted: Mapping[TopicPartition, FetchFrom]
    read_committed: bool
    max_bytes: int
    until: float


@dataclass
class _InFlight:
    """A fetch that was sent and is not answered yet.

    Attributes:
        connection: The connection that it was sent over.
        fetch: The fetch.
        version: The version of the request.
        heard: The time at which the time limit was last restarted, in monotonic seconds.
        received: The number of bytes received at that time.
        tried: The time at which it was last tried to receive something, in monotonic seconds; 0 before the first time.
    """

    connection: FetchConnection
    fetch: _Fetch
    version: int
    heard: float
    received: int = 0
    tried: float = 0.0

    def has_grown(self) -> bool:
        """Returns whether enough of the response has come to restart its time limit."""
        grown = self.connection.received
        if self.received and grown < self.received + _LEAST_GROWTH:
            return False
        self.heard, self.received = time.monotonic(), grown
        return True


@dataclass(frozen=True)
class Answer:
    """The answer to a fetch.

    Attributes:
        partitions: The partitions of the fetch.
        fetched: The answer by partition; ``None`` if the connection failed.
    """

    partitions: Iterable[TopicPartition]
    fetched: Mapping[TopicPartition, FetchedPartition] | None


class Fetcher:
    """Fetches over connections that are made when they are needed and kept for the next task. Not thread-safe.

    Networks may drop idle connections without telling either end, and requests sent over them are lost. So a fetch over
    a connection that was kept from an earlier task, or was idle for 30 s, has a short time limit. If it is not answered
    in time, it is sent again over a new connection.

    Args:
        client: Finds the leaders.

    Attributes:
        client: Finds the leaders.
        failure: The reason why the last connection failed, for messages; ``None`` after the next answer.
        ahead: The records that were fetched beyond the ranges of earlier tasks.
    """

    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.failure: OSError | None = None
        self.ahead = FetchedAhead()
        self._open: dict[int, FetchConnection] = {}
        self._kept: set[int] = set()
        self._in_flight: dict[int, _InFlight] = {}
        self._attempts: dict[int, tuple[ConnectionAttempt, _Fetch]] = {}
        self._failed: list[Answer] = []
        self._grown: set[TopicPartition] = set()
        self._pauses = BrokerPauses(client.options)

    def close(self) -> None:
        self.give_up()
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self.client.close()

    def give_up(self) -> None:
        """Drops all fetches in flight, and closes their connections, which cannot be used for other requests."""
        for node in [*self._in_flight, *self._attempts]:
            self._drop(node)
        self._failed.clear()
        self._kept = set(self._open)

    def is_busy(self, node: int) -> bool:
        """Returns whether a broker must not get a fetch now, because one is in flight or the broker is paused."""
        return node in self._in_flight or node in self._attempts or self._pauses.is_paused(node)

    def throttled_until(self, node: int) -> float:
        """Returns the end of the throttle time of a broker in monotonic seconds; 0 if the broker does not throttle."""
        return self._pauses.throttled_until(node)

    def partitions_in_flight(self) -> set[TopicPartition]:
        """Returns the partitions of the fetches that are not answered yet."""
        asked: list[Iterable[TopicPartition]] = [sent.fetch.wanted for sent in self._in_flight.values()]
        asked += [fetch.wanted for _, fetch in self._attempts.values()]
        asked += [answer.partitions for answer in self._failed]
        return {tp for partitions in asked for tp in partitions}

    def send(
        self,
        node: int,
        wanted: Mapping[TopicPartition, FetchFrom],
        *,
        read_committed: bool,
        max_bytes: int,
        within_s: float = math.inf,
    ) -> None:
        """Sends a fetch to a broker, or begins to connect to it first. :meth:`next_answer` reports failures.

        Args:
            node: The id of the broker.
            wanted: The offset and size to fetch, by partition; a broker fills its response in this order.
            read_committed: Whether the isolation level is ``read_committed``.
            max_bytes: The greatest size of the response, in bytes.
            within_s: The time limit for connecting in seconds, if it is shorter than that of the options.

        Raises:
            ConnectorError: The broker is too old.
        """
        self._send(node, _Fetch(dict(wanted), read_committed, max_bytes, time.monotonic() + within_s))

    def next_answer(self, seconds: float) -> Answer | None:
        """Returns the next answer; ``None`` if no answer came within ``seconds``.

        The records of the answer are valid until the next call.

        Raises:
            AuthenticationError: A broker refused the credentials, or its certificate is not trusted.
            ConnectorError: A broker refused the request, or is too old.
        """
        self._grown = set()
        deadline = time.monotonic() + seconds
        while not self._failed:
            remaining = deadline - time.monotonic()
            for node in self._readable(max(remaining, 0)):
                if answer := self._receive(node):
                    return answer
            self._send_over_new_connections()
            self._drop_silent()
            if remaining <= 0:
                break
        return self._failed.pop(0) if self._failed else None

    def partitions_receiving(self) -> set[TopicPartition]:
        """Returns the partitions of the unfinished responses to which the last :meth:`next_answer` has added bytes."""
        return self._grown

    def _send(self, node: int, fetch: _Fetch) -> None:
        connection = self._usable(node)
        if connection is not None:
            self._send_over(connection, node, fetch)
            return
        self._drop(node)
        endpoint = self.client.endpoint(node)
        if endpoint is None:
            self._fail(node, fetch, ConnectionError(f"broker {node} is not known any more"))
            return
        options, failures = self.client.options, self._pauses.failures(node)

        def make() -> FetchConnection:
            return FetchConnection(*endpoint, options, fetch.until - time.monotonic(), failures)

        try:
            self._attempts[node] = ConnectionAttempt(make), fetch
        except OSError as error:  # The process has reached its limit of open files.
            self._fail(node, fetch, error)

    def _send_over_new_connections(self) -> None:
        for node, (attempt, fetch) in list(self._attempts.items()):
            if not attempt.is_over:
                continue
            del self._attempts[node]
            try:
                connection = self._open[node] = attempt.take()
            except OSError as error:
                self._fail(node, fetch, error)
            else:
                self._send_over(connection, node, fetch)

    def _send_over(self, connection: FetchConnection, node: int, fetch: _Fetch) -> None:
        try:
            version = connection.version_of(FetchRequest, LEAST_VERSION, fetch_version(fetch.wanted))
            connection.send(self._request(fetch), version, fetch.max_bytes + LARGEST_BATCH)
            connection.receive_ahead(fetch.max_bytes)
        except OSError as error:
            self._fail(node, fetch, error)
        else:
            self._in_flight[node] = _InFlight(connection, fetch, version, time.monotonic())

    def _request(self, fetch: _Fetch) -> FetchRequest:
        request = fetch_request(
            fetch.wanted,
            read_committed=fetch.read_committed,
            max_bytes=fetch.max_bytes,
            max_wait_ms=self.client.options.fetch_max_wait_ms,
        )
        request.rack_id = self.client.options.client_rack
        return request

    def _usable(self, node: int) -> FetchConnection | None:
        """Returns the open connection to the current address of a broker, if it can take a request; else ``None``."""
        connection, endpoint = self._open.get(node), self.client.endpoint(node)
        if connection is None or not connection.is_usable or endpoint not in (connection.endpoint, None):
            return None
        if connection.idle_s > _QUIET_S:
            self._kept.add(node)
        return connection

    def _readable(self, seconds: float) -> list[int]:
        """Waits up to ``seconds``, or until a connection is made, and returns the brokers that have sent data.

        The broker that was heard least recently comes first, so that one with an answer at each call does not keep the
        others from being heard. It also returns brokers whose connection
        :attr:`~FetchConnection.waits_for_large_parts`: after a wait to its end, and if nothing was received from them
        for some time, since a part may have come that is not large. A fetch that was never tried is tried without a
        wait, since the whole response may have come.
        """
        poll = select.poll()
        nodes = {sent.connection.fileno(): node for node, sent in self._in_flight.items()}
        for descriptor in (*nodes, *(attempt.fileno() for attempt, _ in self._attempts.values())):
            poll.register(descriptor, select.POLLIN)
        is_new = any(sent.tried == 0 for sent in self._in_flight.values())
        found = poll.poll(0 if is_new else seconds * 1000)
        tried_before = time.monotonic() - (_LONGEST_WAIT_FOR_LARGE_PART_S if found else 0)
        late = {
            node
            for node, sent in self._in_flight.items()
            if sent.tried == 0 or (sent.connection.waits_for_large_parts and sent.tried <= tried_before)
        }
        readable = {nodes[descriptor] for descriptor, _ in found if descriptor in nodes}
        return sorted(late | readable, key=lambda node: self._in_flight[node].heard)

    def _receive(self, node: int) -> Answer | None:
        sent = self._in_flight[node]
        sent.tried = time.monotonic()
        try:
            body = sent.connection.receive()
            response = None if body is None else read_fetch_response(body, sent.version, sent.fetch.wanted)
        except (OSError, struct.error) as error:
            self._fail(node, sent.fetch, error if isinstance(error, OSError) else OSError(str(error)))
            return None
        if not sent.connection.received:
            return None  # A connection that sends nothing may be dead.
        self._kept.discard(node)
        if response is None:
            if sent.has_grown():
                self._grown.update(sent.fetch.wanted)
            return None
        return self._answered(node, response)

    def _answered(self, node: int, response: FetchResponse) -> Answer:
        sent = self._in_flight.pop(node)
        self.failure = None
        self._pauses.answered(node, response.throttle_ms)
        return Answer(tuple(sent.fetch.wanted), response.partitions)

    def _time_limit_s(self, node: int) -> float:
        """Returns the longest time that a broker may be silent, in seconds."""
        options = self.client.options
        time_limit_s = options.request_timeout_ms / 1000
        return (
            min(time_limit_s, options.fetch_max_wait_ms / 1000 + _DOUBT_S)
            if node in self._kept
            else time_limit_s
        )

    def _drop_silent(self) -> None:
        """Drops the connections whose brokers have been silent for too long."""
        now = time.monotonic()
        for node, sent in list(self._in_flight.items()):
            time_limit_s = self._time_limit_s(node)
            if now - sent.heard >= time_limit_s:
                self._fail(node, sent.fetch, TimeoutError(f"no answer for {time_limit_s:g} s"))

    def _fail(self, node: int, fetch: _Fetch, error: OSError) -> None:
        """Closes a connection that failed. A fetch over a kept connection is sent again at once, over a new one."""
        was_kept = node in self._kept
        self.failure = error
        self._drop(node)
        if was_kept:
            log.info(
                "A connection to broker %s that was kept for reuse is broken: %s. A new one is made.",
                node,
                error,
            )
            self._send(node, fetch)
        else:
            self._pauses.failed(node)
            self._failed.append(Answer(tuple(fetch.wanted), None))

    def _drop(self, node: int) -> None:
        self._in_flight.pop(node, None)
        self._kept.discard(node)
        attempt, _ = self._attempts.pop(node, (None, None))
        if attempt is not None:
            attempt.abandon()
        connection = self._open.pop(node, None)
        if connection is not None:
            connection.close()
