"""Fetches from the brokers of a cluster, one in flight to each (Kafka's ``Fetcher``)."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from flip27_stream.connectors.kafka.client import KafkaClient
from flip27_stream.connectors.kafka.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.fetch_responses import VERSIONS, read_fetch_response
from flip27_stream.connectors.kafka.protocol import Fetched, FetchFrom, fetch_request
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError


@dataclass
class _InFlight:
    """A fetch that a broker was sent; ``heard`` is when it last said something (monotonic seconds)."""

    connection: FetchConnection
    partitions: Iterable[TopicPartition]
    version: int
    heard: float


@dataclass(frozen=True)
class Answer:
    """What a broker said to a fetch of ``partitions``; ``fetched`` is None if the connection broke."""

    partitions: Iterable[TopicPartition]
    fetched: Mapping[TopicPartition, Fetched] | None


class Fetcher:
    """Connections for fetches, made when they are needed and kept. One thread at a time.

    Attributes:
        client: finds the leaders.
        failure: why the last connection that broke did so, if nothing was answered since; for messages.
    """

    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.failure: OSError | None = None
        self._open: dict[int, FetchConnection] = {}
        self._in_flight: dict[int, _InFlight] = {}
        self._failed: list[Answer] = []
        self._grown: set[TopicPartition] = set()

    def close(self) -> None:
        self.give_up()
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self.client.close()

    def give_up(self) -> None:
        """Wait for no answer any more: a connection with a fetch in flight is good for nothing else."""
        for node in list(self._in_flight):
            self._drop(node)
        self._failed.clear()

    def is_busy(self, node: int) -> bool:
        return node in self._in_flight

    def partitions_in_flight(self) -> set[TopicPartition]:
        """The partitions asked for in fetches that are not answered."""
        asked = [fetch.partitions for fetch in self._in_flight.values()]
        asked += [answer.partitions for answer in self._failed]
        return {tp for partitions in asked for tp in partitions}

    def send(
        self, node: int, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> None:
        """Send a broker a fetch. If that fails, :meth:`next_answer` says so.

        Raises:
            AuthenticationError: the broker refused the credentials.
            ConnectorError: it is too old.
        """
        partitions = tuple(wanted)
        try:
            version = self._version()
            connection = self._connection(node)
            request = fetch_request(wanted, read_committed, max_bytes)
            request.rack_id = self.client.options.client_rack
            connection.send(request, version)
        except OSError as error:
            self._fail(node, partitions, error)
        else:
            self._in_flight[node] = _InFlight(connection, partitions, version, time.monotonic())

    def next_answer(self, seconds: float) -> Answer | None:
        """The answer of the first broker to answer within so many seconds. Its records are valid until the next call.

        Raises:
            ConnectorError: the broker refused.
        """
        self._grown = set()
        deadline = time.monotonic() + seconds
        while not self._failed:
            remaining = deadline - time.monotonic()
            for node in self._readable(max(remaining, 0)):
                if answer := self._receive(node):
                    return answer
            self._drop_silent()
            if remaining <= 0:
                break
        return self._failed.pop(0) if self._failed else None

    def partitions_under_way(self) -> set[TopicPartition]:
        """The partitions whose answer has begun to come, and went on coming in the last :meth:`next_answer`."""
        return self._grown

    def _version(self) -> int:
        least, most = VERSIONS
        try:
            version = self.client.version_of(FetchRequest, most)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise ConnectorError(
                f"The brokers speak no version of Fetch from {least} to {most}: {error}"
            ) from error
        if version < least:
            raise ConnectorError(
                f"The brokers speak version {version} of Fetch; Kafka 0.11 and later are supported."
            )
        return version

    def _connection(self, node: int) -> FetchConnection:
        connection = self._open.get(node)
        if connection is not None and connection.is_usable:
            return connection
        if connection is not None:
            self._open.pop(node).close()
        endpoint = self.client.endpoint(node)
        if endpoint is None:
            raise ConnectionError(f"broker {node} is not known any more")
        self._open[node] = FetchConnection(*endpoint, self.client.options)
        return self._open[node]

    def _readable(self, seconds: float) -> list[int]:
        if not self._in_flight:
            time.sleep(seconds)
        poll = select.poll()
        nodes = {fetch.connection.fileno(): node for node, fetch in self._in_flight.items()}
        for descriptor in nodes:
            poll.register(descriptor, select.POLLIN)
        return [nodes[descriptor] for descriptor, _ in poll.poll(seconds * 1000)] if nodes else []

    def _receive(self, node: int) -> Answer | None:
        fetch = self._in_flight[node]
        try:
            body = fetch.connection.receive()
            fetched = None if body is None else read_fetch_response(body, fetch.version)
        except (OSError, struct.error) as error:
            self._fail(node, fetch.partitions, error if isinstance(error, OSError) else OSError(str(error)))
            return None
        fetch.heard = time.monotonic()
        if fetched is None:
            self._grown.update(fetch.partitions)
            return None
        del self._in_flight[node]
        self.failure = None
        return Answer(fetch.partitions, fetched)

    def _drop_silent(self) -> None:
        """A broker that is frozen, or a connection that is half open, says nothing."""
        timeout_s = self.client.options.request_timeout_ms / 1000
        now = time.monotonic()
        for node, fetch in list(self._in_flight.items()):
            if now - fetch.heard >= timeout_s:
                self._fail(node, fetch.partitions, TimeoutError(f"no answer for {timeout_s:g} s"))

    def _fail(self, node: int, partitions: Iterable[TopicPartition], error: OSError) -> None:
        self.failure = error
        self._drop(node)
        self._failed.append(Answer(partitions, None))

    def _drop(self, node: int) -> None:
        self._in_flight.pop(node, None)
        connection = self._open.pop(node, None)
        if connection is not None:
            connection.close()
