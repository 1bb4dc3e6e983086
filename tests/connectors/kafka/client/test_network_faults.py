"""Plans over a network that hangs, is slow or drops connections, between the planner and a real broker with TLS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client import answer_deadlines, calls
from flip27_stream.testing import (
    Delay,
    FaultyNetwork,
    HalfOpen,
    HangInTls,
    KafkaBroker,
    Link,
    wait_until,
)
from tests.connectors.kafka.support.kit import EnumeratorQuery, running

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def network() -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running_network:
        yield running_network


@pytest.fixture(scope="module")
def secure(network: FaultyNetwork) -> Iterator[KafkaBroker]:
    with KafkaBroker(listeners=["SSL"], through=network.link) as broker:
        broker.create_topic("t")
        broker.write("t", [(0, i, None, b"v") for i in range(10)])
        yield broker


@pytest.fixture
def link(network: FaultyNetwork, secure: KafkaBroker) -> Iterator[Link]:
    yield network.links["SSL"]
    network.heal()


@pytest.fixture
def query(secure: KafkaBroker, link: Link) -> Iterator[EnumeratorQuery]:
    keys = secure.secure.broker_keys
    options = {
        "kafka.bootstrap.servers": secure.secure.bootstrap_servers("SSL"),
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(keys.trust_store("PEM")),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.socket.connection.setup.timeout.ms": "3000",
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    with running(KafkaSource(options, None)) as planned:
        wait_until(lambda: ends(planned) == {"t-0": 10}, "the end of the partition", 60)
        yield planned


def ends(query: EnumeratorQuery) -> dict[str, int]:
    return {split: at.end for split, at in query.ranges().items()}


def test_a_tls_handshake_that_hangs_is_tried_again(
    query: EnumeratorQuery, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TLS handshake that hangs ends at a deadline and is tried again. The partition comes back with the network."""
    monkeypatch.setattr(answer_deadlines, "FULL_S", 0.5)
    with link.apply(HangInTls()):
        link.cut()
        assert ends(query) == {}
    wait_until(lambda: ends(query) == {"t-0": 10}, "the end of the partition", 60)


def test_silently_dropped_connections_are_made_again(
    query: EnumeratorQuery, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Load balancers drop idle connections silently. The same plan asks again, over new connections."""
    monkeypatch.setattr(answer_deadlines, "FULL_S", 60.0)
    monkeypatch.setattr(answer_deadlines, "_GLANCE_S", 60.0)
    with link.apply(HalfOpen()):
        assert ends(query) == {"t-0": 10}


@pytest.mark.parametrize("seconds", [0.15, 0.5])
def test_a_broker_behind_a_slow_network_is_heard(
    query: EnumeratorQuery, link: Link, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The network is slow both ways, so each round trip of a handshake is. The broker is heard again
    after a missed round.
    """
    monkeypatch.setattr(answer_deadlines, "FULL_S", 1.0)
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 0.5)
    with link.apply(HangInTls()):
        link.cut()
        assert ends(query) == {}
    with link.apply(Delay(seconds)):
        wait_until(lambda: ends(query) == {"t-0": 10}, "the end of the partition", 60)
