"""What the first plan of a query asks of a cluster: each request costs it a round trip. By fake brokers."""

from __future__ import annotations

import errno

import pytest

from flip27_stream.connectors.kafka.connections import broker_connections
from flip27_stream.errors import UnreachableError
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import ALL, connected, ends, planning, until_heard


def test_a_broker_takes_the_connection_of_the_bootstrap_server_at_its_address() -> None:
    with fake_cluster(3) as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        assert [broker.connections for broker in cluster.brokers] == [1, 1, 1]


def test_a_bootstrap_server_that_is_no_broker_is_left() -> None:
    with fake_cluster(2) as cluster:
        load_balancer, broker = every = cluster.brokers
        cluster.brokers, cluster.leaders = [broker], dict.fromkeys(cluster.leaders, broker.node)
        try:
            with connected(cluster, bootstrap_servers=load_balancer.address) as client:
                until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
                assert (load_balancer.connections, broker.connections) == (1, 1)
        finally:
            cluster.brokers = every


def test_a_bootstrap_server_that_is_named_twice() -> None:
    """The broker takes one of the two connections, if there are two; the other one is closed."""
    with fake_cluster(1) as cluster:
        address = cluster.brokers[0].address
        with connected(cluster, bootstrap_servers=f"{address},{address}") as client:
            until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
            assert cluster.brokers[0].connections <= 2


def test_the_first_plan_makes_one_connection() -> None:
    """The initial discovery, and the plan that waits for it, use the same one."""
    with fake_cluster(1) as cluster, planning(cluster, {}) as query:
        assert query.ranges().keys() == {"t-0"}
        (broker,) = cluster.brokers
        assert broker.connections == 1
        asked = {name: broker.requests[name] for name in ("MetadataRequest", "ListOffsetsRequest")}
        assert asked == {"MetadataRequest": 3, "ListOffsetsRequest": 2}


def test_a_process_that_can_open_no_more_files_says_so_and_goes_on_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with fake_cluster(1) as cluster, connected(cluster) as client:
        with monkeypatch.context() as patched:
            patched.setattr(broker_connections, "NetworkSelector", full)
            with pytest.raises(UnreachableError, match=r"Too many open files.*ulimit -n"):
                client.topics()
            assert ends(client, cluster) == set()  # A plan asks again.
        until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
