"""The planner's client with partitions that have no leader, or one that errs, is silent or moves."""

from __future__ import annotations

import itertools
import time
from contextlib import closing

import pytest

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.split import EARLIEST
from flip27_stream.errors import UnreachableError
from tests.connectors.kafka.support.fake_cluster import FakeCluster, fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    ALL,
    BRIEF,
    FIRST,
    SECOND,
    THIRD,
    connected,
    ends,
    full_waits,
    planning,
    until_heard,
)


@pytest.mark.usefixtures("quick")
def test_partition_without_a_leader_costs_little(waits: dict[float, float]) -> None:
    """A partition without a leader costs one full wait for the election, and few later. Metadata is asked for
    once a second at most.
    """
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.leaders[SECOND] = -1
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        before = cluster.requests("MetadataRequest")
        took = seconds_of_rounds_without_second(client, cluster, waits)
        assert cluster.requests("MetadataRequest") - before <= 6 + 2 * took
        cluster.leaders[SECOND] = 3
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


def seconds_of_rounds_without_second(
    client: KafkaClient, cluster: FakeCluster, waits: dict[float, float]
) -> float:
    """Returns how long (s) ten rounds took. At most two of them wait in full for the second partition."""
    waits.clear()
    began = time.monotonic()
    for _ in range(10):
        assert SECOND not in ends(client, cluster)
    assert full_waits(waits) <= 2
    return time.monotonic() - began


@pytest.mark.usefixtures("quick")
def test_leader_that_always_errs_costs_little(waits: dict[float, float]) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.errors[SECOND] = itertools.repeat(6)
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        before = cluster.requests("MetadataRequest")
        took = seconds_of_rounds_without_second(client, cluster, waits)
        assert cluster.requests("MetadataRequest") - before <= 6 + 2 * took


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("partitions", [1, 3])
def test_leader_that_is_silent_and_replaced(partitions: int) -> None:
    with fake_cluster(3, partitions) as cluster, connected(cluster) as client:
        ends(client, cluster)
        cluster.brokers[0].freeze()
        assert FIRST not in ends(client, cluster)
        cluster.leaders[FIRST] = 3
        until_heard(lambda: FIRST in ends(client, cluster))


@pytest.mark.usefixtures("quick")
def test_a_client_finds_brokers_that_have_all_moved() -> None:
    """All brokers move to other addresses. The client asks the bootstrap servers within the same
    round, and finds them.
    """
    with fake_cluster(4) as cluster:
        load_balancer, *_, latest = every = cluster.brokers
        cluster.brokers = every[1:3]
        cluster.leaders = dict.fromkeys(cluster.leaders, 2)
        try:
            with closing(KafkaClient(ConnectionOptions(load_balancer.address))) as client:
                until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
                for broker in cluster.brokers:
                    broker.down()
                cluster.brokers, cluster.leaders = [latest], dict.fromkeys(cluster.leaders, 4)
                until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
        finally:
            cluster.brokers = every


def test_no_answer_about_a_partition_names_the_reason() -> None:
    with fake_cluster() as cluster, connected(cluster, api_timeout_ms=1500) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.leaders[SECOND] = -1
        with pytest.raises(UnreachableError, match=r"about t-1 within 1\.5 s: it has no leader"):
            client.offsets({FIRST: EARLIEST, SECOND: EARLIEST}, read_committed=False)
        cluster.leaders[SECOND] = 2
        cluster.brokers[1].down()
        with pytest.raises(UnreachableError, match=r"about t-1 .*broker 2 at 127.*refused"):
            client.offsets({SECOND: EARLIEST}, read_committed=False)


@pytest.mark.usefixtures("quick")
def test_partition_that_stays_unanswered_fails_the_query() -> None:
    """A partition that stays unanswered fails the query, after as long as Spark's source tries."""
    with fake_cluster() as cluster, planning(cluster, BRIEF) as query:
        until_heard(lambda: query.ranges().keys() == {"t-0", "t-1", "t-2"})
        cluster.brokers[1].freeze()
        with pytest.raises(UnreachableError, match=r"no answer about t-1 .*broker 2 at 127"):
            until_heard(lambda: query.ranges().keys() == {"t-1"})
