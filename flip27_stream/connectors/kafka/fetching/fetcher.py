"""Fetches from the brokers of a cluster, one in flight to each (Kafka's ``Fetcher``)."""

from __future__ import annotations

import logging
import math
import select
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import Fetched, FetchFrom, fetch_request, fetch_version
from flip27_stream.connectors.kafka.fetching.broker_pauses import BrokerPauses
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.fetching.fetch_responses import (
    LEAST_VERSION,
    FetchResponse,
    read_fetch_response,
)
from flip27_stream.connectors.kafka.fetching.opening import Opening
from flip27_stream.connectors.kafka.kafka_python.messages import FetchRequest
from flip27_stream.connectors.kafka.split import TopicPartition

log = logging.getLogger(__name__)

_DOUBT_S = 3.0
"""Beyond the time that a broker may wait: how long a fetch over a connection may take that was kept or is quiet."""

_LEAST_GROWTH = 4096
"""Bytes of an answer, in which a broker, or a network, shows within the request time-out that it goes on coming."""

_QUIET_S = 30.0
"""No network forgets a connection sooner."""


@dataclass(frozen=True)
class _Fetch:
    """What a broker is asked for, and until when (monotonic seconds) it is worth while to connect for that."""

    wanted: Mapping[TopicPartition, FetchFrom]
    read_committed: bool
    max_bytes: int
    until: float


@dataclass
class _InFlight:
    """A fetch that a broker was sent.

    Attributes:
        heard: when enough of the answer had come to be worth waiting on (monotonic seconds).
        received: how many bytes had come then.
    """

    connection: FetchConnection
    fetch: _Fetch
    version: int
    heard: float
    received: int = 0

    def has_grown(self) -> bool:
        """Whether the answer goes on coming; a byte now and then does not count."""
        grown = self.connection.received
        if self.received and grown < self.received + _LEAST_GROWTH:
            return False
        self.heard, self.received = time.monotonic(), grown
        return True


@dataclass(frozen=True)
class Answer:
    """What a broker said to a fetch of ``partitions``; ``fetched`` is None if the connection broke."""

    partitions: Iterable[TopicPartition]
    fetched: Mapping[TopicPartition, Fetched] | None


class Fetcher:
    """Connections for fetches, made when they are needed and kept for the next task. One thread at a time.

    Networks drop idle connections without a word, and what is sent over them then is lost. So the first fetch over a
    connection that was kept, or that was quiet since a task has begun to write its rows, gets little time. Without an
    answer it is sent again, over a new connection.

    Attributes:
        client: finds the leaders.
        failure: why the last connection that broke did so, if nothing was answered since; for messages.
    """

    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.failure: OSError | None = None
        self._open: dict[int, FetchConnection] = {}
        self._kept: set[int] = set()
        self._in_flight: dict[int, _InFlight] = {}
        self._opening: dict[int, tuple[Opening, _Fetch]] = {}
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
        """Wait for no answer any more: a connection with a fetch in flight is good for nothing else."""
        for node in [*self._in_flight, *self._opening]:
            self._drop(node)
        self._failed.clear()
        self._kept = set(self._open)

    def is_busy(self, node: int) -> bool:
        """Whether a broker is not to be sent a fetch now: it has one to answer, or is to be left alone for a while."""
        return node in self._in_flight or node in self._opening or self._pauses.is_paused(node)

    def throttled_until(self, node: int) -> float:
        """When a broker that sends nothing on account of a quota may be asked again (monotonic seconds); 0 for now."""
        return self._pauses.throttled_until(node)

    def partitions_in_flight(self) -> set[TopicPartition]:
        """The partitions asked for in fetches that are not answered."""
        asked: list[Iterable[TopicPartition]] = [sent.fetch.wanted for sent in self._in_flight.values()]
        asked += [fetch.wanted for _, fetch in self._opening.values()]
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
        """Send a broker a fetch, or begin to connect to it first. If that fails, :meth:`next_answer` says so.

        Args:
            node: the broker.
            wanted: what is asked for; a response is filled in this order.
            read_committed: whether the broker sends nothing behind the last stable offset.
            max_bytes: of the response.
            within_s: how long connecting may take, if that is less than the options say.

        Raises:
            ConnectorError: the broker is too old.
        """
        self._send(node, _Fetch(dict(wanted), read_committed, max_bytes, time.monotonic() + within_s))

    def next_answer(self, seconds: float) -> Answer | None:
        """The answer of the first broker to answer within so many seconds. Its records are valid until the next call.

        Raises:
            AuthenticationError: a broker refused the credentials, or is not trusted.
            ConnectorError: a broker refused, or is too old.
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

    def partitions_under_way(self) -> set[TopicPartition]:
        """The partitions whose answer has begun to come, and went on coming in the last :meth:`next_answer`."""
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
            self._opening[node] = Opening(make), fetch
        except OSError as error:  # the process has as many files open as it may have
            self._fail(node, fetch, error)

    def _send_over_new_connections(self) -> None:
        for node, (opening, fetch) in list(self._opening.items()):
            if not opening.is_over:
                continue
            del self._opening[node]
            try:
                connection = self._open[node] = opening.take()
            except OSError as error:
                self._fail(node, fetch, error)
            else:
                self._send_over(connection, node, fetch)

    def _send_over(self, connection: FetchConnection, node: int, fetch: _Fetch) -> None:
        try:
            version = connection.version_of(FetchRequest, LEAST_VERSION, fetch_version(fetch.wanted))
            connection.send(self._request(fetch), version)
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
        """The connection to a broker that is open, to the address of now, and good for one more request."""
        connection, endpoint = self._open.get(node), self.client.endpoint(node)
        if connection is None or not connection.is_usable or endpoint not in (connection.endpoint, None):
            return None
        if connection.idle_s > _QUIET_S:
            self._kept.add(node)
        return connection

    def _readable(self, seconds: float) -> list[int]:
        """The brokers that have sent something, after so many seconds at most, or when a connection is made."""
        poll = select.poll()
        nodes = {sent.connection.fileno(): node for node, sent in self._in_flight.items()}
        for descriptor in (*nodes, *(opening.fileno() for opening, _ in self._opening.values())):
            poll.register(descriptor, select.POLLIN)
        return [nodes[descriptor] for descriptor, _ in poll.poll(seconds * 1000) if descriptor in nodes]

    def _receive(self, node: int) -> Answer | None:
        sent = self._in_flight[node]
        try:
            body = sent.connection.receive()
            response = None if body is None else read_fetch_response(body, sent.version, sent.fetch.wanted)
        except (OSError, struct.error) as error:
            self._fail(node, sent.fetch, error if isinstance(error, OSError) else OSError(str(error)))
            return None
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

    def _patience_s(self, node: int) -> float:
        """How long a broker may be silent."""
        options = self.client.options
        patience_s = options.request_timeout_ms / 1000
        return (
            min(patience_s, options.fetch_max_wait_ms / 1000 + _DOUBT_S) if node in self._kept else patience_s
        )

    def _drop_silent(self) -> None:
        """A broker that is frozen, or a connection that is half open, says nothing."""
        now = time.monotonic()
        for node, sent in list(self._in_flight.items()):
            patience_s = self._patience_s(node)
            if now - sent.heard >= patience_s:
                self._fail(node, sent.fetch, TimeoutError(f"no answer for {patience_s:g} s"))

    def _fail(self, node: int, fetch: _Fetch, error: OSError) -> None:
        """Note a connection that broke. A fetch over a kept connection is sent again at once, over a new one."""
        was_kept = node in self._kept
        self.failure = error
        self._drop(node)
        if was_kept:
            log.info("A connection to broker %s that was kept is dead: %s. It is made again.", node, error)
            self._send(node, fetch)
        else:
            self._pauses.failed(node)
            self._failed.append(Answer(tuple(fetch.wanted), None))

    def _drop(self, node: int) -> None:
        self._in_flight.pop(node, None)
        self._kept.discard(node)
        opening, _ = self._opening.pop(node, (None, None))
        if opening is not None:
            opening.abandon()
        connection = self._open.pop(node, None)
        if connection is not None:
            connection.close()
