"""A client of a cluster of fake brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from tests.connectors.kafka.support.fake_cluster import FakeCluster

FIRST, SECOND, THIRD = (TopicPartition("t", n) for n in range(3))


@contextmanager
def connected(cluster: FakeCluster, **options: object) -> Iterator[KafkaClient]:
    given = ConnectionOptions(cluster.bootstrap_servers, **options)  # type: ignore[arg-type]
    with closing(KafkaClient(given)) as client:
        yield client


def ends(client: KafkaClient, cluster: FakeCluster, *, late: bool = True) -> set[TopicPartition]:
    """Returns the partitions whose end offsets are known."""
    (found,) = client.list_offsets(
        dict.fromkeys(cluster.leaders, LATEST), read_committed=False, late_answers=late
    )
    assert all(answer.offset == 100 for answer in found.values())
    return set(found)
