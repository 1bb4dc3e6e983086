"""Questions to new leaders about the records that former leaders have written (KIP-320), to fake brokers."""

from __future__ import annotations

import time

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from flip27_stream.connectors.kafka.client import epoch_round
from flip27_stream.connectors.kafka.client.epoch_round import UNKNOWN_END
from flip27_stream.connectors.kafka.split import LATEST
from flip27_stream.testing import wait_until
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import ALL, FIRST, SECOND, connected

REQUEST = "OffsetForLeaderEpochRequest"


def test_each_leader_is_asked_once() -> None:
    """The answers about offsets have the epochs of the leaders. All leaders are asked at the same time."""
    with fake_cluster(3) as cluster, connected(cluster) as client:
        cluster.epoch, cluster.kept = 7, 60
        (ends,) = client.list_offsets(dict.fromkeys(ALL, LATEST), read_committed=False)
        assert {at.epoch for at in ends.values()} == {7}
        assert client.epoch_ends(dict.fromkeys(ALL, 6)) == dict.fromkeys(ALL, 60)
        assert [broker.requests[REQUEST] for broker in cluster.brokers] == [1, 1, 1]


def test_a_partition_whose_leader_has_changed_is_asked_about_again() -> None:
    with fake_cluster(3) as cluster, connected(cluster) as client:
        cluster.errors[FIRST] = iter([6])
        assert client.epoch_ends(dict.fromkeys(ALL, 6)) == dict.fromkeys(ALL - {FIRST}, 100)
        wait_until(lambda: client.epoch_ends({FIRST: 6}) == {FIRST: 100}, "the answer of the new leader", 30)


@pytest.mark.parametrize("error", [29, 35])
def test_a_leader_that_refuses_cannot_say(error: int) -> None:
    """A query without the right, or of a broker that does not know the request, goes on as before."""
    with fake_cluster(2) as cluster, connected(cluster) as client:
        cluster.errors[FIRST] = iter([error])
        assert client.epoch_ends({FIRST: 6, SECOND: 6}) == {FIRST: UNKNOWN_END, SECOND: 100}
        cluster.kept = -1
        assert client.epoch_ends({SECOND: 6}) == {SECOND: UNKNOWN_END}


def test_a_broker_without_the_request_cannot_say() -> None:
    with fake_cluster(2) as cluster, connected(cluster) as client:
        del cluster.brokers[0].versions[OffsetForLeaderEpochRequest]
        assert client.epoch_ends({FIRST: 6, SECOND: 6}) == {FIRST: UNKNOWN_END, SECOND: 100}


def test_a_silent_leader_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out after the wait, and gets no further request while it owes an answer."""
    monkeypatch.setattr(epoch_round, "FULL_S", 0.3)
    with fake_cluster(2) as cluster, connected(cluster) as client:
        # A broker answers the requests of a connection in order, so it answers no other request, either.
        cluster.brokers[0].silent_about = {REQUEST, "MetadataRequest"}
        began = time.monotonic()
        for _ in range(3):
            assert client.epoch_ends({FIRST: 6, SECOND: 6}) == {SECOND: 100}
        assert time.monotonic() - began < 5
        assert cluster.brokers[0].requests[REQUEST] == 1
