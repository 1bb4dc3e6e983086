"""Connections of planning that hang while they open, that the network drops, and that close because they are idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.split import LATEST
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    FIRST,
    SECOND,
    THIRD,
    connected,
    ends,
    trusting,
    until_heard,
)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("hung", [1, 2])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_client_starts_although_some_bootstrap_servers_hang(
    certificate: Path, hung: int, encrypted: bool, try_first: Callable[[int], None]
) -> None:
    """The brokers accept connections, and answer neither ApiVersions nor the TLS handshake.

    Every start of a client succeeds, whichever broker it tries first.
    """
    security = trusting(certificate) if encrypted else SecurityOptions()
    with fake_cluster(certificate=certificate if encrypted else None) as cluster:
        for broker in cluster.brokers[:hung]:
            broker.hang()
        for place, first in enumerate(cluster.brokers):
            try_first(place)
            before = first.connections
            with connected(cluster, security=security, first_contact_timeout_ms=60_000) as client:
                assert client.topics(["t"]).keys() == {"t"}
                assert first.connections > before
                assert client.list_offsets({THIRD: LATEST}, read_committed=False)[0].keys() == {THIRD}


@pytest.mark.usefixtures("quick")
def test_a_client_starts_although_all_bootstrap_servers_are_slow() -> None:
    """A client whose bootstrap servers are all slow waits for one, and does not give up each of
    them for another one.
    """
    with fake_cluster() as cluster:
        for broker in cluster.brokers:
            broker.delay_s = 0.4
        with connected(cluster, first_contact_timeout_ms=60_000) as client:
            assert client.topics(["t"]).keys() == {"t"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_connection_that_hangs_while_it_opens_is_given_up(certificate: Path, encrypted: bool) -> None:
    """The partitions of a broker that hangs are missing. They come back when the broker answers again."""
    security = trusting(certificate) if encrypted else SecurityOptions()
    given = {"security": security, "connection_setup_timeout_ms": 400}
    with (
        fake_cluster(certificate=certificate if encrypted else None) as cluster,
        connected(cluster, **given) as client,
    ):
        hanging = cluster.brokers[1]
        hanging.hang()
        for _ in range(6):  # on a busy machine a healthy broker may miss a round
            until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        hanging.hang(False)
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("everywhere", [False, True])
def test_connections_that_the_network_dropped_silently_are_made_again(everywhere: bool) -> None:
    """A connection that the network cut silently is replaced within the same round, for offsets,
    metadata and fetches.
    """
    with fake_cluster() as cluster, connected(cluster) as client:
        for _ in range(3):
            assert ends(client, cluster) == {FIRST, SECOND, THIRD}
            for broker in cluster.brokers if everywhere else cluster.brokers[:1]:
                broker.strand()
        assert client.topics(["t"], 60_000).keys() == {"t"}
        assert ends(client, cluster, late=False) == {FIRST, SECOND, THIRD}
        for broker in cluster.brokers:
            broker.strand()
        wanted = dict.fromkeys(cluster.leaders, FetchFrom(0, 100))
        assert client.fetch(wanted, read_committed=False, max_bytes=100).keys() == wanted.keys()


def test_idle_connections_are_made_again() -> None:
    with fake_cluster(1) as cluster, connected(cluster, connections_max_idle_ms=50) as client:
        ends(client, cluster)
        before = cluster.brokers[0].connections
        time.sleep(0.1)
        ends(client, cluster)
        assert cluster.brokers[0].connections > before
