"""The way back from tasks to the coordinator: one message and one answer over TCP for each report of a task.

1. The listener sends a greeting: what it speaks, and a nonce that it uses for this one connection; or that it is busy.
2. The task sends the report: a header with the length and the SHA-256 of the JSON text, and their HMAC with the nonce
   under the query's key; then the text. The header alone proves who sends: of a stranger nothing more is kept.
3. The listener answers with an HMAC, too, which says that this report was taken.

No side writes twice before it reads, and both set TCP_NODELAY, so that no write waits for a delayed acknowledgement.
Nothing is ever unpickled. Reports are an optimisation: where the network forbids them, planning goes on with what it
knows itself.
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

# of the listener
_CLIENT_TIMEOUT_S = 10.0
_LOOK_AT_CLIENTS_S = 1.0
_MOST_AT_ONCE = 256
_GRACE_S = 0.1
_ACCEPT_RETRY_S = 0.1
_BACKLOG = 1024
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# of the task
_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 5.0
_TRIES = 3
_FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0


@dataclass(frozen=True)
class ReportAddress:
    """Where tasks send reports, and the key they prove themselves with."""

    host: str
    port: int
    key: bytes = field(repr=False)

    def prove(self, what: bytes, nonce: bytes, said: bytes) -> bytes:
        """The proof that one who knows the key said this, in answer to ``nonce``."""
        return hmac.digest(self.key, what + nonce + said, "sha256")


# ---- the listener ---------------------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """What a client said is no report of this query."""


class _Client:
    """A connection to the listener that has not brought its report yet."""

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
        """The report once it is complete.

        Raises:
            OSError, _RefusedError, ValueError, KeyError, TypeError, RecursionError, MemoryError: it will never come.
        """
        data = self.connection.recv(min(self._wanted - len(self._received), _CHUNK))
        if not data:
            raise _RefusedError("it hung up")
        self._received += data
        if len(self._received) < self._wanted:
            return None
        said, self._received = bytes(self._received), bytearray()
        if not self.has_proof:
            self._check(said)
            return None
        if hashlib.sha256(said).digest() != self._digest:
            raise _RefusedError("the text is not the one announced")
        return TaskReport.from_bytes(said)

    def answer(self) -> None:
        """Say that its report is taken."""
        self._send(self._address.prove(b"taken", self._nonce, self._digest))

    def _check(self, header: bytes) -> None:
        self._wanted, self._digest, proof = _HEADER.unpack(header)
        if not hmac.compare_digest(proof, self._address.prove(b"report", self._nonce, header[:-_MAC])):
            raise _RefusedError("it does not know the key")
        if not 0 < self._wanted <= _MAX_MESSAGE:
            raise _RefusedError(f"its report has {self._wanted} bytes, and at most {_MAX_MESSAGE} are taken")
        self.has_proof = True

    def _send(self, data: bytes) -> None:
        """Some bytes, which always fit what the system buffers for a connection."""
        if self.connection.send(data) != len(data):
            raise _RefusedError("it takes no answer")


class ReportListener:
    """Receives reports, in one thread of the planning process.

    A client that takes longer than 10 s is hung up on. At most 256 are heard at once, and fewer where the process may
    have few files open. Where more come, the oldest goes that has not proven in 0.1 s that it knows the key; if there
    is none, the new one is told that the listener is busy.

    Raises:
        OSError: nobody can listen at that address.
        ConnectorError: no thread can be started.
    """

    def __init__(self, bind_address: str, advertised_host: str) -> None:
        self._server = _server_at(bind_address)
        self.address = ReportAddress(advertised_host, self._server.getsockname()[1], os.urandom(32))
        self._most = _most_at_once()
        self._lock = threading.Lock()
        self._clients: dict[_Client, None] = {}
        """From the oldest to the youngest; used by the thread alone."""
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
        """The reports that came since the last call."""
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
            self._hang_up(client)
        self._selector.close()

    def _serve_or_survive(self) -> None:
        """Whatever is to blame, and it may be memory that ran out: nobody would notice that the thread has ended."""
        try:
            self._serve()
        except Exception:
            log.warning("reports were not taken for a moment", exc_info=True)
            time.sleep(_ACCEPT_RETRY_S)

    def _serve(self) -> None:
        """Those who are there now; waits for somebody for a moment."""
        for key, _ in self._selector.select(_LOOK_AT_CLIENTS_S):
            if key.data is None:
                self._accept()
            elif key.data in self._clients:
                self._hear(key.data)
        while self._hangs_up_on_one_older_than(_CLIENT_TIMEOUT_S, has_proof=True):
            pass

    def _accept(self) -> None:
        """One client; if others wait, the selector tells at once."""
        try:
            connection, _ = self._server.accept()
        except OSError as e:
            if e.errno in _EXHAUSTED and not self._has_room():
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
        if len(self._clients) < self._most or self._has_room():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.greet()
            self._selector.register(connection, selectors.EVENT_READ, client)
            self._clients[client] = None
        else:
            with connection:
                connection.send(_BUSY + bytes(_NONCE))

    def _hear(self, client: _Client) -> None:
        try:
            report = client.receive()
            if report is None:
                return
            with self._lock:
                self._received.append(report)
            client.answer()
        except BlockingIOError:
            return
        except Exception as e:  # noqa: BLE001 - whatever one client says, the others are heard
            log.info("a report was refused: %s", e)
        self._hang_up(client)

    def _has_room(self) -> bool:
        """Whether a client that has proven nothing was hung up on for a new one."""
        return self._hangs_up_on_one_older_than(_GRACE_S, has_proof=False)

    def _hangs_up_on_one_older_than(self, seconds: float, *, has_proof: bool) -> bool:
        """Whether it has, looking only at those without a proof unless ``has_proof``."""
        until = time.monotonic() - seconds
        for client in self._clients:
            if client.since >= until:
                return False
            if has_proof or not client.has_proof:
                self._hang_up(client)
                return True
        return False

    def _hang_up(self, client: _Client) -> None:
        del self._clients[client]
        self._selector.unregister(client.connection)
        client.connection.close()


def _most_at_once() -> int:
    """A part of the files that this process may have open; its other connections are to find enough of them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_AT_ONCE if soft == resource.RLIM_INFINITY else max(min(_MOST_AT_ONCE, soft // 4), 1)


def _server_at(bind_address: str) -> socket.socket:
    """A server at a free port of that host name or address."""
    host = bind_address.strip("[]") or None
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as e:
        raise OSError(f"{bind_address!r} is no host: {e}") from e
    family, *_, where = found[0]
    server = socket.create_server(where, family=family, backlog=_BACKLOG)
    server.setblocking(False)
    return server


# ---- the task -------------------------------------------------------------------------------------------------------


class _BusyError(Exception):
    """The listener is there, and did not take the report now."""


@dataclass
class _BackOff:
    """How long a listener is left alone that could not be reached: from 0.5 s, doubled up to 30 s."""

    wait_s: float = _FIRST_WAIT_S
    until: float = 0.0

    def failed(self) -> None:
        self.until = time.monotonic() + _jittered(self.wait_s)
        self.wait_s = min(2 * self.wait_s, LONGEST_WAIT_S)


_unreachable: dict[ReportAddress, _BackOff] = {}


def send_report(address: ReportAddress, report: TaskReport) -> bool:
    """Send ``report`` and wait until it is taken; false, and no error, if nobody takes it.

    A listener that is busy is asked again, after about 0.5 s and 1 s. One that cannot be reached is left alone, by all
    tasks of this process, for a time that grows from 0.5 s to 30 s.
    """
    back_off = _unreachable.get(address)
    if back_off is not None and back_off.until > time.monotonic():
        return False
    text = report.to_bytes()
    if len(text) > _MAX_MESSAGE:
        log.warning("a report of %d bytes is not sent: at most %d are taken", len(text), _MAX_MESSAGE)
        return False
    try:
        _deliver_patiently(address, text)
    except (OSError, UnicodeError, _BusyError) as e:  # of a host's name that cannot be one
        _unreachable.setdefault(address, _BackOff()).failed()
        log.info("no report to %s:%d: %s", address.host, address.port, e)
        return False
    _unreachable.pop(address, None)
    return True


def _deliver_patiently(
    address: ReportAddress, text: bytes, tries: int = _TRIES, wait_s: float = _FIRST_WAIT_S
) -> None:
    try:
        _deliver(address, text)
    except _BusyError:
        if tries == 1:
            raise
        time.sleep(_jittered(wait_s))
        _deliver_patiently(address, text, tries - 1, 2 * wait_s)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)


def _deliver(address: ReportAddress, text: bytes) -> None:
    """Raises _BusyError if the listener does not take the report now, OSError if it cannot be reached or is another."""
    where = (address.host.strip("[]"), address.port)
    with socket.create_connection(where, _CONNECT_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            _converse(connection, address, text)
        except (ConnectionResetError, BrokenPipeError) as e:
            raise _BusyError(f"it hung up: {e}") from e


def _converse(connection: socket.socket, address: ReportAddress, text: bytes) -> None:
    greeting = _received(connection, _GREETING)
    spoken, nonce = greeting[:-_NONCE], greeting[-_NONCE:]
    if spoken == _BUSY:
        raise _BusyError("it is busy")
    if spoken != _READY:
        raise ConnectionError("it is no listener of reports")
    digest = hashlib.sha256(text).digest()
    announced = _HEADER.pack(len(text), digest, b"")[:-_MAC]
    connection.settimeout(_ANSWER_TIMEOUT_S)
    connection.sendall(announced + address.prove(b"report", nonce, announced) + text)
    if not hmac.compare_digest(_received(connection, _MAC), address.prove(b"taken", nonce, digest)):
        raise ConnectionError("it is the listener of another query")


def _received(connection: socket.socket, length: int) -> bytes:
    received, deadline = b"", time.monotonic() + _ANSWER_TIMEOUT_S
    while len(received) < length:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        data = connection.recv(length - len(received))
        if not data:
            raise ConnectionResetError("the connection was closed")
        received += data
    return received
