"""A connection to one broker that fetches go over: a blocking socket and one buffer, with nothing in between.

A response is received in place and looked at without a copy. kafka-python encodes the requests, and says how to
authenticate.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import struct
import time
from typing import Any

import numpy as np
from kafka.errors import IncompatibleBrokerVersion

from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.kafka_python.api_versions import ask_versions
from flip27_stream.connectors.kafka.kafka_python.messages import decoded, encoded
from flip27_stream.connectors.kafka.security.sasl import run_sasl, sasl_steps
from flip27_stream.connectors.kafka.security.security_options import SaslCredentials
from flip27_stream.connectors.kafka.security.tls_refusal import tls_refusal
from flip27_stream.errors import ConnectorError

_HEAD = struct.Struct(">ii")  # size of what follows, correlation id
_SIZE = struct.Struct(">i")
_KEPT_BUFFER = 16 << 20
_LARGEST_TOKEN = 1 << 20
_RENEW_AT = 0.85  # of a session's life time; brokers end connections that outlive it (KIP-368)
_NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class FetchConnection:
    """An open, authenticated connection with at most one request in flight; one thread at a time.

    Args:
        host: of the broker.
        port: of the broker.
        options: of all connections.
        within_s: how long connecting may take, if that is less than the options say.
        attempt: how many attempts failed before this one.

    Attributes:
        endpoint: host and port of the broker.
        name: the same, for messages.
        versions: of requests, that this broker speaks.

    Raises:
        OSError: the broker can't be reached, or does not answer in time.
        AuthenticationError: it refused the credentials, or presents a certificate that is not trusted.
    """

    def __init__(
        self,
        host: str,
        port: int,
        options: ConnectionOptions,
        within_s: float = math.inf,
        attempt: int = 0,
    ) -> None:
        self._options = options
        self._correlation_id = 0
        self._head = bytearray(_HEAD.size)
        self._body = memoryview(b"")
        self._kept = np.empty(0, np.uint8)
        self._received = 0
        self._used = time.monotonic()
        self._expires = float("inf")
        self.endpoint = (host, port)
        self.name = f"{host}:{port}"
        timeout_ms = min(options.connection_setup_timeout_ms, options.request_timeout_ms)
        self._deadline = time.monotonic() + min(timeout_ms / 1000, within_s)
        self._socket = _connect(host, port, options, self._deadline, attempt)
        try:
            self.versions = ask_versions(self._ask)
            if options.security.sasl is not None:
                self._authenticate(host, options.security.sasl)
        except BaseException:
            self._socket.close()
            raise

    @property
    def received(self) -> int:
        """Bytes of the response under way that are there."""
        return self._received

    @property
    def is_usable(self) -> bool:
        """Whether a connection without a request in flight is good for one.

        It is open, was used within ``connections.max.idle.ms``, and its session is not about to end.
        """
        is_fresh = self.idle_s * 1000 < self._options.connections_max_idle_ms
        return is_fresh and time.monotonic() < self._expires and not self._wait_readable(0)

    @property
    def idle_s(self) -> float:
        """Seconds since a byte went over it."""
        return time.monotonic() - self._used

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def version_of(self, request: Any, least: int, most: int) -> int:
        """The greatest version of a kind of request (of kafka-python) in these bounds that the broker speaks.

        Raises:
            ConnectorError: it speaks no such version.
        """
        try:
            return int(self.versions.api_version(request, min_version=least, max_version=most))
        except IncompatibleBrokerVersion as error:
            raise ConnectorError(
                f"Broker {self.name} speaks no version of {request.name} from {least} to {most}; Kafka 0.11 and later "
                f"are supported. ({error})"
            ) from error

    def send(self, request: Any, version: int) -> None:
        """Send a request of kafka-python. OSError if that takes longer than the request time-out."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._send(encoded(request, version, self._correlation_id, self._options.client_id))

    def receive(self) -> memoryview | None:
        """The body of the response, if all of it has come; valid until the next call. Does not wait.

        Raises:
            OSError: the connection is broken, or what came answers another request.
        """
        try:
            while self._received < _HEAD.size:
                self._take(memoryview(self._head)[self._received :])
                if self._received == _HEAD.size:
                    self._body = self._room()
            while (missing := _HEAD.size + len(self._body) - self._received) > 0:
                self._take(self._body[-missing:])
        except _NOT_YET:
            return None
        return self._body

    def _send(self, data: bytes) -> None:
        self._received = 0
        self._socket.settimeout(self._options.request_timeout_ms / 1000)
        self._socket.sendall(data)
        self._socket.setblocking(False)
        self._used = time.monotonic()

    def _take(self, into: memoryview) -> None:
        count = self._socket.recv_into(into)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        self._received += count
        self._used = time.monotonic()

    def _room(self) -> memoryview:
        """The memory for the body. The correlation id is checked first, so that only a response takes memory."""
        size, correlation_id = _HEAD.unpack(self._head)
        if correlation_id != self._correlation_id or size < 4:
            raise ConnectionAbortedError("it does not speak Kafka's protocol, or answers another request")
        size -= 4
        if size <= len(self._kept):
            return self._kept.data[:size]
        room = np.empty(size, np.uint8)
        if size <= _KEPT_BUFFER:
            self._kept = room
        return room.data

    def _wait_readable(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))

    def _authenticate(self, host: str, sasl: SaslCredentials) -> None:
        steps = sasl_steps(self.name, host, sasl, self.versions)
        session_ms = run_sasl(steps, self._ask, self._ask_raw)
        if session_ms > 0:
            self._expires = time.monotonic() + _RENEW_AT * session_ms / 1000

    def _ask(self, request: Any, version: int) -> Any:
        """The response to a request that comes before fetches: ApiVersions or SASL."""
        self.send(request, version)
        while (body := self.receive()) is None:
            self._wait_for_more()
        try:
            return decoded(request, version, self._correlation_id, bytes(body))
        except (ValueError, IndexError, struct.error) as error:
            raise ConnectionAbortedError(f"its response to {request.name} can't be read: {error}") from error

    def _ask_raw(self, token: bytes) -> bytes:
        """The token with which a broker answers a token that was sent without a request around it."""
        self._send(_SIZE.pack(len(token)) + token)
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        if not 0 <= size <= _LARGEST_TOKEN:
            raise ConnectionAbortedError("it does not speak Kafka's protocol")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        self._received = 0
        while self._received < size:
            with contextlib.suppress(*_NOT_YET):
                self._take(memoryview(data)[self._received :])
                continue
            self._wait_for_more()
        return bytes(data)

    def _wait_for_more(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0 or not self._wait_readable(remaining):
            raise TimeoutError("no answer while connecting")


def _reached(host: str, port: int, deadline: float, attempt: int) -> socket.socket:
    """A socket to one of a host's addresses.

    Each address gets its share of the time. Each attempt begins with another address, so that one that hangs does no
    harm.

    Raises:
        OSError: no address took the connection, or the host has no address.
    """
    try:
        found = socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"'{host}' is no name of a host: {error}") from error
    first = attempt % len(found)
    others = [*found[first:], *found[:first]]
    while True:
        family, kind, protocol, _, where = others.pop(0)
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(max(0.001, (deadline - time.monotonic()) / (len(others) + 1)))
            made.connect(where)
        except BaseException as error:
            made.close()
            if not (others and isinstance(error, OSError)):
                raise
        else:
            return made


def _connect(
    host: str, port: int, options: ConnectionOptions, deadline: float, attempt: int
) -> socket.socket:
    """A socket in non-blocking mode, with TLS where the options say so."""
    plain = _reached(host, port, deadline, attempt)
    try:
        for option in options.socket_options:
            plain.setsockopt(*option)
        plain.setblocking(False)
        context = options.security.ssl_context()
        if context is None:
            return plain
        encrypted = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        plain.close()
        raise
    try:
        _shake_hands(encrypted, deadline)
    except ssl.SSLCertVerificationError as error:
        encrypted.close()
        raise (tls_refusal(f"{host}:{port}", error) or error) from error
    except BaseException:
        encrypted.close()
        raise
    return encrypted


def _shake_hands(connection: ssl.SSLSocket, deadline: float) -> None:
    """Do the TLS handshake. TimeoutError if it is not done by then, however often the broker sends a byte."""
    while True:
        poll = select.poll()
        try:
            connection.do_handshake()
        except ssl.SSLWantReadError:
            poll.register(connection, select.POLLIN)
        except ssl.SSLWantWriteError:
            poll.register(connection, select.POLLOUT)
        else:
            return
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            raise TimeoutError("the TLS handshake is not done in time")
