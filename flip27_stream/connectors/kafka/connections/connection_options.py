"""The options of the connections to a Kafka cluster."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.kafka.security.security_options import SecurityOptions


@dataclass(frozen=True)
class ConnectionOptions:
    """The options of connections to a cluster. Hashable (for the pool) and picklable. Times in ms, sizes in bytes.

    Fields that are not listed are the options of Java's client with the same names.

    Attributes:
        request_timeout_ms: The time to wait for a response before the connection is closed.
        api_timeout_ms: The time for which requests are tried after the first contact (``default.api.timeout.ms``).
        first_contact_timeout_ms: The time for which the first contact is tried.
        fetch_max_wait_ms: The time that a broker may wait for the first byte before it answers a fetch.
        client_rack: The rack of this client, for brokers that let clients read from the nearest replica (KIP-392).
        dns_lookup: ``client.dns.lookup`` of Java's client.
        receive_buffer_bytes: The receive buffer of sockets; ``None`` for the default of the system.
        send_buffer_bytes: The send buffer of sockets; ``None`` for the default of the system.
    """

    bootstrap_servers: str
    client_id: str = "flip27-stream"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    first_contact_timeout_ms: int = 15_000
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    dns_lookup: str = "use_all_dns_ips"
    security: SecurityOptions = field(default_factory=SecurityOptions)
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    retry_backoff_ms: int = 50
    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    receive_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None

    @property
    def socket_options(self) -> list[tuple[int, int, int]]:
        """The arguments of ``socket.setsockopt`` for each connection."""
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        if self.receive_buffer_bytes is not None:
            options.append((socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes))
        if self.send_buffer_bytes is not None:
            options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes))
        return options

    def client_config(self) -> dict[str, Any]:
        """Returns keyword arguments for kafka-python, without credentials."""
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "client_id": self.client_id,
            "client_dns_lookup": self.dns_lookup,
            "request_timeout_ms": self.request_timeout_ms,
            "reconnect_backoff_ms": self.reconnect_backoff_ms,
            "reconnect_backoff_max_ms": self.reconnect_backoff_max_ms,
            "socket_connection_setup_timeout_ms": self.connection_setup_timeout_ms,
            "socket_connection_setup_timeout_max_ms": self.connection_setup_timeout_max_ms,
            "connections_max_idle_ms": self.connections_max_idle_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "socket_options": self.socket_options,
            "security_protocol": self.security.protocol,
        }
