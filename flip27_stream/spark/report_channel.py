"""The way back from tasks to the coordinator: one small JSON message a task, authenticated by a key drawn per query.

Reports are an optimisation. Where the network forbids them, planning goes on with what it knows itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, TypeVar

from flip27_stream.api import SourceEvent
from flip27_stream.errors import shortened

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 2.0
_IO_TIMEOUT_S = 5.0
_CLIENT_TIMEOUT_S = 10.0
_LOOK_AT_CLIENTS_S = 1.0
_MAX_MESSAGE = 16 * 1024 * 1024
_RETRY_UNREACHABLE_S = 60.0
_ACCEPT_RETRY_S = 0.1
_MOST_AT_ONCE = 256
_REFUSALS = (
    *(OSError, EOFError, AuthenticationError, AssertionError),  # of the connection
    *(ValueError, KeyError, TypeError, RecursionError, MemoryError),  # of what came over it
)


@dataclass(frozen=True)
class SplitReport:
    """What a task saw of one split's range; times in ms, ``None`` where no record had an event time."""

    split: str
    start: int
    end: int
    rows: int
    max_event_time: int | None = None
    disorder: int = 0
    implausible: int = 0


@dataclass(frozen=True)
class TaskReport:
    """The report of one task of one micro-batch.

    Attributes:
        batch: number of the micro-batch.
        task: number of the task in it.
        subtask: the reader slot that it ran as.
        host: where it ran.
        splits: what it read.
        events: messages to the enumerator.
        split_requests: how often the reader asked for a split.
        failed: ids of the splits of an attempt that failed; it read nothing that counts.
    """

    batch: int
    task: int
    subtask: int
    host: str = ""
    splits: Sequence[SplitReport] = ()
    events: Sequence[SourceEvent] = ()
    split_requests: int = 0
    failed: Sequence[str] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> TaskReport:
        """Raises ValueError, KeyError, TypeError or RecursionError if ``data`` is not a report."""
        d = json.loads(data)
        return TaskReport(
            batch=_whole(d["batch"]),
            task=_whole(d["task"]),
            subtask=_whole(d["subtask"]),
            host=_text(d["host"]),
            splits=tuple(_split_report(s) for s in _list(d["splits"])),
            events=tuple(SourceEvent(_text(e["name"]), e["payload"]) for e in _list(d["events"])),
            split_requests=_whole(d["split_requests"]),
            failed=tuple(_text(split) for split in _list(d["failed"])),
        )


def _split_report(told: Any) -> SplitReport:
    report = SplitReport(**told)
    _text(report.split)
    for number in (report.start, report.end, report.rows, report.disorder, report.implausible):
        _whole(number)
    if report.max_event_time is not None:
        _whole(report.max_event_time)
    return report


def _whole(value: Any) -> int:
    return _of(int, value)


def _text(value: Any) -> str:
    return _of(str, value)


def _list(value: Any) -> list[Any]:
    return _of(list, value)


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{shortened(repr(value))} is not of type {kind.__name__}")
    return value


@dataclass(frozen=True)
class ReportAddress:
    """Where tasks send reports, and the key they prove themselves with."""

    host: str
    port: int
    key: bytes = field(repr=False)


class ReportListener:
    """Receives reports, in the planning process; of a client that takes long it takes leave.

    Raises:
        OSError: nobody can listen at that address.
    """

    def __init__(self, bind_address: str, advertised_host: str) -> None:
        family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
        self._server = socket.create_server((bind_address.strip("[]"), 0), family=family)
        self._server.settimeout(_LOOK_AT_CLIENTS_S)
        self.address = ReportAddress(advertised_host, self._server.getsockname()[1], os.urandom(32))
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, float] = {}
        self._received: list[TaskReport] = []
        threading.Thread(target=self._accept, name="flip27-reports", daemon=True).start()

    def take(self) -> list[TaskReport]:
        """The reports that came since the last call."""
        with self._lock:
            received, self._received = self._received, []
        return received

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            self._hang_up_on_the_slow()
            try:
                client, _ = self._server.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._server.fileno() < 0:  # closed
                    return
                time.sleep(_ACCEPT_RETRY_S)
                continue
            with self._lock:
                if len(self._clients) >= _MOST_AT_ONCE:
                    client.close()
                    continue
                self._clients[client] = time.monotonic() + _CLIENT_TIMEOUT_S
            threading.Thread(target=self._receive, args=(client,), name="flip27-report", daemon=True).start()

    def _hang_up_on_the_slow(self) -> None:
        """Each read has a time-out, but a client may send a byte at a time."""
        with self._lock:
            now = time.monotonic()
            for client, deadline in self._clients.items():
                if now > deadline:
                    with contextlib.suppress(OSError):
                        client.shutdown(socket.SHUT_RDWR)

    def _receive(self, client: socket.socket) -> None:
        try:
            with _connection(client.dup()) as connection:
                deliver_challenge(connection, self.address.key)
                answer_challenge(connection, self.address.key)
                report = TaskReport.from_bytes(connection.recv_bytes(_MAX_MESSAGE))
                with self._lock:
                    self._received.append(report)
                connection.send_bytes(b"ok")
        except _REFUSALS as e:
            log.info("a report was refused: %s", e)
        finally:
            with self._lock:
                del self._clients[client]
            client.close()


_unreachable: dict[tuple[str, int], float] = {}


def send_report(address: ReportAddress, report: TaskReport) -> bool:
    """Send ``report`` and wait until it is taken; false, and no error, if nobody takes it."""
    where = (address.host, address.port)
    if _unreachable.get(where, 0.0) > time.monotonic():
        return False
    try:
        client = socket.create_connection((address.host.strip("[]"), address.port), _CONNECT_TIMEOUT_S)
        with _connection(client) as connection:
            answer_challenge(connection, address.key)
            deliver_challenge(connection, address.key)
            connection.send_bytes(report.to_bytes())
            return connection.recv_bytes(16) == b"ok"
    except (OSError, EOFError, AuthenticationError, AssertionError) as e:
        _unreachable[where] = time.monotonic() + _RETRY_UNREACHABLE_S
        log.info("no report to %s:%d: %s", *where, e)
        return False


def _connection(client: socket.socket) -> Connection[Any, Any]:
    """A blocking connection whose reads and writes give up after a while."""
    seconds = int(_IO_TIMEOUT_S).to_bytes(8, "little") + bytes(8)
    client.settimeout(None)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
    return Connection(client.detach())
