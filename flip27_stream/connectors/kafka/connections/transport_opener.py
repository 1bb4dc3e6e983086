"""Opens sockets to brokers, with TLS or without, within a deadline.

kafka-python has a deadline for the TCP connection but not for the lookup of the host name and the TLS handshake, and
does not close sockets that failed.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.kafka.connections.host_lookup import HostLookup
from flip27_stream.connectors.kafka.kafka_python.transports import TcpTransport, TlsTransport
from flip27_stream.connectors.kafka.tls.tls_refusal import tls_refusal
from flip27_stream.errors import AuthenticationError


@dataclass(frozen=True)
class TransportOpener:
    """Opens transports on an event loop.

    Attributes:
        loop: The ``NetworkSelector`` of kafka-python.
        tls: Returns the TLS context, or ``None`` for connections without TLS. It is called for each connection, since
            certificates are renewed on disk while a query runs.
        socket_options: The arguments of ``socket.setsockopt``.
        lookup: Looks up host names.
    """

    loop: Any
    tls: Callable[[], ssl.SSLContext | None]
    socket_options: list[tuple[int, int, int]]
    lookup: HostLookup = field(default_factory=HostLookup)

    async def open(
        self, host: str, port: int, deadline: float, attempt: int, reached: Callable[[], None]
    ) -> Any:
        """Returns a transport that is ready for Kafka requests.

        If a host has several addresses, the remaining time is divided among them, and each attempt begins with another
        address.

        Args:
            host: A name or an address.
            port: The port of the broker.
            deadline: The time limit, in monotonic seconds.
            attempt: The number of attempts that failed before this one.
            reached: Called when a server has accepted the TCP connection.

        Raises:
            AuthenticationError: The certificate is not trusted, or the broker refused TLS.
            OSError: No address accepted the connection.
            KafkaTimeoutError: The deadline has passed.
        """
        found = await self.lookup.addresses(self.loop, host, port, deadline)
        first = attempt % len(found)
        others = [*found[first:], *found[:first]]
        while True:
            address = others.pop(0)
            now = time.monotonic()
            try:
                plain = await self._connected(address, now + (deadline - now) / (len(others) + 1))
                reached()
                return await self._encrypted(plain, host, port, now + (deadline - now) / (len(others) + 1))
            except AuthenticationError:
                raise
            except Exception:
                if not others:
                    raise

    async def _connected(self, address: Any, deadline: float) -> socket.socket:
        family, kind, protocol, _, where = address
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            for option in self.socket_options:
                made.setsockopt(*option)
            code = made.connect_ex(where)
            if code == errno.EINPROGRESS:
                await self.loop.wait_write(made, deadline)
                code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, f"{os.strerror(code)}, {errno.errorcode[code]}")
        except BaseException:
            made.close()
            raise
        return made

    async def _encrypted(self, plain: socket.socket, host: str, port: int, deadline: float) -> Any:
        try:
            if (context := self.tls()) is None:
                return TcpTransport(self.loop, plain, host=host)
            transport = TlsTransport(self.loop, plain, host=host, ssl_context=context)
        except BaseException:
            plain.close()
            raise
        try:
            await transport.handshake(deadline)
        except BaseException as error:
            transport.abort(error)
            if isinstance(error, OSError) and (refusal := tls_refusal(f"{host}:{port}", error)) is not None:
                raise refusal from error
            raise
        return transport
