"""Tests of the test kit's Kafka cluster: leaders are killed, frozen and restarted, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_stream.connectors.kafka.kafka_python.blocking_client import BlockingClient
from flip27_stream.testing import KafkaCluster, wait_until
from tests.spark.support.processes import alive
from tests.testing.support.killed_parents import killed_parent
from tests.testing.support.reading import read

pytestmark = pytest.mark.jvm


def test_leaders_can_be_killed_and_restarted() -> None:
    """Acknowledged records survive when leaders are killed, restarted, frozen and resumed."""
    with KafkaCluster() as cluster:
        assert cluster.nodes == [1, 2, 3]
        pids = [cluster.pid(node) for node in cluster.nodes]
        cluster.create_topic("t", 3)
        assert all(_knows(cluster, node, "t", 3) for node in cluster.nodes)
        cluster.write("t", [(0, 1, None, b"of three")])

        killed = cluster.leader_of("t", 0)
        cluster.kill(killed)
        assert not alive(pids[killed - 1])
        assert killed not in cluster.nodes
        frozen = cluster.leader_of("t", 0)
        assert frozen != killed
        cluster.write("t", [(0, 2, None, b"of two")])
        cluster.restart(killed)
        assert cluster.nodes == [1, 2, 3]

        cluster.pause(frozen)
        assert cluster.leader_of("t", 0) != frozen
        cluster.resume(frozen)
        cluster.write("t", [(0, 3, None, b"again of three")])
        written = [b"of three", b"of two", b"again of three"]
        # The node that was frozen may count as leader by itself for some time, and return an end offset of the past.
        wait_until(
            lambda: [record.value for record in read(cluster.bootstrap_servers, "t", 3)] == written,
            "all records",
            60,
        )

        cluster.pause(frozen)
        pids = [cluster.pid(node) for node in (1, 2, 3)]
        home = cluster._home
    assert not any(alive(pid) for pid in pids)
    assert home is not None
    assert not home.exists()


def _knows(cluster: KafkaCluster, node: int, topic: str, partitions: int) -> bool:
    """Returns whether a node names a leader of each partition."""
    with BlockingClient(cluster.address(node), 30_000) as client:
        (found,) = client.metadata(node, [topic]).topics
    return len(found.partitions) == partitions and all(each.leader_id > 0 for each in found.partitions)


def test_a_cluster_dies_with_the_process_that_started_it() -> None:
    script = """if True:
        import sys
        from flip27_stream.testing import KafkaCluster
        with KafkaCluster(2) as cluster:
            cluster.pause(2)
            print(cluster._home, cluster.pid(1), cluster.pid(2), flush=True)
            sys.stdin.read()
    """
    with killed_parent(script) as (home, *pids):
        assert all(alive(int(pid)) for pid in pids)
    wait_until(
        lambda: not any(alive(int(pid)) for pid in pids) and not Path(home).exists(), "the cluster's end"
    )
