"""The listener of reports against clients that lie, shout, stammer and stay."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flip27_stream.api import SourceEvent
from flip27_stream.spark import report_channel, task
from flip27_stream.spark.rate_limit import UNLIMITED
from flip27_stream.spark.report_channel import (
    ReportAddress,
    ReportListener,
    SplitReport,
    TaskReport,
    send_report,
)
from flip27_stream.testing import wait_until
from tests.spark.driven_query import Query
from watermark_alignment.batch_note import KEY, BatchNote

REPORT = TaskReport(
    batch=3,
    task=1,
    subtask=1,
    host="worker",
    splits=(SplitReport("a", 0, 9, 9, 1_700_000_000_000), SplitReport("b", 4, 4, 0)),
    events=(SourceEvent("hello", {"a": [1, None]}),),
    split_requests=1,
    failed=("c",),
)


@pytest.fixture(autouse=True)
def all_are_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_channel, "_unreachable", {})


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReportListener]:
    monkeypatch.setattr(report_channel, "_LOOK_AT_CLIENTS_S", 0.05)
    listener = ReportListener("127.0.0.1", "127.0.0.1")
    yield listener
    listener.close()


def connected(listener: ReportListener) -> socket.socket:
    return socket.create_connection((listener.address.host, listener.address.port), 30)


def is_alive(listener: ReportListener) -> bool:
    """It takes a good report, and only that."""
    return send_report(listener.address, REPORT) and listener.take() == [REPORT]


def is_hung_up_on(client: socket.socket) -> bool:
    """Waits for it; what it was sent before is of no matter."""
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


def test_it_listens_at_the_address_of_the_driver_and_no_other() -> None:
    listener = ReportListener("127.0.0.2", "127.0.0.2")
    try:
        assert is_alive(listener)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.address.port), 30)
    finally:
        listener.close()


def test_the_key_is_no_part_of_what_is_shown(listener: ReportListener) -> None:
    assert str(listener.address.key) not in repr(listener.address)
    assert len(listener.address.key) == 32


def test_who_does_not_know_the_key_is_refused(listener: ReportListener) -> None:
    assert not send_report(replace(listener.address, key=b"another"), REPORT)
    report_channel._unreachable.clear()
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
        struct.pack("!i", 20) + b"#CHALLENGE#" + bytes(9),
    ],
)
def test_who_does_not_speak_the_protocol_is_refused(listener: ReportListener, said: bytes) -> None:
    with connected(listener) as client:
        client.sendall(said)
        with contextlib.suppress(OSError):  # it may have hung up by now
            client.shutdown(socket.SHUT_WR)
        assert is_hung_up_on(client)
    assert is_alive(listener)


def told(listener: ReportListener, said: bytes) -> None:
    """Say it as one who knows the key, and wait until it is dealt with."""
    address = listener.address
    with Client((address.host, address.port), authkey=address.key) as client:
        client.send_bytes(said)
        with pytest.raises((EOFError, ConnectionResetError)):
            client.recv_bytes()


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(REPORT.to_bytes()) | changes).encode()


SPLIT = {"split": "a", "start": 0, "end": 9, "rows": 9}


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
        changed(splits=[SPLIT | {"rows": "9"}]),
        changed(splits=[SPLIT | {"max_event_time": "now"}]),
        changed(splits=[SPLIT | {"split": 7}]),
        changed(splits=[SPLIT | {"colour": "red"}]),
        changed(events=[{"payload": 1}]),
        changed(events=["hello"]),
        changed(events=None),
        changed(failed=[1]),
        changed(failed="abc"),
    ],
)
def test_what_is_no_report_is_refused(listener: ReportListener, said: bytes) -> None:
    """A value of another type would only fail in the plan that uses it, and with it the query."""
    told(listener, said)
    assert listener.take() == []
    assert is_alive(listener)


def test_a_report_that_is_too_long_is_not_read(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_channel, "_MAX_MESSAGE", 5000)
    told(listener, changed(host="x" * 5000))
    assert is_alive(listener)


def test_who_says_little_by_little_is_hung_up_on(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its bytes comes in time; all together they do not."""
    monkeypatch.setattr(report_channel, "_CLIENT_TIMEOUT_S", 0.2)
    with connected(listener) as silent, connected(listener) as stammering:
        stammering.sendall(struct.pack("!i", 200))

        def goes_on() -> bool:
            try:
                stammering.sendall(b"x")
            except OSError:
                return False
            return True

        wait_until(lambda: not goes_on(), "the stammerer to be hung up on", 30)
        assert is_hung_up_on(silent)
    monkeypatch.undo()
    assert is_alive(listener)


def test_so_many_at_once_and_no_more(listener: ReportListener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_channel, "_MOST_AT_ONCE", 2)
    with connected(listener), connected(listener):
        wait_until(lambda: len(listener._clients) == 2, "two clients", 30)
        with connected(listener) as third:
            assert is_hung_up_on(third)
    wait_until(lambda: not listener._clients, "them to be gone", 30)
    assert is_alive(listener)


def test_a_closed_port_costs_one_try_a_minute(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.close()
    tries: list[tuple[str, int]] = []
    connect = socket.create_connection

    def counted(where: tuple[str, int], *args: Any) -> socket.socket:
        tries.append(where)
        return connect(where, *args)

    monkeypatch.setattr(socket, "create_connection", counted)
    assert [send_report(listener.address, REPORT) for _ in range(3)] == [False] * 3
    assert len(tries) == 1


# ---- queries whose reports are lost ---------------------------------------------------------------------------------


def lost(query: Query, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "port closed":
        assert query.coordinator._readers.address() is not None
        assert query.coordinator._readers._listener is not None
        query.coordinator._readers._listener.close()
        return
    sent: list[TaskReport] = []

    def lossy(address: ReportAddress, report: TaskReport) -> bool:
        sent.append(report)
        return len(sent) % 2 == 0 and send_report(address, report)

    monkeypatch.setattr(task, "send_report", lossy)


@pytest.mark.parametrize("how", ["port closed", "every second one dropped"])
def test_without_reports_queries_stay_correct_and_aligned(
    make: Callable[..., Query], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """I3: batches are those that a query makes all of whose reports arrive, for planning knows enough itself."""
    logs = {"a": [*range(0, 60, 3)], "b": [*range(0, 300, 7)], "c": [None, 5, 4, 40, 300]}
    options = {"scan.watermark.max-out-of-orderness": "2 ms", "scan.watermark.alignment.group": "other"}
    whole = make({name: [*log] for name, log in logs.items()}, **options)
    query = make(
        {name: [*log] for name, log in logs.items()}, **{"scan.watermark.max-out-of-orderness": "2 ms"}
    )
    for each in (whole, query):
        assert each.step(UNLIMITED)
        if each is query:
            lost(query, monkeypatch, how)
        for time in (200, 290, 310):
            for log in each.world.logs.values():
                log.append(time)
            while each.step(7):
                pass
    assert query.batches == whole.batches
    assert sum(map(len, query.batches)) == sum(map(len, query.world.logs.values()))


def test_that_watermarks_are_planned_and_not_observed_is_said(
    make: Callable[..., Query],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Once, after some batches none of whose reports came; and the commits of such batches tell."""
    query = make({"a": [1, 2, 3, 4, 5, 6, 7, 8]})
    for _ in range(2):
        query.step(1)
    lost(query, monkeypatch, "port closed")
    for _ in range(5):
        query.step(1)
    said = [message for message in caplog.messages if "watermarks are planned, not observed" in message]
    assert len(said) == 1
    query.coordinator.close()
    commits = DeltaTable(str(tmp_path / "table")).history()
    notes = [BatchNote.from_text(commit[KEY]) for commit in reversed(commits) if KEY in commit]
    assert [note.unreported for note in notes] == [0, 0, 0, 1, 1, 1, 1]
