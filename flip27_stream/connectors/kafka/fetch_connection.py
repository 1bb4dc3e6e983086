"""A connection to one broker that fetches go over: a blocking socket and one buffer, with nothing in between.

A response is received in place and looked at without a copy. kafka-python encodes the requests, and says how to
authenticate.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from typing import Any

import numpy as np
from kafka import errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from flip27_stream.connectors.kafka.connection_options import ConnectionOptions
from flip27_stream.errors import AuthenticationError

_HEAD = struct.Struct(">ii")  # size of what follows, correlation id
_KEPT_BUFFER = 16 << 20
_RENEW_AT = 0.85  # of a session's life time; brokers end connections that outlive it (KIP-368)
_FAILED = kafka_errors.SaslAuthenticationFailedError.errno
_NOT_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class FetchConnection:
    """An open, authenticated connection with at most one request in flight; one thread at a time.

    Raises:
        OSError: the broker can't be reached, or does not answer in time.
        AuthenticationError: it refused the credentials, or presents a certificate that is not trusted.
    """

    def __init__(self, host: str, port: int, options: ConnectionOptions) -> None:
        self._options = options
        self._correlation_id = 0
        self._head = bytearray(_HEAD.size)
        self._body = memoryview(b"")
        self._kept = np.empty(0, np.uint8)
        self._received = 0
        self._expires = float("inf")
        self.name = f"{host}:{port}"
        timeout_s = min(options.connection_setup_timeout_ms, options.request_timeout_ms) / 1000
        self._socket = _connect(host, port, options, timeout_s)
        try:
            if options.security.sasl is not None:
                self._authenticate(host, time.monotonic() + timeout_s)
        except BaseException:
            self._socket.close()
            raise

    @property
    def received(self) -> int:
        """Bytes of the response under way that are there."""
        return self._received

    @property
    def is_usable(self) -> bool:
        """Whether a connection without a request in flight is good for one: open, and its session not about to end."""
        return time.monotonic() < self._expires and not self._wait_readable(0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        """Send a request of kafka-python. OSError if that takes longer than the request time-out."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation_id, client_id=self._options.client_id)
        self._received = 0
        self._socket.settimeout(self._options.request_timeout_ms / 1000)
        self._socket.sendall(request.encode(framed=True, header=True))
        self._socket.setblocking(False)

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

    def _take(self, into: memoryview) -> None:
        count = self._socket.recv_into(into)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        self._received += count

    def _room(self) -> memoryview:
        """Where the body goes. The id is looked at first, so that what is no response takes no memory."""
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

    def _authenticate(self, host: str, deadline: float) -> None:
        """SASL as brokers since 1.0 do it (KIP-152); KafkaClient has talked to this cluster before."""
        config = self._options.security.client_config()
        mechanism = config["sasl_mechanism"]
        answer = self._ask(SaslHandshakeRequest(mechanism=mechanism), 1, deadline)
        self._check_accepted(answer.error_code, f"it has {', '.join(answer.mechanisms)}")
        exchange = get_sasl_mechanism(mechanism)(host=host, **config)
        while not exchange.is_done():
            answer = self._ask(SaslAuthenticateRequest(exchange.auth_bytes()), 1, deadline)
            self._check_accepted(answer.error_code, answer.error_message)
            try:
                exchange.receive(answer.auth_bytes)
            except (ValueError, LookupError):  # what SCRAM's last word must be
                self._check_accepted(_FAILED, "the broker did not prove who it is")
        if not exchange.is_authenticated():
            self._check_accepted(_FAILED, "the broker did not prove who it is")
        if answer.session_lifetime_ms > 0:
            self._expires = time.monotonic() + _RENEW_AT * answer.session_lifetime_ms / 1000

    def _check_accepted(self, error: int, why: str | None) -> None:
        if error:
            kind = kafka_errors.for_code(error).__name__
            raise AuthenticationError(
                f"Broker {self.name} refused SASL {self._options.security.client_config()['sasl_mechanism']}: "
                f"{kind}, {why}. Check options 'kafka.sasl.mechanism' and 'kafka.sasl.jaas.config'."
            )

    def _ask(self, request: Any, version: int, deadline: float) -> Any:
        self.send(request, version)
        while (body := self.receive()) is None:
            if not self._wait_readable(deadline - time.monotonic()):
                raise TimeoutError("no answer while authenticating")
        return _response_class(request).decode(bytes(body), version=version)


def _response_class(request: Any) -> Any:
    return request.header.get_response_class()


def _connect(host: str, port: int, options: ConnectionOptions, timeout_s: float) -> socket.socket:
    """A socket in non-blocking mode."""
    plain = socket.create_connection((host, port), timeout_s)
    try:
        for option in options.socket_options:
            plain.setsockopt(*option)
        context = options.security.ssl_context()
        connected = plain if context is None else context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise AuthenticationError(
            f"The certificate of broker {host}:{port} is not trusted: {error.verify_message}. Check options "
            "'kafka.ssl.truststore.location' and 'kafka.ssl.endpoint.identification.algorithm'."
        ) from error
    except BaseException:
        plain.close()
        raise
    connected.setblocking(False)
    return connected
