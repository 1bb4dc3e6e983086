"""Fetch connections that are kept between tasks, and that networks and brokers drop, close or slow down meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.fetching import broker_pauses
from flip27_stream.connectors.kafka.fetching import fetcher as fetcher_module
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher
from flip27_stream.testing import wait_until
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import FIRST, connected, trusting
from tests.connectors.kafka.support.fetch_server import OPTIONS, TP, fetch, fetching, frame, records, response
from tests.support.certificates import make_certificate
from tests.support.module_time import replace_time


def answer(connection: socket.socket, request: bytes) -> None:
    connection.sendall(frame(request, response(b"abc")))


@pytest.fixture
def quick_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_module, "_DOUBT_S", 0.05)


@pytest.mark.usefixtures("quick_doubt")
def test_connection_that_the_network_dropped_is_made_again_within_the_same_fetch() -> None:
    """Azure forgets a connection after 4 minutes and tells neither end, so a request over it is never answered."""
    swallowed: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        if connection in dropped:
            swallowed.append(request)
        else:
            answer(connection, request)

    dropped: list[socket.socket] = []
    options = replace(OPTIONS, request_timeout_ms=60_000, fetch_max_wait_ms=50)
    with fetching(serve, options) as (server, fetcher):
        for task in range(3):
            assert records(fetch(fetcher)) == b"abc"
            fetcher.give_up()
            dropped.append(server.connections[-1])
            assert len(server.connections) == task + 1
        wait_until(lambda: len(swallowed) == 2, "the requests over connections that were dropped", 60)


@pytest.mark.usefixtures("quick_doubt")
def test_a_connection_that_was_quiet_within_a_task_is_made_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the rows of the last fetch took minutes, and the network has forgotten the connection meanwhile."""
    swallowed: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        if swallow.is_set() and connection is server.connections[0]:
            swallowed.append(request)
        else:
            answer(connection, request)

    swallow = threading.Event()
    options = replace(OPTIONS, request_timeout_ms=60_000, fetch_max_wait_ms=50)
    with fetching(serve, options) as (server, fetcher):
        fetch(fetcher)
        monkeypatch.setattr(fetcher_module, "_QUIET_S", 0.0)
        swallow.set()
        assert records(fetch(fetcher)) == b"abc"
        wait_until(lambda: len(swallowed) == 1, "the request over the first connection", 60)


@pytest.mark.usefixtures("quick_doubt")
def test_a_new_connection_gets_the_whole_time_limit() -> None:
    """A broker that is slow and not gone gets the fetch twice at most, and the client waits for its answer."""
    slow = threading.Event()

    def serve(connection: socket.socket, request: bytes) -> None:
        if slow.is_set() and connection is server.connections[0]:
            wait_until(lambda: len(server.connections) == 2, "a second connection", 60)
        elif slow.is_set():
            time.sleep(0.4)  # longer than the kept connection may take
        with suppress(OSError):
            answer(connection, request)

    with fetching(serve, replace(OPTIONS, fetch_max_wait_ms=50)) as (server, fetcher):
        fetch(fetcher)
        fetcher.give_up()
        slow.set()
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 2
        assert records(fetch(fetcher)) == b"abc"  # the connection has answered in this task
        assert len(server.connections) == 2


@pytest.mark.parametrize(
    "end",
    [
        lambda connection: connection.shutdown(socket.SHUT_RDWR),
        lambda connection: connection.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
    ],
)
def test_connection_that_ends_under_its_first_fetch_is_made_again(
    end: Callable[[socket.socket], None],
) -> None:
    """A broker closes a connection that was idle for long, just when the next fetch is sent."""
    kept: list[socket.socket] = []
    broken = threading.Event()

    def serve(connection: socket.socket, request: bytes) -> None:
        if connection in kept or broken.is_set():
            end(connection)
        else:
            answer(connection, request)

    with fetching(serve) as (server, fetcher):
        fetch(fetcher)
        fetcher.give_up()
        kept += server.connections
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 2
        fetcher.give_up()
        broken.set()
        assert fetch(fetcher).fetched is None  # the new connection ends, too: the caller gets no records
        assert len(server.connections) == 3


def test_idle_connection_is_not_used_for_longer_than_the_option_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that was idle for longer than ``kafka.connections.max.idle.ms`` is replaced. The option is for
    networks that forget sooner than brokers.
    """
    late = 0.0
    replace_time(
        monkeypatch,
        "flip27_stream.connectors.kafka.fetching.fetch_connection",
        monotonic=lambda: time.monotonic() + late,
    )
    with fetching(answer, replace(OPTIONS, connections_max_idle_ms=200_000)) as (server, fetcher):
        for idle_s, connections in ((0, 1), (100, 1), (201, 2), (50, 2)):
            late += idle_s
            assert records(fetch(fetcher)) == b"abc"
            assert len(server.connections) == connections


@pytest.mark.usefixtures("no_jitter")
def test_the_pause_before_an_unreachable_broker_is_tried_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that does not answer is left alone for ``reconnect.backoff.ms``, then for longer and longer, up to
    ``reconnect.backoff.max.ms``.
    """
    now = 1000.0
    replace_time(monkeypatch, "flip27_stream.connectors.kafka.fetching.broker_pauses", monotonic=lambda: now)
    pauses = broker_pauses.BrokerPauses(
        replace(OPTIONS, reconnect_backoff_ms=50, reconnect_backoff_max_ms=300)
    )
    waited = []
    for _ in range(5):
        pauses.failed(1)
        began = now
        while pauses.is_paused(1):
            now += 0.01
        waited.append(now - began)
        assert not pauses.is_paused(2)
    assert waited == pytest.approx([0.05, 0.1, 0.2, 0.3, 0.3], abs=0.02)
    pauses.answered(1, 0)
    assert not pauses.is_paused(1)


def test_the_pause_of_a_quota_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """KIP-219: a broker that asks for a pause gets no request until the pause is over. A long
    pause is warned of once.
    """

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"", throttle_ms=60_000)))

    with fetching(serve) as (_, fetcher):
        for _ in range(2):
            assert records(fetch(fetcher)) == b""
            assert fetcher.is_busy(1)
            assert fetcher.throttled_until(1) > time.monotonic() + 30
        assert not fetcher.is_busy(2)
    assert caplog.text.count("This client has used up its quota at broker 1") == 1


@pytest.mark.parametrize("wait_ms", [0, 500, 20_000])
def test_a_fetch_waits_for_its_first_byte_up_to_a_limit(wait_ms: int) -> None:
    """A fetch has the time of ``fetch.max.wait.ms``. Brokers with tiered storage may need long for the first byte."""
    asked: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        answer(connection, request)

    with fetching(serve, replace(OPTIONS, fetch_max_wait_ms=wait_ms)) as (_, fetcher):
        fetcher.send(1, {TP: FetchFrom(5, 1)}, read_committed=False, max_bytes=1)
        assert fetcher.next_answer(60) is not None
    replica_and_wait = b"\xff\xff\xff\xff" + wait_ms.to_bytes(4, "big")
    assert replica_and_wait in asked[0]


def test_a_certificate_that_is_being_replaced_on_disk_is_waited_for(tmp_path: Path) -> None:
    """A connection that is made while the file is away or half-written fails and is tried again, as in planning."""
    certificate, trusted = make_certificate(tmp_path / "broker.pem"), tmp_path / "trusted.pem"
    whole = certificate.read_bytes()
    trusted.write_bytes(whole)
    with (
        fake_cluster(1, certificate=certificate) as cluster,
        connected(cluster, security=trusting(trusted), reconnect_backoff_max_ms=20) as client,
        closing(Fetcher(client)) as fetcher,
    ):
        (node,) = set(client.leaders([FIRST]).values())

        def arrives() -> bool:
            if fetcher.is_busy(node):
                return False
            fetcher.send(node, {FIRST: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)
            while (got := fetcher.next_answer(0.05)) is None:
                pass
            return got.fetched is not None

        wait_until(arrives, "records", 30)
        trusted.unlink()
        cluster.brokers[0].cut()
        for content in (None, whole[:100]):
            if content is not None:
                trusted.write_bytes(content)
            fetcher.failure = None
            wait_until(lambda: arrives() or fetcher.failure is not None, "a connection that fails", 30)
            assert "ssl.truststore.location" in str(fetcher.failure)
        trusted.write_bytes(whole)
        wait_until(arrives, "records", 30)
