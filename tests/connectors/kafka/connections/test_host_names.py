"""Host names whose lookup hangs, because no name server answers. Brokers with other names are heard."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flip27_stream.connectors.kafka.split import LATEST
from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    FIRST,
    SECOND,
    THIRD,
    connected,
    ends,
    until_heard,
)

HUNG = "localhost"


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Makes lookups of one name wait for an event, which the fixture returns."""
    event, lookup = threading.Event(), socket.getaddrinfo

    def slow(host: Any, *given: Any, **more: Any) -> Any:
        if host == HUNG and socket.AI_NUMERICHOST not in given:  # an address needs no name server
            event.wait(30)
        return lookup(host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    yield event
    event.set()


@pytest.mark.usefixtures("quick")
def test_broker_whose_name_is_not_resolved(answered: threading.Event) -> None:
    with fake_cluster() as cluster:
        cluster.brokers[1].host = HUNG
        with connected(cluster, connection_setup_timeout_ms=400) as client:
            for _ in range(4):
                assert ends(client, cluster) == {FIRST, THIRD}
            answered.set()
            until_heard(lambda: SECOND in ends(client, cluster))


@pytest.mark.usefixtures("unhurried", "answered")
@pytest.mark.parametrize("first", [0, 1, 2])
def test_bootstrap_servers_whose_names_are_not_resolved(try_first: Callable[[int], None], first: int) -> None:
    """A start of a client succeeds, whichever server it tries first."""
    try_first(first)
    with fake_cluster() as cluster:
        ports = [broker.port for broker in cluster.brokers]
        servers = f"{HUNG}:{ports[0]},127.0.0.1:{ports[1]},{HUNG}:{ports[2]}"
        with connected(cluster, bootstrap_servers=servers, first_contact_timeout_ms=10_000) as client:
            assert client.list_offsets({THIRD: LATEST}, read_committed=False)[0].keys() == {THIRD}


@pytest.mark.usefixtures("unhurried")
def test_name_that_does_not_exist() -> None:
    """The error about a host name that does not exist has the name."""
    with fake_cluster() as cluster:
        cluster.brokers[1].host = "no-such-host.invalid"
        with (
            connected(cluster, api_timeout_ms=1500) as client,
            pytest.raises(ConnectorError, match="no-such-host"),
        ):
            client.offsets({SECOND: LATEST}, read_committed=False)


@pytest.mark.usefixtures("unhurried")
def test_a_name_is_looked_up_in_the_caller_s_thread_if_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no thread can be started, the name is looked up in the caller's thread."""

    def refused(thread: threading.Thread) -> None:
        if thread.name == "flip27-kafka-lookup":
            raise ConnectorError("no thread")
        start(thread)

    monkeypatch.setattr("flip27_stream.connectors.kafka.connections.host_lookup.start", refused)
    with fake_cluster() as cluster:
        cluster.brokers[1].host = HUNG
        with connected(cluster) as client:
            assert client.list_offsets({SECOND: LATEST}, read_committed=False)[0].keys() == {SECOND}
