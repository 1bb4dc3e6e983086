"""A client of a cluster of fake brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client import answer_deadlines
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import OffsetAndTimestamp
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from flip27_stream.connectors.kafka.tls.key_stores import StoreType, TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from tests.connectors.kafka.support.fake_cluster import FakeCluster
from tests.connectors.kafka.support.kit import EnumeratorQuery, running

FIRST, SECOND, THIRD = (TopicPartition("t", n) for n in range(3))
ALL = {FIRST, SECOND, THIRD}

BRIEF = {"kafka.default.api.timeout.ms": "3000", "fetchOffset.numRetries": "1"}
"""Options of a query that fails soon."""


@contextmanager
def connected(cluster: FakeCluster, **options: object) -> Iterator[KafkaClient]:
    given = ConnectionOptions(**{"bootstrap_servers": cluster.bootstrap_servers, **options})  # type: ignore[arg-type]
    with closing(KafkaClient(given)) as client:
        yield client


def trusting(certificate: Path) -> SecurityOptions:
    """Returns options of TLS with which a client trusts brokers that have this certificate."""
    return SecurityOptions("SSL", SslOptions(TrustStore(StoreType.PEM, str(certificate))))


def ends(client: KafkaClient, cluster: FakeCluster, *, late: bool = True) -> set[TopicPartition]:
    """Returns the partitions whose end offsets are known."""
    (found,) = client.list_offsets(
        dict.fromkeys(cluster.leaders, LATEST), read_committed=False, late_answers=late
    )
    assert all(answer.offset == 100 for answer in found.values())
    return set(found)


def until_heard(heard: Callable[[], bool], seconds: float = 60) -> int:
    """Repeats ``heard`` until it returns true, and returns the number of tries."""
    deadline = time.monotonic() + seconds
    tries = 1
    while not heard():
        assert time.monotonic() < deadline, f"not heard within {seconds:g} s"
        tries += 1
    return tries


def end_of_second(client: KafkaClient) -> OffsetAndTimestamp:
    """Returns the next answer about the end of the second partition. It may be a late one."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    def is_heard() -> bool:
        (answers,) = client.list_offsets({SECOND: LATEST}, read_committed=False, late_answers=True)
        found.update(answers)
        return bool(found)

    until_heard(is_heard)
    return found[SECOND]


def full_waits(waits: dict[float, float]) -> int:
    """Returns the number of rounds that may wait in full."""
    return sum(allowed >= answer_deadlines.FULL_S for allowed in waits.values())


@contextmanager
def planning(cluster: FakeCluster, options: dict[str, str]) -> Iterator[EnumeratorQuery]:
    """Yields a query of the topic from its beginning."""
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    with running(KafkaSource({**given, **options}, None)) as query:
        yield query
