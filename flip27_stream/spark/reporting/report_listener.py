"""The listener of the planning process, which receives the reports of tasks."""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import os
import resource
import selectors
import socket
import threading
import time

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.reporting.report_channel import (
    BUSY,
    HEADER,
    MAC,
    MAX_MESSAGE,
    NONCE,
    READY,
    ReportAddress,
)
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_CLIENT_TIMEOUT_S = 10.0
_LOOK_AT_CLIENTS_S = 1.0
_MOST_AT_ONCE = 256
_GRACE_S = 0.1
_ACCEPT_RETRY_S = 0.1
_BACKLOG = 1024
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _RefusedError(Exception):
    """A client has sent something other than a report of this query."""


class _Client:
    """A connection to the listener, before its report is complete."""

    def __init__(self, connection: socket.socket, address: ReportAddress) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.has_proof = False
        self._address = address
        self._nonce = os.urandom(NONCE)
        self._digest = b""
        self._received = bytearray()
        self._wanted = HEADER.size

    def greet(self) -> None:
        self._send(READY + self._nonce)

    def receive(self) -> TaskReport | None:
        """Returns the report once it is complete; ``None`` before that.

        Raises:
            OSError, _RefusedError, ValueError, KeyError, TypeError, RecursionError, MemoryError: The report cannot be
                completed.
        """
        data = self.connection.recv(min(self._wanted - len(self._received), _CHUNK))
        if not data:
            raise _RefusedError("the client closed the connection")
        self._received += data
        if len(self._received) < self._wanted:
            return None
        said, self._received = bytes(self._received), bytearray()
        if not self.has_proof:
            self._check(said)
            return None
        if hashlib.sha256(said).digest() != self._digest:
            raise _RefusedError("the text does not match the hash in its header")
        return TaskReport.from_bytes(said)

    def answer(self) -> None:
        """Tells the client that its report is received."""
        self._send(self._address.prove(b"taken", self._nonce, self._digest))

    def _check(self, header: bytes) -> None:
        self._wanted, self._digest, proof = HEADER.unpack(header)
        if not hmac.compare_digest(proof, self._address.prove(b"report", self._nonce, header[:-MAC])):
            raise _RefusedError("the client does not have the key of this query")
        if not 0 < self._wanted <= MAX_MESSAGE:
            raise _RefusedError(f"the report has {self._wanted} bytes; at most {MAX_MESSAGE} are allowed")
        self.has_proof = True

    def _send(self, data: bytes) -> None:
        """Sends some bytes, which always fit the send buffer of a new connection."""
        if self.connection.send(data) != len(data):
            raise _RefusedError("the client does not read the answer")


class ReportListener:
    """Receives reports in one thread of the planning process.

    The connection of a client that takes longer than 10 s is closed. At most 256 clients are connected at a time, and
    fewer if the process may open only few files. When a further client connects, the oldest connection that has not
    proven within 0.1 s that it has the key is closed. Without such a connection, the new client is told that the
    listener is busy.

    Args:
        bind_address: The host name or address to listen at.
        advertised_host: The host name or address that tasks connect to.

    Raises:
        OSError: The process cannot listen at that address.
        ConnectorError: No thread can be started.
    """

    def __init__(self, bind_address: str, advertised_host: str) -> None:
        self._server = _server_at(bind_address)
        self.address = ReportAddress(advertised_host, self._server.getsockname()[1], os.urandom(32))
        self._most = _most_at_once()
        self._lock = threading.Lock()
        self._clients: dict[_Client, None] = {}
        """The connections, the oldest first; only the thread uses it."""
        self._received: list[TaskReport] = []
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        try:
            start(threading.Thread(target=self._run, name="flip27-reports", daemon=True))
        except ConnectorError:
            self._selector.close()
            self._server.close()
            raise

    def take(self) -> list[TaskReport]:
        """Returns the reports that came since the last call."""
        with self._lock:
            received, self._received = self._received, []
        return received

    def close(self) -> None:
        self._closed = True
        self._server.close()

    def _run(self) -> None:
        while not self._closed:
            self._serve_or_survive()
        for client in list(self._clients):
            self._disconnect(client)
        self._selector.close()

    def _serve_or_survive(self) -> None:
        """Serves clients. Any error, even a lack of memory, is logged and does not end the thread."""
        try:
            self._serve()
        except Exception:
            log.warning("The listener for reports failed and goes on", exc_info=True)
            time.sleep(_ACCEPT_RETRY_S)

    def _serve(self) -> None:
        """Serves the clients that are ready; waits for a client at most 1 s."""
        for key, _ in self._selector.select(_LOOK_AT_CLIENTS_S):
            if key.data is None:
                self._accept()
            elif key.data in self._clients:
                self._receive_from(key.data)
        while self._disconnects_one_older_than(_CLIENT_TIMEOUT_S, has_proof=True):
            pass

    def _accept(self) -> None:
        """Accepts one client; the selector reports further ones."""
        try:
            connection, _ = self._server.accept()
        except OSError as e:
            if e.errno in _EXHAUSTED and not self._makes_room():
                time.sleep(_ACCEPT_RETRY_S)
            return
        try:
            self._admit(connection)
        except Exception as e:
            connection.close()
            if not isinstance(e, OSError | _RefusedError):
                raise

    def _admit(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        client = _Client(connection, self.address)
        if len(self._clients) < self._most or self._makes_room():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.greet()
            self._selector.register(connection, selectors.EVENT_READ, client)
            self._clients[client] = None
        else:
            with connection:
                connection.send(BUSY + bytes(NONCE))

    def _receive_from(self, client: _Client) -> None:
        try:
            report = client.receive()
            if report is None:
                return
            with self._lock:
                self._received.append(report)
            client.answer()
        except BlockingIOError:
            return
        except Exception as e:  # noqa: BLE001 - an error of one client must not affect the others
            log.info("A report was refused: %s", e)
        self._disconnect(client)

    def _makes_room(self) -> bool:
        """Closes the oldest connection without a proof, for a new client; returns whether a connection was closed."""
        return self._disconnects_one_older_than(_GRACE_S, has_proof=False)

    def _disconnects_one_older_than(self, seconds: float, *, has_proof: bool) -> bool:
        """Closes the oldest connection that is older than ``seconds``; returns whether a connection was closed.

        Args:
            seconds: The age (s).
            has_proof: Whether connections that have proven that they have the key are closed, too.
        """
        until = time.monotonic() - seconds
        for client in self._clients:
            if client.since >= until:
                return False
            if has_proof or not client.has_proof:
                self._disconnect(client)
                return True
        return False

    def _disconnect(self, client: _Client) -> None:
        del self._clients[client]
        self._selector.unregister(client.connection)
        client.connection.close()


def _most_at_once() -> int:
    """Returns the greatest number of clients: a quarter of the files that this process may open, and at most 256."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_AT_ONCE if soft == resource.RLIM_INFINITY else max(min(_MOST_AT_ONCE, soft // 4), 1)


def _server_at(bind_address: str) -> socket.socket:
    """Returns a server socket at a free port of that host name or address."""
    host = bind_address.strip("[]") or None
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as e:
        raise OSError(f"{bind_address!r} is not a host name or address: {e}") from e
    family, *_, where = found[0]
    server = socket.create_server(where, family=family, backlog=_BACKLOG)
    server.setblocking(False)
    return server
