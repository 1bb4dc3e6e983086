"""Helpers for the tests of the report channel."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from flip27_stream.api import SourceEvent
from flip27_stream.spark.reporting import report_listener, report_sender
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport

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
    monkeypatch.setattr(report_sender, "_unreachable", {})


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReportListener]:
    monkeypatch.setattr(report_listener, "_LOOK_AT_CLIENTS_S", 0.05)
    listener = ReportListener("127.0.0.1", "127.0.0.1")
    yield listener
    listener.close()


def connected(listener: ReportListener) -> socket.socket:
    return socket.create_connection((listener.address.host, listener.address.port), 30)


def is_alive(listener: ReportListener) -> bool:
    """Whether the listener accepts a correct report."""
    return send_report(listener.address, REPORT) and listener.take() == [REPORT]
