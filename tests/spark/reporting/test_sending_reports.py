"""Tasks send reports to the listener, and queries stay correct when reports are lost."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.execution import task
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.spark.reporting import report_sender
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import TaskReport
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.report_kit import REPORT, all_are_reachable, is_alive, listener
from tests.support.module_time import replace_time
from watermark_alignment.table.batch_note import KEY, BatchNote

__all__ = ["all_are_reachable", "listener"]


def test_no_side_writes_twice_before_it_reads(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the listener nor the task writes twice before it reads, and both set TCP_NODELAY. Otherwise a write may
    wait for a delayed acknowledgement, 41 to 47 ms.
    """
    done: dict[str, list[str]] = {"listener": [], "task": []}
    no_delay: set[bool] = set()

    def watch(name: str, what: str) -> None:
        real = getattr(socket.socket, name)

        def watched(connection: socket.socket, *args: Any) -> Any:
            ports = connection.getsockname()[1], connection.getpeername()[1]
            if listener.address.port not in ports:  # a connection of another thread of this process
                return real(connection, *args)
            by = "listener" if ports[0] == listener.address.port else "task"
            no_delay.add(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            done[by] += ["write"] * (what == "write")
            result = real(connection, *args)
            done[by] += ["read"] * (what == "read")
            return result

        monkeypatch.setattr(socket.socket, name, watched, raising=False)

    for name, what in (("send", "write"), ("sendall", "write"), ("recv", "read")):
        watch(name, what)
    assert send_report(listener.address, REPORT)
    for actions in done.values():
        assert "write write" not in " ".join(actions)
    assert {side: actions.count("write") for side, actions in done.items()} == {"listener": 2, "task": 1}
    assert no_delay == {True}


def test_the_pause_before_an_unreachable_listener_is_tried_grows(
    listener: ReportListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed report the task does not try the listener again for a pause, which grows from 0.5 s to 30 s. The
    first report that is delivered resets the pause.
    """
    now, tries, closed = 0.0, 0, True
    deliver = report_sender._deliver

    def counted(*args: Any) -> None:
        nonlocal tries
        tries += 1
        if closed:
            raise ConnectionRefusedError
        deliver(*args)

    monkeypatch.setattr(report_sender, "_deliver", counted)
    monkeypatch.setattr(report_sender, "_jittered", lambda seconds: seconds)
    replace_time(monkeypatch, "flip27_stream.spark.reporting.report_sender", monotonic=lambda: now)
    for wait in (0.5, 1, 2, 4, 8, 16, 30, 30):
        before = tries
        assert not send_report(listener.address, REPORT)
        assert not send_report(listener.address, REPORT)
        assert tries == before + 1
        now += wait
    closed = False
    assert send_report(listener.address, REPORT)
    closed = True
    assert not send_report(listener.address, REPORT)
    assert report_sender._unreachable[listener.address].until == now + 0.5


def test_a_new_query_at_the_same_port_is_tried_at_once(listener: ReportListener) -> None:
    former = replace(listener.address, key=b"of a query that has ended")
    report_sender._unreachable[former] = report_sender._Backoff(until=float("inf"))
    assert is_alive(listener)


@pytest.mark.parametrize(
    "answer", [b"", b"flip27 1" + bytes(32), b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", None]
)
def test_an_answer_of_another_program_does_not_count(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report to another program that has the listener's port now counts as not delivered. That program cannot prove
    that it has received the report, and the task does not wait long.
    """
    monkeypatch.setattr(report_sender, "_ANSWER_TIMEOUT_S", 0.1)
    monkeypatch.setattr(report_sender, "_FIRST_WAIT_S", 0.01)
    clients: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = other.accept()
                    clients.append(client)
                    if answer is not None:
                        client.sendall(answer + bytes(32) if answer.startswith(b"flip27") else answer)
                        client.close()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        assert not send_report(ReportAddress("127.0.0.1", other.getsockname()[1], b"key"), REPORT)
        other.shutdown(socket.SHUT_RDWR)
        serving.join(60)
    for client in clients:
        client.close()


def test_a_wrong_host_name_does_not_fail_the_task() -> None:
    name = "label" * 20 + ".example"
    assert not send_report(ReportAddress(name, 1, b"key"), REPORT)
    with pytest.raises(OSError, match="is not a host name"):
        ReportListener(name, name)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("bind", "host"),
    [("localhost", "localhost"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "::1")],
)
def test_the_listener_takes_host_names_and_ipv6_addresses(bind: str, host: str) -> None:
    if ":" in bind and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    listener = ReportListener(bind, host)
    assert is_alive(listener)
    listener.close()


def test_no_thread_for_the_listener_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(ConnectorError, match="'flip27-reports' cannot be started: can't start new thread"):
        ReportListener("127.0.0.1", "127.0.0.1")


# ---- queries whose reports are lost ---------------------------------------------------------------------------------


def lost(query: DrivenQuery, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
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
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """I3: a query whose reports are lost makes the same batches as a query whose reports all arrive, because planning
    does not need reports.
    """
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
        for event_time in (200, 290, 310):
            for log in each.world.logs.values():
                log.append(event_time)
            while each.step(7):
                pass
    assert query.batches == whole.batches
    assert sum(map(len, query.batches)) == sum(map(len, query.world.logs.values()))


def test_watermarks_without_reports_are_warned_of_once(
    make: Callable[..., DrivenQuery],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """A warning says that watermarks are planned and not observed. It is logged once, after three batches without
    reports.

    The commits of such batches have the number of splits without a report.
    """
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
