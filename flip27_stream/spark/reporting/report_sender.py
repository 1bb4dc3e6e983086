"""Sends the report of a task to the listener, with a backoff for a listener that cannot be reached."""

from __future__ import annotations

import hashlib
import hmac
import logging
import random
import socket
import time
from dataclasses import dataclass

from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.spark.reporting.report_channel import (
    BUSY,
    GREETING,
    HEADER,
    MAC,
    MAX_MESSAGE,
    NONCE,
    READY,
    ReportAddress,
)
from flip27_stream.spark.reporting.reports import TaskReport

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 5.0
_TRIES = 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0


class _BusyError(Exception):
    """The listener is reachable, but did not accept the report now."""


@dataclass
class _Backoff:
    """The pause of tasks after a listener could not be reached: 0.5 s, then doubled up to 30 s."""

    failures: int = 0
    until: float = 0.0

    def failed(self) -> None:
        wait_s = doubled_pause(_FIRST_WAIT_S, _LONGEST_WAIT_S, self.failures)
        self.until = time.monotonic() + _jittered(wait_s)
        self.failures += 1


_unreachable: dict[ReportAddress, _Backoff] = {}


def send_report(address: ReportAddress, report: TaskReport) -> bool:
    """Sends ``report`` and waits for the answer of the listener. An undelivered report is logged and is no error.

    A busy listener is tried again after about 0.5 s and 1 s. A listener that cannot be reached is not tried by any task
    of this process for a time that grows from 0.5 s to 30 s.

    Returns:
        Whether the listener has received the report.
    """
    backoff = _unreachable.get(address)
    if backoff is not None and backoff.until > time.monotonic():
        return False
    text = report.to_bytes()
    if len(text) > MAX_MESSAGE:
        log.warning("A report of %d bytes is not sent: at most %d are allowed", len(text), MAX_MESSAGE)
        return False
    try:
        _deliver_with_retries(address, text)
    except (OSError, UnicodeError, _BusyError) as e:  # UnicodeError: of an invalid host name
        _unreachable.setdefault(address, _Backoff()).failed()
        log.info("No report could be sent to %s:%d: %s", address.host, address.port, e)
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
            raise _BusyError(f"the listener closed the connection: {e}") from e


def _converse(connection: socket.socket, address: ReportAddress, text: bytes) -> None:
    greeting = _received(connection, GREETING)
    spoken, nonce = greeting[:-NONCE], greeting[-NONCE:]
    if spoken == BUSY:
        raise _BusyError("the listener is busy")
    if spoken != READY:
        raise ConnectionError("the server at this address is not a listener for reports")
    digest = hashlib.sha256(text).digest()
    announced = HEADER.pack(len(text), digest, b"")[:-MAC]
    connection.settimeout(_ANSWER_TIMEOUT_S)
    connection.sendall(announced + address.prove(b"report", nonce, announced) + text)
    if not hmac.compare_digest(_received(connection, MAC), address.prove(b"taken", nonce, digest)):
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
