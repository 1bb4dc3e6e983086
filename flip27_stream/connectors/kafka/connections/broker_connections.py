"""Connections to the brokers of one cluster, made when they are needed (``NetworkClient`` of Java's client)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors

from flip27_stream.connectors.kafka.connections.broker_connection import BrokerConnection
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.connections.transport_opener import TransportOpener
from flip27_stream.connectors.kafka.kafka_python.event_loop import Future, NetworkSelector
from flip27_stream.connectors.kafka.kafka_python.log_filter import quiet_kafka_python
from flip27_stream.errors import UnreachableError
from flip27_stream.exponential_backoff import exponential_backoff

quiet_kafka_python()

_LARGEST_RESPONSE = 256 << 20
"""The greatest response that is accepted, in bytes.

Planning asks for 32 MB at most. Only a larger record batch, or metadata of very many topics, is larger.
"""
_SILENT_S = 0.5


@dataclass
class _Broker:
    """The state of the connections to a broker.

    Attributes:
        host: The name or address of the broker.
        port: The port of the broker.
        current: The connection for new requests.
        former: The connection before ``current``. It was silent for so long that ``current`` was made; responses may
            still come over it.
        failures: The number of attempts to connect that failed in a row.
        retry_at: The time at which the next attempt may be made, in monotonic seconds.
        failure: The error with which the last connection failed or was lost.
        reached: Whether the broker had accepted that TCP connection.
    """

    host: str
    port: int
    current: BrokerConnection | None = None
    former: BrokerConnection | None = None
    failures: int = 0
    retry_at: float = 0.0
    failure: BaseException | None = None
    reached: bool = False

    @property
    def connections(self) -> list[BrokerConnection]:
        return [each for each in (self.current, self.former) if each is not None]


class BrokerConnections:
    """The connections to brokers: one to each, and a second one if the first one is silent. Not thread-safe.

    Brokers are identified by their ids; :meth:`know` sets their addresses. Bootstrap servers have negative ids.

    Raises:
        OptionError: The options of TLS are wrong.
        UnreachableError: This process can open no further files, or no temporary file for the key of this client.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._config = {
            **options.client_config(),
            "receive_message_max_bytes": _LARGEST_RESPONSE,
            "max_in_flight_requests_per_connection": 100,
            "slow_task_threshold_secs": 0,
        }
        try:
            options.security.ssl_context()  # A wrong option fails the first contact at once.
            self._loop = NetworkSelector(**self._config)
        except OSError as error:
            raise UnreachableError(
                f"No connection to the brokers at {options.bootstrap_servers} can be prepared on this machine: "
                f"{error}. Check the limit of open files of this process (ulimit -n), and the folder for temporary "
                "files."
            ) from error
        self._opener = TransportOpener(self._loop, options.security.ssl_context, options.socket_options)
        self._brokers: dict[int, _Broker] = {}

    def close(self) -> None:
        for broker in self._brokers.values():
            self._drop(broker)
        self._loop.close()

    def know(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Sets the addresses of all brokers. Connections to other brokers, or to former addresses, are closed.

        A broker at the address of a bootstrap server that is left out takes its connection.
        """
        former = {
            node: self._brokers.pop(node)
            for node, broker in list(self._brokers.items())
            if addresses.get(node) != (broker.host, broker.port)
        }
        servers = {(broker.host, broker.port): node for node, broker in former.items() if node < 0}
        for node, address in addresses.items():
            if node not in self._brokers:
                server = servers.pop(address, None)
                self._brokers[node] = _Broker(*address) if server is None else former.pop(server)
        for broker in former.values():
            self._drop(broker)

    def nodes(self) -> list[int]:
        """Returns the ids of the brokers: healthy brokers first, then the others, then the bootstrap servers."""
        shuffled = random.sample(list(self._brokers), len(self._brokers))
        return sorted(shuffled, key=lambda node: (node < 0, *self._doubt(self._brokers[node])))

    def address(self, node: int) -> tuple[str, int] | None:
        """Returns host and port of a broker; ``None`` if the broker is not known."""
        broker = self._brokers.get(node)
        return None if broker is None else (broker.host, broker.port)

    def failure(self, node: int) -> BaseException | None:
        """Returns the error of the last connection to a broker; ``None`` if it did not fail."""
        broker = self._brokers.get(node)
        return None if broker is None else broker.failure

    def was_reached(self, node: int) -> bool:
        """Returns whether a server accepted a TCP connection at the address of a broker."""
        broker = self._brokers[node]
        return broker.reached or any(each.reached for each in broker.connections)

    def closed_last_connection(self, node: int) -> bool:
        """Returns whether a server at the address of a broker accepted the last TCP connection and then closed it."""
        broker = self._brokers[node]
        timed_out = isinstance(
            broker.failure, (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
        )
        return broker.reached and broker.failure is not None and not timed_out

    def throttled_for(self, node: int) -> float:
        """Returns the time for which a broker accepts no requests from this client because of a quota, in seconds."""
        broker = self._brokers.get(node)
        return max((each.throttled_for for each in broker.connections), default=0.0) if broker else 0.0

    def last_heard(self, node: int) -> float:
        """Returns the time at which a broker last sent a byte over an open connection (monotonic s); 0 if never."""
        broker = self._brokers.get(node)
        return max((each.last_heard for each in broker.connections), default=0.0) if broker else 0.0

    def send(self, node: int, request: Any) -> Any:
        """Sends a request and returns the future (of kafka-python) of its response.

        The future fails at once if no connection to the broker may be attempted yet.
        """
        broker = self._brokers.get(node)
        if broker is None:
            return Future().failure(kafka_errors.UnknownBrokerIdError(node))
        self._close_idle()
        if broker.current is None or broker.current.closed:
            if time.monotonic() < broker.retry_at:
                return Future().failure(broker.failure or kafka_errors.NodeNotReadyError(node))
            broker.current = self._connect(node, broker)
        return broker.current.send_request(request)

    def send_anew(self, node: int, request: Any, since: float) -> Any:
        """Sends a request as :meth:`send` does, over a connection that was made after ``since`` (monotonic seconds).

        An older connection stays open beside the new one. Returns ``None`` if there are two older connections already.
        """
        broker = self._brokers.get(node)
        if broker is not None and broker.current is not None and broker.current.made <= since:
            if broker.former is not None:
                return None
            broker.former, broker.current = broker.current, None
        return self.send(node, request)

    def drop_former(self, node: int) -> None:
        """Closes the former connection to a broker, because the current one has received a response."""
        broker = self._brokers.get(node)
        if broker is not None and broker.former is not None:
            broker.former.close(kafka_errors.Cancelled("nothing came over this connection"))

    def wait(self, seconds: float) -> None:
        """Sends and receives until a byte was sent or received, but no longer than ``seconds``."""
        self._loop.poll(timeout_ms=max(0.0, seconds * 1000))
        for broker in self._brokers.values():
            if broker.former is not None and broker.current is not None:
                self._keep_one(broker, broker.former, broker.current)

    def _keep_one(self, broker: _Broker, former: BrokerConnection, current: BrokerConnection) -> None:
        """Keeps the former connection and closes the current one if the former one has received bytes after all."""
        if former.last_heard > current.made:
            broker.current, broker.former = former, None
            current.close(kafka_errors.Cancelled("the earlier connection works again"))
        elif former.is_idle:
            former.close()

    def _connect(self, node: int, broker: _Broker) -> BrokerConnection:
        server = f"{broker.host}:{broker.port}"
        made = BrokerConnection(self._loop, node, server, self._config, self._options.security.sasl)
        made.on_open(lambda: self._opened(broker))
        made.on_close(lambda why: self._lost(broker, made, why))
        options = self._options
        setup_ms = exponential_backoff(
            options.connection_setup_timeout_ms, options.connection_setup_timeout_max_ms, broker.failures
        )
        deadline = time.monotonic() + setup_ms / 1000
        attempt = broker.failures
        self._loop.call_soon(lambda: made.open(self._opener, broker.host, broker.port, deadline, attempt))
        return made

    def _opened(self, broker: _Broker) -> None:
        broker.failures, broker.retry_at = 0, 0.0
        # An invalid response is kept as the reason, because the next connection also gets it.
        if not isinstance(broker.failure, kafka_errors.InvalidReceiveError):
            broker.failure = None

    def _lost(self, broker: _Broker, lost: BrokerConnection, why: BaseException | None) -> None:
        broker.reached = lost.reached
        if broker.former is lost:
            broker.former = None
        if broker.current is lost:
            broker.current = None
        if why is None or isinstance(why, kafka_errors.Cancelled):
            return
        broker.failure = why
        if not lost.was_open:
            options = self._options
            backoff_ms = exponential_backoff(
                options.reconnect_backoff_ms, options.reconnect_backoff_max_ms, broker.failures
            )
            broker.failures += 1
            broker.retry_at = time.monotonic() + backoff_ms / 1000

    def _close_idle(self) -> None:
        idle_ms = self._options.connections_max_idle_ms
        rested = self._all() if idle_ms >= 0 else ()
        oldest = time.monotonic() - idle_ms / 1000
        for connection in list(rested):
            if connection.connected and connection.is_idle and connection.last_used < oldest:
                connection.close()

    def _all(self) -> Iterator[BrokerConnection]:
        return (each for broker in self._brokers.values() for each in broker.connections)

    def _drop(self, broker: _Broker) -> None:
        for connection in broker.connections:
            connection.close(kafka_errors.Cancelled("the broker is not used any more"))

    def _doubt(self, broker: _Broker) -> tuple[bool, bool]:
        """Returns the sort key of a broker: whether it failed, is silent or throttles; whether it is unconnected."""
        sent = broker.current.oldest_request if broker.current is not None else None
        silent = sent is not None and time.monotonic() - sent > _SILENT_S
        throttled = any(each.throttled_for for each in broker.connections)
        open_now = broker.current is not None and broker.current.connected
        return bool(broker.failures) or broker.former is not None or silent or throttled, not open_now
