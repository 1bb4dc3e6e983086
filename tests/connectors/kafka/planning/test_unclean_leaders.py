"""Leaders of a real cluster change: to a broker with the whole log, and to one that lacks its last records."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError
from flip27_stream.testing import KafkaCluster, wait_until
from tests.connectors.kafka.support.kit import EnumeratorQuery, running

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets the socket of a connection that was refused, and leaves it to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PROPERTIES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "min.insync.replicas": "1",
}
UNCLEAN = {"unclean.leader.election.enable": "true"}


@pytest.fixture(autouse=True)
def _collect_refused_connections(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    caplog.get_records("call").clear()  # they hold connections
    gc.collect()


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(properties=PROPERTIES) as running_cluster:
        yield running_cluster


def write(cluster: KafkaCluster, topic: str, value: bytes, count: int) -> None:
    cluster.write(topic, [(0, 1000 * i + 1000, None, value) for i in range(count)])


def source(cluster: KafkaCluster, topic: str, **more: str) -> KafkaSource:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    return KafkaSource({**given, **more})


def wait_for_end(query: EnumeratorQuery, topic: str, end: int) -> int:
    """Waits until a plan has the range of the partition up to ``end``. Returns where the range begins."""
    found: list[int] = []

    def is_found() -> bool:
        span = query.ranges().get(f"{topic}-0")
        if span is not None and span.end == end:
            found.append(span.position)
        return bool(found)

    wait_until(is_found, f"the range of {topic} up to {end}", 120)
    return found[0]


def epoch(query: EnumeratorQuery, topic: str) -> int:
    return query.enumerator.snapshot_state().leader_epochs[TopicPartition(topic, 0)]


def positions(query: EnumeratorQuery) -> Mapping[KafkaPartitionSplit, int | None]:
    query.move_to_ends()
    return dict(query.positions)


def test_a_leader_with_the_whole_log_loses_nothing(cluster: KafkaCluster) -> None:
    """SK-26: a running query, and one that was started again, go on at their positions."""
    cluster.create_topic("clean")
    write(cluster, "clean", b"a", 10)
    with running(source(cluster, "clean")) as query:
        at = positions(query)
        checkpoint, before = query.enumerator.snapshot_state(), epoch(query, "clean")
        cluster.kill(cluster.leader_of("clean"))
        cluster.leader_of("clean")
        write(cluster, "clean", b"b", 5)
        assert wait_for_end(query, "clean", 15) == 10
        assert epoch(query, "clean") > before
    with running(source(cluster, "clean"), checkpoint) as query:
        query.positions = dict(at)
        assert wait_for_end(query, "clean", 15) == 10


def test_a_leader_without_the_last_records_is_lost_data(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-26: the log has grown past the position of the query again when it plans next."""
    cluster.create_topic("unclean", 1, UNCLEAN, replication=2)
    write(cluster, "unclean", b"kept", 5)
    leader = cluster.leader_of("unclean")
    behind = next(node for node in cluster.nodes if node != leader and holds(cluster, node, "unclean"))
    cluster.kill(behind)
    write(cluster, "unclean", b"lost", 5)
    with running(source(cluster, "unclean")) as query:
        wait_for_end(query, "unclean", 10)
        at, checkpoint = positions(query), query.enumerator.snapshot_state()
    cluster.kill(leader)
    cluster.restart(behind)
    assert cluster.leader_of("unclean") == behind
    write(cluster, "unclean", b"other", 15)

    with running(source(cluster, "unclean"), checkpoint) as query:
        query.positions = dict(at)
        with pytest.raises(
            DataLossError, match="wanted from offset 10, available 0 to 5, and from there to 20"
        ):
            wait_for_end(query, "unclean", 20)
    with running(source(cluster, "unclean", failOnDataLoss="false"), checkpoint) as query:
        query.positions = dict(at)
        found: dict[str, SplitRange] = {}
        wait_until(lambda: bool(found.update(query.ranges()) or found), "the range of the new leader", 60)
        assert found == {"unclean-0": SplitRange(5, 20)}
        assert query.read(found).column("value") == [b"other"] * 15
    assert "Partition unclean-0's offset was changed from 10 to 5." in caplog.text


def holds(cluster: KafkaCluster, node: int, topic: str) -> bool:
    """Returns whether a node has a replica of a topic."""
    assert cluster._home is not None
    return any(cluster._home.glob(f"*{node}*/**/{topic}-0"))
