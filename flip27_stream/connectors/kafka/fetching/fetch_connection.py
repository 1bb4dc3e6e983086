"""A connection to one broker for fetches: a blocking socket and one buffer.

A response is received in place and parsed without a copy. kafka-python encodes the requests and authenticates.
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

from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.freed_memory import return_freed_memory
from flip27_stream.connectors.kafka.kafka_python.api_versions import ask_versions, version_of
from flip27_stream.connectors.kafka.kafka_python.messages import decoded, encoded
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslCredentials
from flip27_stream.connectors.kafka.sasl.sasl_steps import run_sasl, sasl_steps
from flip27_stream.connectors.kafka.tls.tls_refusal import tls_refusal
from flip27_stream.errors import ConnectorError, OptionError

_HEAD = struct.Struct(">ii")  # The size of the rest, and the correlation id.
_SIZE = struct.Struct(">i")
_KEPT_BUFFER = 17 << 20
"""The greatest buffer that is used again (bytes): a little more than ``kafka.fetch.max.bytes`` by default."""
_LARGEST_GREETING = 1 << 20
"""The greatest response (bytes) while a connection is set up, as in planning."""
LARGEST_BATCH = 1 << 30
"""The greatest record batch (bytes). A broker sends the first batch of a response whole, even if it is larger."""
# A wait for more of a large response ends at this number of bytes. If it ended at each byte, the task and the broker
# would wake each other for every 70 kB.
_LARGE_PART = 512 << 10
_MOST_AHEAD = 16 << 20
"""The greatest mark while a task does something else. Linux allows half of the third number of ``tcp_rmem``."""
# The share of a session's life time; when it is over, the broker closes the connection (KIP-368).
_RENEW_AT = 0.85
_NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class FetchConnection:
    """An open, authenticated connection with one request in flight at most. Not thread-safe.

    Args:
        host: The name or address of the broker.
        port: The port of the broker.
        options: The connection options.
        within_s: The time limit for connecting in seconds, if it is shorter than that of the options.
        attempt: The number of attempts that failed before this one.

    Attributes:
        endpoint: Host and port of the broker.
        name: ``host:port`` of the broker, for messages.
        versions: The versions of requests that the broker supports.

    Raises:
        OSError: The broker cannot be reached, does not answer in time, or a certificate of the options is not on disk.
        AuthenticationError: The broker refused the credentials, or its certificate is not trusted.
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
        self._wakes_at = 1
        self._largest = _LARGEST_GREETING
        self._used = time.monotonic()
        self._expires = float("inf")
        self.endpoint = (host, port)
        self.name = f"{host}:{port}"
        timeout_ms = min(options.connection_setup_timeout_ms, options.request_timeout_ms)
        self._deadline = time.monotonic() + min(timeout_ms / 1000, within_s)
        self._socket = _connect(host, port, options, self._deadline, attempt)
        self._is_encrypted = isinstance(self._socket, ssl.SSLSocket)
        try:
            self.versions = ask_versions(self._ask)
            if options.security.sasl is not None:
                self._authenticate(host, options.security.sasl)
        except BaseException:
            self._socket.close()
            raise

    @property
    def received(self) -> int:
        """The number of bytes of the current response that have been received."""
        return self._received

    @property
    def waits_for_large_parts(self) -> bool:
        """Whether the socket becomes readable only when a large part of the response has come (``SO_RCVLOWAT``).

        On Linux, smaller parts can be received nevertheless.
        """
        return self._wakes_at > 1

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent, if no other request is in flight.

        The connection must be open, must have been used within ``connections.max.idle.ms``, and its session must not be
        about to end.
        """
        is_fresh = self.idle_s * 1000 < self._options.connections_max_idle_ms
        return is_fresh and time.monotonic() < self._expires and not self._wait_readable(0)

    @property
    def idle_s(self) -> float:
        """The time since a byte was sent or received, in seconds."""
        return time.monotonic() - self._used

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def version_of(self, request: Any, least: int, most: int) -> int:
        """Returns the greatest version of a request type that the broker supports, within bounds.

        Args:
            request: The request type of kafka-python.
            least: The least version.
            most: The greatest version.

        Raises:
            ConnectorError: The broker supports no such version.
        """
        try:
            return version_of(request, self.versions, least, most)
        except IncompatibleBrokerVersion as error:
            raise ConnectorError(
                f"Broker {self.name} supports no version of {request.name} from {least} to {most}; Kafka 0.11 and "
                f"later are supported. ({error})"
            ) from error

    def send(self, request: Any, version: int, largest: int = _LARGEST_GREETING) -> None:
        """Sends a request of kafka-python.

        Args:
            request: The request.
            version: The version of the request.
            largest: The greatest accepted size of the response, in bytes.

        Raises:
            OSError: Sending failed, or took longer than the request timeout.
        """
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._largest = largest
        self._send(encoded(request, version, self._correlation_id, self._options.client_id))

    def receive_ahead(self, most: int) -> None:
        """Lets the system receive megabytes of the response, ``most`` bytes, before the next call of :meth:`receive`.

        A broker sends 200 kB by default before it waits for an acknowledgement (``socket.send.buffer.bytes``). Linux
        delays the acknowledgement by up to 40 ms if nobody takes the bytes, but not while they are fewer than
        ``SO_RCVLOWAT`` (``__tcp_ack_snd_check``).
        """
        with contextlib.suppress(OSError):  # Systems other than Linux may not have the option.
            self._wake_at(min(most + _LARGE_PART, _MOST_AHEAD))

    def receive(self) -> memoryview | None:
        """Receives without waiting. Returns the body of the response; ``None`` if it is not complete yet.

        The body is valid until the next call.

        Raises:
            OSError: The connection is broken, or the response belongs to another request.
        """
        try:
            while self._received < _HEAD.size:
                self._take(memoryview(self._head)[self._received :])
                if self._received == _HEAD.size:
                    self._body = self._room()
            while (missing := _HEAD.size + len(self._body) - self._received) > 0:
                if self._take(self._body[-missing:]) < missing and not self._is_encrypted:
                    raise BlockingIOError  # It has taken all that there was.
        except _NOT_YET:
            missing = _HEAD.size + len(self._body) - self._received
            self._wake_at(_LARGE_PART if missing > 2 * _LARGE_PART else 1)
            return None
        self._wake_at(1)
        return self._body

    def _wake_at(self, received: int) -> None:
        """Sets the number of received bytes from which on the socket is readable."""
        if received != self._wakes_at:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, received)
            self._wakes_at = received

    def _send(self, data: bytes) -> None:
        self._received, self._body = 0, memoryview(b"")  # a large response is freed as soon as it is decoded
        self._socket.settimeout(self._options.request_timeout_ms / 1000)
        self._socket.sendall(data)
        self._socket.setblocking(False)
        self._used = time.monotonic()

    def _take(self, into: memoryview) -> int:
        count = self._socket.recv_into(into)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        self._received += count
        self._used = time.monotonic()
        return count

    def _room(self) -> memoryview:
        """Returns the memory for the body, after a check of correlation id and size, which come first."""
        size, correlation_id = _HEAD.unpack(self._head)
        if correlation_id != self._correlation_id or size < 4:
            raise ConnectionAbortedError(
                "the server does not speak Kafka's protocol, or answers another request"
            )
        if size > self._largest:
            raise ConnectionAbortedError(
                f"the broker announces a response of {size} bytes; at most {self._largest} are accepted"
            )
        size -= 4
        if size <= len(self._kept):
            return self._kept.data[:size]
        self._kept = np.empty(0, np.uint8)
        if size > _KEPT_BUFFER:
            return_freed_memory()
            return np.empty(size, np.uint8).data
        self._kept = np.empty(size, np.uint8)
        return self._kept.data

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
        """Returns the response to a request of the connection set-up: ApiVersions or SASL."""
        self.send(request, version)
        while (body := self.receive()) is None:
            self._wait_for_more()
        try:
            return decoded(request, version, self._correlation_id, bytes(body))
        except (ValueError, IndexError, struct.error) as error:
            raise ConnectionAbortedError(f"the response to {request.name} cannot be read: {error}") from error

    def _ask_raw(self, token: bytes) -> bytes:
        """Returns the broker's answer to a SASL token that is sent without a request around it."""
        self._send(_SIZE.pack(len(token)) + token)
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        if not 0 <= size <= _LARGEST_GREETING:
            raise ConnectionAbortedError("the server does not speak Kafka's protocol")
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
    """Returns a socket that is connected to one of the addresses of a host.

    The remaining time is divided among the addresses. Each attempt begins with another address, so that an address that
    hangs does not fail all attempts.

    Raises:
        OSError: No address accepted the connection, or the host has no address.
    """
    try:
        found = socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"'{host}' is not a valid host name: {error}") from error
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
    """Returns a connected socket in non-blocking mode, with TLS if the options say so."""
    plain = _reached(host, port, deadline, attempt)
    try:
        for option in options.socket_options:
            plain.setsockopt(*option)
        plain.setblocking(False)
        try:
            context = options.security.ssl_context()
        except OptionError as error:
            # The client's first contact has read the files, so they are being replaced now.
            raise ConnectionError(str(error)) from error
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
    """Makes the TLS handshake.

    Raises:
        TimeoutError: The handshake is not complete at ``deadline`` (monotonic seconds), even if the broker sends bytes.
    """
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
            raise TimeoutError("the TLS handshake was not complete in time")
