"""Answers of fake leaders to ListOffsets that are not offsets."""

from __future__ import annotations

import itertools

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from flip27_stream.connectors.kafka.client import answer_deadlines, calls
from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from flip27_stream.errors import ConnectorError
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import FIRST, SECOND, THIRD, connected, ends


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes rounds wait for every answer and send no request again, however busy the machine is."""
    monkeypatch.setattr(answer_deadlines, "FULL_S", 60.0)
    monkeypatch.setattr(answer_deadlines, "_GLANCE_S", 60.0)
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 60.0)


@pytest.mark.parametrize("error", [-1, 1, 35, 43 + 44, 7, 999])
def test_offsets_are_asked_for_again_whatever_the_error(error: int) -> None:
    """Offsets are asked for again after an error, as by Java's client."""
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.errors[SECOND] = iter([error, error])
        assert ends(client, cluster) == {FIRST, SECOND, THIRD}
        cluster.errors[SECOND] = iter([error])
        assert client.end_offsets([SECOND], read_committed=False) == {SECOND: 100}


def test_offsets_that_this_client_must_not_know() -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.errors[SECOND] = itertools.repeat(29)
        with pytest.raises(ConnectorError, match=r"refused ListOffsets of t-1: TopicAuthorizationFailed"):
            ends(client, cluster)


@pytest.mark.parametrize("error", [35, 43])
def test_greatest_timestamp_that_a_leader_refuses_is_unknown(error: int) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.errors[SECOND, MAX_TIMESTAMP] = itertools.repeat(error)
        (found,) = client.list_offsets(dict.fromkeys(cluster.leaders, MAX_TIMESTAMP), read_committed=False)
        assert found.keys() == {FIRST, THIRD}
        assert cluster.brokers[1].requests["ListOffsetsRequest"] == 1


def test_time_that_a_leader_cannot_look_for() -> None:
    """Logs of Kafka before 0.10 have no timestamps. The answer is that no record is so late."""
    with fake_cluster(1) as cluster, connected(cluster) as client:
        cluster.errors[FIRST, 5] = itertools.repeat(43)
        assert client.offsets({FIRST: 5}, read_committed=False) == {FIRST: -1}


@pytest.mark.parametrize("old", [0, 1, 2])
def test_versions_are_those_of_the_leader_asked(old: int) -> None:
    """During a rolling upgrade only the leader before Kafka 3.0 has no greatest timestamp, whichever
    broker is connected first.
    """
    with fake_cluster() as cluster:
        cluster.brokers[old].versions[ListOffsetsRequest] = 5
        for _ in range(4):
            with connected(cluster) as client:
                (latest, greatest) = client.list_offsets(
                    dict.fromkeys(cluster.leaders, LATEST),
                    dict.fromkeys(cluster.leaders, MAX_TIMESTAMP),
                    read_committed=False,
                )
            assert latest.keys() == {FIRST, SECOND, THIRD}
            assert greatest.keys() == latest.keys() - {TopicPartition("t", old)}
