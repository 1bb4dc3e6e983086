"""The channel from tasks to the coordinator: one message and one answer over TCP for each report of a task.

1. The listener sends a greeting: its protocol and a nonce for this connection; or that it is busy.
2. The task sends the report: a header with the length and the SHA-256 of the JSON text, and the HMAC of both with the
   nonce under the query's key; then the text. The header alone proves that the sender has the key; without the proof
   the listener reads nothing more.
3. The listener answers with an HMAC, which proves that it has received this report.

No side writes twice before it reads, and both set TCP_NODELAY, so that no write waits for a delayed acknowledgement.
Nothing is unpickled. Reports are an optimisation: where the network forbids them, planning uses what it knows itself.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import os
import random
import resource
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.threads import start

__all__ = ["ReportAddress", "ReportListener", "SplitReport", "TaskReport", "send_report"]

log = logging.getLogger(__name__)

_READY, _BUSY = b"flip27 1", b"flip27 -"
_NONCE = _MAC = 32
_GREETING = len(_READY) + _NONCE
_HEADER = struct.Struct(f"!I{hashlib.sha256().digest_size}s{_MAC}s")
_MAX_MESSAGE = 16 * 1024 * 1024
_CHUNK = 256 * 1024

# limits of the listener
_CLIENT_TIMEOUT_S = 10.0
_LOOK_AT_CLIENTS_S = 1.0
_MOST_AT_ONCE = 256
_GRACE_S = 0.1
_ACCEPT_RETRY_S = 0.1
_BACKLOG = 1024
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# limits of a task
_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 5.0
_TRIES = 3
_FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0


@dataclass(frozen=True)
class ReportAddress:
    """Where tasks send reports.

    Attributes:
        host: The host name or address of the driver, as executors reach it.
        port: The port of the listener.
        key: The HMAC key of the query.
    """

    host: str
    port: int
    key: bytes = field(repr=False)

    def prove(self, what: bytes, nonce: bytes, said: bytes) -> bytes:
        """Returns the HMAC that proves that a sender with the key has sent ``said`` on a connection with ``nonce``.

        Args:
            what: The kind of message.
            nonce: The nonce of the connection.
            said: The content of the message.
        """
        return hmac.digest(self.key, what + nonce + said, "sha256")


# ---- the listener ---------------------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """A client has sent something other than a report of this query."""


class _Client:
    """A connection to the listener, before its report is complete."""

    def __init__(self, connection: socket.socket, address: ReportAddress) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.has_proof = False
        self._address = address
        self._nonce = os.urandom(_NONCE)
        self._digest = b""
        self._received = bytearray()
        self._wanted = _HEADER.size

    def greet(self) -> None:
        self._send(_READY + self._nonce)

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
        self._wanted, self._digest, proof = _HEADER.unpack(header)
        if not hmac.compare_digest(proof, self._address.prove(b"report", self._nonce, header[:-_MAC])):
            raise _RefusedError("the client does not have the key of this query")
        if not 0 < self._wanted <= _MAX_MESSAGE:
            raise _RefusedError(f"the report has {self._wanted} bytes; at most {_MAX_MESSAGE} are allowed")
        self.has_proof = True

    def _send(self, data: bytes) -> None:
        """Sends some bytes, which always fit the send buffer of a new connection."""
        if self.connection.send(data) != len(data):
            raise _RefusedError("the client does not read the answer")


class ReportListener:
    """Receives reports in one thread of the planning process.

    The connection of a client that takes longer than 10 s is closed. At most 256 clients are connected at a time, and
    fewer where the process may open few files. When a further one connects, the oldest connection is closed that has
    not proven within 0.1 s that it has the key. If there is none, the new client is told that the listener is busy.

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
        """Serves clients and logs any error, also a lack of memory: nobody would notice the end of the thread."""
        try:
            self._serve()
        except Exception:
            log.warning("The listener for reports failed and goes on", exc_info=True)
            time.sleep(_ACCEPT_RETRY_S)

    def _serve(self) -> None:
        """Serves the clients that are ready; waits 1 s at most for one."""
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
                connection.send(_BUSY + bytes(_NONCE))

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
            log.info("a report was refused: %s", e)
        self._disconnect(client)

    def _makes_room(self) -> bool:
        """Closes the oldest connection without a proof, for a new client; returns whether there was one."""
        return self._disconnects_one_older_than(_GRACE_S, has_proof=False)

    def _disconnects_one_older_than(self, seconds: float, *, has_proof: bool) -> bool:
        """Closes the oldest connection that is older than ``seconds``; returns whether there was one.

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
    """Returns how many clients may be connected: a quarter of the files that this process may open, and at most 256."""
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


# ---- the task -------------------------------------------------------------------------------------------------------


class _BusyError(Exception):
    """The listener is reachable, but did not accept the report now."""


@dataclass
class _BackOff:
    """How long a task does not connect to a listener that it could not reach: 0.5 s at first, doubled up to 30 s."""

    wait_s: float = _FIRST_WAIT_S
    until: float = 0.0

    def failed(self) -> None:
        self.until = time.monotonic() + _jittered(self.wait_s)
        self.wait_s = min(2 * self.wait_s, LONGEST_WAIT_S)


_unreachable: dict[ReportAddress, _BackOff] = {}


def send_report(address: ReportAddress, report: TaskReport) -> bool:
    """Sends ``report`` and waits for the answer of the listener. An undelivered report is logged and is no error.

    A busy listener is tried again after about 0.5 s and 1 s. A listener that cannot be reached is not tried by any task
    of this process for a time that grows from 0.5 s to 30 s.

    Returns:
        Whether the listener has received the report.
    """
    back_off = _unreachable.get(address)
    if back_off is not None and back_off.until > time.monotonic():
        return False
    text = report.to_bytes()
    if len(text) > _MAX_MESSAGE:
        log.warning("A report of %d bytes is not sent: at most %d are allowed", len(text), _MAX_MESSAGE)
        return False
    try:
        _deliver_with_retries(address, text)
    except (OSError, UnicodeError, _BusyError) as e:  # UnicodeError: of an invalid host name
        _unreachable.setdefault(address, _BackOff()).failed()
        log.info("no report to %s:%d: %s", address.host, address.port, e)
        return False
    _unreachable.pop(address, None)
    return True


def _deliver_with_retries(
    address: ReportAddress, text: bytes, tries: int = _TRIES, wait_s: float = _FIRST_WAIT_S
) -> None:
    try:
        _deliver(address, text)
    except _BusyError:
        if tries == 1:
            raise
        time.sleep(_jittered(wait_s))
        _deliver_with_retries(address, text, tries - 1, 2 * wait_s)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)


def _deliver(address: ReportAddress, text: bytes) -> None:
    """Sends the text of one report over a connection of its own.

    Raises:
        _BusyError: The listener does not accept the report now.
        OSError: The listener cannot be reached, or belongs to another query.
    """
    where = (address.host.strip("[]"), address.port)
    with socket.create_connection(where, _CONNECT_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            _converse(connection, address, text)
        except (ConnectionResetError, BrokenPipeError) as e:
            raise _BusyError(f"it closed the connection: {e}") from e


def _converse(connection: socket.socket, address: ReportAddress, text: bytes) -> None:
    greeting = _received(connection, _GREETING)
    spoken, nonce = greeting[:-_NONCE], greeting[-_NONCE:]
    if spoken == _BUSY:
        raise _BusyError("it is busy")
    if spoken != _READY:
        raise ConnectionError("the server at this address is not a listener for reports")
    digest = hashlib.sha256(text).digest()
    announced = _HEADER.pack(len(text), digest, b"")[:-_MAC]
    connection.settimeout(_ANSWER_TIMEOUT_S)
    connection.sendall(announced + address.prove(b"report", nonce, announced) + text)
    if not hmac.compare_digest(_received(connection, _MAC), address.prove(b"taken", nonce, digest)):
        raise ConnectionError("the server at this address is the listener of another query")


def _received(connection: socket.socket, length: int) -> bytes:
    received, deadline = b"", time.monotonic() + _ANSWER_TIMEOUT_S
    while len(received) < length:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        data = connection.recv(length - len(received))
        if not data:
            raise ConnectionResetError("the connection was closed")
        received += data
    return received
