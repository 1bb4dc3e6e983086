"""The listener for reports, with clients that send wrong, large or incomplete messages, stay connected, or connect at
the same time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import resource
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from flip27_stream.spark.reporting import report_listener, report_sender
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport
from flip27_stream.testing import wait_until
from tests.spark.support.report_kit import REPORT, all_are_reachable, connected, is_alive, listener
from tests.support.module_time import replace_time

__all__ = ["all_are_reachable", "listener"]


def is_disconnected(client: socket.socket) -> bool:
    """Waits until the listener closes the connection. What it has sent before is ignored."""
    client.settimeout(30)
    try:
        while client.recv(1024):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_report_arrives_as_it_was_sent(listener: ReportListener) -> None:
    assert is_alive(listener)
    assert listener.take() == []


def test_the_listener_binds_only_to_the_address_of_the_driver() -> None:
    listener = ReportListener("127.0.0.2", "127.0.0.2")
    try:
        assert is_alive(listener)
        # No connection to another address is tried: a server of another test may have the same port there.
        assert listener._server.getsockname() == ("127.0.0.2", listener.address.port)
    finally:
        listener.close()


def test_the_key_is_not_shown(listener: ReportListener) -> None:
    assert str(listener.address.key) not in repr(listener.address)
    assert len(listener.address.key) == 32


def test_a_client_without_the_key_is_refused(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_sender, "_FIRST_WAIT_S", 0.01)
    assert not send_report(replace(listener.address, key=b"another"), REPORT)
    assert is_alive(listener)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        struct.pack("!i", -5),
        struct.pack("!i", 2**31 - 1) + bytes(100),
        struct.pack("!iQ", -1, 2**62),
        bytes(68),
        b"\xff" * 100_000,
    ],
)
def test_a_client_of_another_protocol_is_refused(listener: ReportListener, said: bytes) -> None:
    with connected(listener) as client:
        client.sendall(said)
        with contextlib.suppress(OSError):  # the listener may have closed the connection
            client.shutdown(socket.SHUT_WR)
        assert is_disconnected(client)
    assert is_alive(listener)


def header(address: ReportAddress, nonce: bytes, said: bytes, length: int | None = None) -> bytes:
    """Returns the header of the message ``said``, with a proof of the key."""
    announced = struct.pack("!I", len(said) if length is None else length) + hashlib.sha256(said).digest()
    return announced + address.prove(b"report", nonce, announced)


def greeted(client: socket.socket) -> bytes:
    """Returns the nonce of the greeting. Fails if the listener is busy."""
    greeting = client.recv(40, socket.MSG_WAITALL)
    assert greeting[:8] == b"flip27 1"
    return greeting[8:]


def told(listener: ReportListener, said: bytes) -> None:
    """Sends ``said`` with a proof of the key, and waits until the listener has handled it."""
    with connected(listener) as client:
        client.sendall(header(listener.address, greeted(client), said) + said)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(REPORT.to_bytes()) | changes).encode()


def split(**changes: Any) -> list[Any]:
    """Returns the report about a split as JSON, with other values of some fields."""
    return list((SplitReport("a", 0, 9, rows=9)._asdict() | changes).values())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        changed(batch="3"),
        changed(batch=True),
        changed(task=1.5),
        changed(host=None),
        changed(splits={}),
        changed(splits=[1]),
        changed(splits=[{}]),
        changed(splits=["abcdefghijkl"]),
        changed(splits=[split(rows="9")]),
        changed(splits=[split(), split(rows=True)]),
        changed(splits=[split(max_event_time="now")]),
        changed(splits=[split(min_event_time=1.0)]),
        changed(splits=[split(split=7)]),
        changed(splits=[split(sample=None)]),
        changed(splits=[split(start=None)]),
        changed(splits=[split(colour="red")]),
        changed(splits=[split()[:-1]]),
        changed(events=[{"payload": 1}]),
        changed(events=["hello"]),
        changed(events=None),
        changed(failed=[1]),
        changed(failed="abc"),
    ],
)
def test_a_malformed_report_is_refused(listener: ReportListener, said: bytes) -> None:
    """The listener drops messages that are no correct report. A value of a wrong type would otherwise fail the plan
    that uses it, and so the query.
    """
    told(listener, said)
    assert listener.take() == []
    assert is_alive(listener)


@pytest.mark.parametrize("length", [0, 5001, 2**32 - 1])
def test_a_report_that_is_too_long_is_not_read(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """The listener does not read a report that is too long or has length 0. It closes the connection before the text
    has arrived.
    """
    for side in (report_listener, report_sender):
        monkeypatch.setattr(side, "MAX_MESSAGE", 5000)
    with connected(listener) as client:
        client.sendall(header(listener.address, greeted(client), b"x", length))
        assert is_disconnected(client)
    assert not send_report(listener.address, replace(REPORT, host="x" * 5000))
    assert is_alive(listener), "the sender did not even try, and so has no reason to leave the listener alone"


def test_another_text_than_the_one_announced_is_refused(listener: ReportListener) -> None:
    said = REPORT.to_bytes()
    with connected(listener) as client:
        client.sendall(header(listener.address, greeted(client), said) + said[::-1])
        assert is_disconnected(client)
    assert listener.take() == []


def test_a_recorded_report_cannot_be_sent_again(listener: ReportListener) -> None:
    """A message that was recorded on one connection is refused on another one. The proof in it is valid only for the
    nonce of its own connection.
    """
    said = REPORT.to_bytes()
    with connected(listener) as client:
        message = header(listener.address, greeted(client), said) + said
        client.sendall(message)
        assert len(client.recv(32, socket.MSG_WAITALL)) == 32
    assert listener.take() == [REPORT]
    with connected(listener) as client:
        greeted(client)
        client.sendall(message)
        assert is_disconnected(client)
    assert listener.take() == []


def test_only_the_header_of_a_client_without_the_key_is_read(listener: ReportListener) -> None:
    with connected(listener) as client:
        greeted(client)
        client.sendall(bytes(67))
        wait_until(lambda: [len(c._received) for c in listener._clients] == [67], "it to have come", 30)
        with contextlib.suppress(ConnectionError):
            client.sendall(bytes(1_000_000))
        assert is_disconnected(client)


def test_a_client_that_sends_too_slowly_is_disconnected(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener closes the connection of a client whose bytes each arrive in time, but whose whole message does
    not. A client with the key is treated the same.
    """
    monkeypatch.setattr(report_listener, "_CLIENT_TIMEOUT_S", 0.2)
    with connected(listener) as silent, connected(listener) as slow:
        with contextlib.suppress(OSError):  # a busy machine may be too slow
            slow.sendall(header(listener.address, greeted(slow), b"", 10_000_000))

        def goes_on() -> bool:
            try:
                slow.sendall(b"x")
            except OSError:
                return False
            return True

        wait_until(lambda: not goes_on(), "the slow client to be disconnected", 30)
        assert is_disconnected(silent)
    monkeypatch.undo()
    assert is_alive(listener)


# ---- many clients ---------------------------------------------------------------------------------------------------


def test_reports_of_tasks_that_end_together_are_all_received(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each report is delivered at the first try, although clients without the key hold 100 connections."""
    monkeypatch.setattr(report_sender, "_TRIES", 1)
    monkeypatch.setattr(report_listener, "_CLIENT_TIMEOUT_S", 60.0)
    for limit in ("_CONNECT_TIMEOUT_S", "_ANSWER_TIMEOUT_S"):
        monkeypatch.setattr(report_sender, limit, 60.0)
    monkeypatch.setattr(listener, "_most", 300)
    many = threading.Barrier(100)

    def end(number: int) -> bool:
        if number < 100:
            many.wait(60)
        return send_report(listener.address, replace(REPORT, task=number))

    with contextlib.ExitStack() as strangers:
        for _ in range(100):
            strangers.enter_context(connected(listener))
        with ThreadPoolExecutor(100) as tasks:
            assert all(tasks.map(end, range(400)))
    assert sorted(report.task for report in listener.take()) == [*range(400)]


def test_idle_clients_without_the_key_are_disconnected_for_reports(listener: ReportListener) -> None:
    with contextlib.ExitStack() as strangers:
        for _ in range(2 * listener._most):
            stranger = strangers.enter_context(connected(listener))
            stranger.sendall(b"\0" * random.randrange(68))
        assert is_alive(listener)
        assert len(listener._clients) <= listener._most


def test_the_listener_is_busy_while_all_its_clients_are_new(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener answers "busy" if it has no room for a client and all other clients are new. The client tries
    again, twice, after pauses of random length.
    """
    pauses: list[float] = []
    strangers = contextlib.ExitStack()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            strangers.close()
            wait_until(lambda: not listener._clients, "them to be gone", 30)

    monkeypatch.setattr(report_listener, "_GRACE_S", 3600)
    monkeypatch.setattr(listener, "_most", 2)
    with strangers:
        strangers.enter_context(connected(listener))
        strangers.enter_context(connected(listener))
        wait_until(lambda: len(listener._clients) == 2, "two clients", 30)
        with connected(listener) as third:
            assert third.recv(40, socket.MSG_WAITALL) == b"flip27 -" + bytes(32)
        replace_time(monkeypatch, "flip27_stream.spark.reporting.report_sender", sleep=pause)
        assert is_alive(listener)
    assert len(pauses) == 2
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


def test_a_client_with_the_key_is_not_disconnected_for_others(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_listener, "_GRACE_S", 0.0)
    monkeypatch.setattr(listener, "_most", 1)
    said = REPORT.to_bytes()
    with connected(listener) as slow:
        slow.sendall(header(listener.address, greeted(slow), said))
        wait_until(lambda: [c.has_proof for c in listener._clients] == [True], "the proof", 30)
        with connected(listener) as other:
            assert other.recv(8, socket.MSG_WAITALL) == b"flip27 -"
        slow.sendall(said)
        assert len(slow.recv(32, socket.MSG_WAITALL)) == 32
    assert listener.take() == [REPORT]


def test_the_listener_uses_a_quarter_of_the_files_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert report_listener._most_at_once() == 64
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert report_listener._most_at_once() == 256


def test_the_listener_goes_on_after_a_lack_of_files(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener goes on after it could not open a file for a connection. It closes a connection of a client
    without the key; without such a client, it waits and tries again.
    """
    server, failures = listener._server, [errno.EMFILE, errno.ECONNABORTED, errno.ENFILE]

    class Exhausted:
        def accept(self) -> tuple[socket.socket, Any]:
            if failures:
                number = failures.pop()
                raise OSError(number, os.strerror(number))
            return server.accept()

        def close(self) -> None:
            server.close()

    monkeypatch.setattr(listener, "_server", Exhausted())
    assert is_alive(listener)
    assert not failures


def test_the_listener_goes_on_after_a_lack_of_memory(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener goes on after a lack of memory, and after any other error that no client has caused. Nobody would
    notice that its thread has ended.
    """

    class Full:
        def __init__(self, *_: object) -> None:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(report_listener, "_Client", Full)
        with connected(listener):
            wait_until(lambda: bool(caplog.messages), "a warning")
    assert caplog.messages == ["The listener for reports failed and goes on"]
    assert is_alive(listener)
