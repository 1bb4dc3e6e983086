"""Brokers die, freeze and restart, and networks are slow, cut or half open, in the middle of reading.

Each row comes once if another try within the time of the options helps. Otherwise the error names broker, topic,
partition and offset.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import flip27_stream
from flip27_stream.api import InputStatus
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing import (
    BlackHole,
    CutAfter,
    FaultyNetwork,
    HalfOpen,
    KafkaBroker,
    KafkaCluster,
    Link,
    Refuse,
    Throttle,
    wait_until,
    write_bulk,
)
from flip27_stream.testing.kafka.topics import Topics
from tests.connectors.kafka.support.kit import EnumeratorQuery, check_rows, polled, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets the socket of a connection that was refused, and leaves it to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COUNT = 2000
"""Records of a partition, of 1 kB each."""

FAST_FAILOVER = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
SMALL_FETCHES = {"kafka.fetch.max.bytes": "100000", "kafka.max.partition.fetch.bytes": "50000"}
SHORT_TIMEOUTS = {"kafka.request.timeout.ms": "1000", "kafka.default.api.timeout.ms": "5000"}
QUICK = {"kafka.request.timeout.ms": "1000"}


@pytest.fixture(autouse=True)
def _collect_refused_connections(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    caplog.get_records("call").clear()  # they hold connections
    gc.collect()


@pytest.fixture(scope="module")
def _cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(properties=FAST_FAILOVER) as running_cluster:
        yield running_cluster


@pytest.fixture
def cluster(_cluster: KafkaCluster) -> KafkaCluster:
    """A cluster whose nodes are all up. Nodes that an earlier test killed are started again."""
    for node in {1, 2, 3}.difference(_cluster.nodes):
        _cluster.restart(node)
    return _cluster


@pytest.fixture(scope="module")
def network() -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running_network:
        yield running_network


@pytest.fixture(scope="module")
def far_broker(network: FaultyNetwork) -> Iterator[KafkaBroker]:
    """A broker that clients reach through a link."""
    with KafkaBroker(FAST_FAILOVER, through=network.link) as running_broker:
        fill(running_broker, "far", 1)
        yield running_broker


@pytest.fixture
def link(network: FaultyNetwork, far_broker: KafkaBroker) -> Link:
    return network.links["PLAINTEXT"]


def fill(servers: Topics, topic: str, partitions: int, replication: int = -1) -> None:
    """Makes a topic whose values have their partition and offset, in batches of 50 records."""
    servers.create_topic(topic, partitions, replication=replication)
    for partition in range(partitions):
        values = pa.array([b"%d:%d" % (partition, i) + b"x" * 1000 for i in range(COUNT)], pa.binary())
        write_bulk(servers.direct_servers, topic, partition, np.arange(COUNT) + 1, values, batch_records=50)


def source(servers: Topics, topic: str, *options: Mapping[str, str]) -> KafkaSource:
    given = {"kafka.bootstrap.servers": servers.bootstrap_servers, "subscribe": topic} | SMALL_FETCHES
    for more in options:
        given |= more
    return KafkaSource({**given, "startingOffsets": "earliest"}, None)


class TopicTask:
    """A task that reads a whole topic, step by step."""

    def __init__(self, made: KafkaSource, topic: str, partitions: int) -> None:
        splits = [KafkaPartitionSplit(topic, n, 0, COUNT) for n in range(partitions)]
        self.output, self.polls = polled(made, *splits)
        self.partitions = partitions

    @property
    def rows(self) -> int:
        return int(self.output.table.num_rows)

    def to_the_middle(self) -> None:
        """Reads until there are rows, and some partition has more to come. A slow leader holds back no
        other partition.
        """
        while not self._begun():
            assert next(self.polls) is not InputStatus.END_OF_INPUT

    @property
    def begun(self) -> int:
        """The number of a partition of which not all was read."""
        return self._begun()[0]

    def _begun(self) -> list[int]:
        return [partition for partition, offsets in self._offsets().items() if len(offsets) < COUNT]

    def to_the_end(self) -> None:
        for _ in self.polls:
            pass

    def assert_complete(self) -> None:
        """Checks that each record was read once, in order, with its value."""
        check_rows(self.output)
        assert self._offsets() == {n: list(range(COUNT)) for n in range(self.partitions)}
        expected = [b"%d:%d" % each for each in self._places()]
        assert [value.rstrip(b"x") for value in self.output.column("value")] == expected

    def _offsets(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for partition, offset in self._places():
            found.setdefault(partition, []).append(offset)
        return found

    def _places(self) -> list[tuple[int, int]]:
        """Returns the partition and offset of each row."""
        return list(zip(self.output.column("partition"), self.output.column("offset"), strict=True))


@contextmanager
def in_the_middle(made: KafkaSource, topic: str, partitions: int) -> Iterator[TopicTask]:
    """Yields a task that has read a part of a topic."""
    reading = TopicTask(made, topic, partitions)
    with closing(reading.polls):
        reading.to_the_middle()
        yield reading


@contextmanager
def paused(cluster: KafkaCluster, node: int) -> Iterator[None]:
    cluster.pause(node)
    try:
        yield
    finally:
        cluster.resume(node)


def wait_for_the_ends(query: EnumeratorQuery, topic: str) -> None:
    """Waits until a plan has the ends of three partitions. A partition whose leader has just changed may be
    missing for some time.
    """
    expected = {f"{topic}-{n}": COUNT for n in range(3)}
    wait_until(
        lambda: {split: at.end for split, at in query.ranges().items()} == expected,
        "the ends of all partitions",
        120,
    )


def test_a_killed_leader_is_replaced(cluster: KafkaCluster) -> None:
    """The task and the enumerator follow the partition to its next leader."""
    fill(cluster, "killed", 3)
    made = source(cluster, "killed")
    with running(made) as query, in_the_middle(made, "killed", 3) as reading:
        query.ranges()
        begun = reading.begun
        killed = cluster.leader_of("killed", begun)
        cluster.kill(killed)
        reading.to_the_end()
        assert cluster.leader_of("killed", begun) != killed
        wait_for_the_ends(query, "killed")
    reading.assert_complete()


def test_a_frozen_leader_is_replaced_after_the_request_timeout(cluster: KafkaCluster) -> None:
    """A task waits for a frozen leader for the request time-out, and then reads from the partition's next leader."""
    fill(cluster, "frozen", 3)
    made = source(cluster, "frozen", QUICK)
    with running(made) as query, in_the_middle(made, "frozen", 3) as reading:
        query.ranges()
        with paused(cluster, cluster.leader_of("frozen", reading.begun)):
            reading.to_the_end()
            wait_for_the_ends(query, "frozen")
    reading.assert_complete()


def test_a_frozen_leader_without_a_replacement_fails_the_task(cluster: KafkaCluster) -> None:
    """If no broker replaces a frozen leader, an error after default.api.timeout.ms names the leader, the
    partition and the offset.
    """
    fill(cluster, "alone", 1, replication=1)
    leader = cluster.leader_of("alone")
    with (
        in_the_middle(source(cluster, "alone", SHORT_TIMEOUTS), "alone", 1) as reading,
        paused(cluster, leader),
        pytest.raises(ConnectorError, match=r"leader of alone-0") as caught,
    ):
        reading.to_the_end()
    assert f"at offset {reading.rows}" in str(caught.value)
    assert f"broker {leader} at {cluster.address(leader)}" in str(caught.value)


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_metadata_comes_from_a_broker_that_answers(cluster: KafkaCluster, frozen: int) -> None:
    """Metadata comes from the other brokers while one broker is frozen."""
    options = ConnectionOptions(cluster.bootstrap_servers, request_timeout_ms=1000, api_timeout_ms=30_000)
    cluster.create_topic(f"known-{frozen}")
    with closing(KafkaClient(options)) as client:
        there = client.topics(None).keys()
        assert f"known-{frozen}" in there
        with paused(cluster, frozen):
            for _ in range(5):
                assert client.topics(None).keys() == there


def test_query_whose_leader_is_killed(cluster: KafkaCluster, spark: SparkSession, tmp_path: Path) -> None:
    """A query in Spark reads on when the leader of a partition dies after the first of two batches."""
    fill(cluster, "query", 2)
    flip27_stream.register(spark)
    killed: list[int] = []
    found: list[tuple[int, int, bytes]] = []

    def take(batch: Any, number: int) -> None:
        found.extend((r["partition"], r["offset"], r["value"].rstrip(b"x")) for r in batch.collect())
        if not killed:
            killed.append(cluster.leader_of("query", 0))
            cluster.kill(killed[0])

    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "query"}
    stream = spark.readStream.format("flip27_kafka").options(**options, **SMALL_FETCHES)
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", COUNT)
    writer = stream.load().writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()
    assert killed
    assert sorted(found) == [(p, i, b"%d:%d" % (p, i)) for p in range(2) for i in range(COUNT)]


def test_a_task_waits_for_a_broker_that_restarts(far_broker: KafkaBroker) -> None:
    """The only broker is killed and started again. The task waits for it."""
    with in_the_middle(source(far_broker, "far"), "far", 1) as reading:
        far_broker.kill()
        back = threading.Thread(target=far_broker.restart)
        back.start()
        try:
            reading.to_the_end()
        finally:
            back.join()
    reading.assert_complete()


def test_slow_responses_are_read_whole(far_broker: KafkaBroker, link: Link) -> None:
    """Responses that arrive in small pieces with pauses are read whole."""
    with link.apply(Throttle(2_000_000)), in_the_middle(source(far_broker, "far"), "far", 1) as reading:
        reading.to_the_end()
    reading.assert_complete()


@pytest.mark.parametrize("after", [2, 100, 60_000, 400_000])
def test_a_connection_that_ends_within_a_response_is_made_again(
    far_broker: KafkaBroker, link: Link, after: int
) -> None:
    """A response that was cut off is not used.

    It is cut off in its length, in its header, in the first batch and in a later one.
    """
    with (
        in_the_middle(source(far_broker, "far"), "far", 1) as reading,
        link.apply(CutAfter(after)) as applied,
    ):
        reading.to_the_end()
        assert applied.cuts == 1
    reading.assert_complete()


def test_a_connection_without_a_byte_ends_at_the_request_timeout(far_broker: KafkaBroker, link: Link) -> None:
    """No byte arrives over a connection that does not end. The request time-out ends it."""
    with (
        in_the_middle(source(far_broker, "far", QUICK), "far", 1) as reading,
        link.apply(BlackHole(on_heal="reset")) as applied,
    ):
        healing = threading.Timer(1.5, applied.heal)
        healing.start()
        reading.to_the_end()
        healing.join()
    reading.assert_complete()


def test_connections_that_the_network_dropped_are_made_again(far_broker: KafkaBroker, link: Link) -> None:
    """A network forgets idle connections without telling either end, as Azure does after 4 minutes.

    No task waits for the request time-out of an hour.
    """
    made = source(far_broker, "far", {"kafka.request.timeout.ms": "3600000"})
    with in_the_middle(made, "far", 1) as before:
        before.to_the_end()
    with link.apply(HalfOpen("neither")), in_the_middle(made, "far", 1) as reading:
        reading.to_the_end()
    reading.assert_complete()


def test_tasks_and_planning_end_in_time_if_no_byte_arrives(far_broker: KafkaBroker, link: Link) -> None:
    """Tasks and planning end in time if no byte arrives. Their errors have the address that did not answer."""
    made = source(far_broker, "far", SHORT_TIMEOUTS, {"fetchOffset.numRetries": "1"})
    with running(made) as query:
        query.ranges()
        with in_the_middle(made, "far", 1) as reading, link.apply(BlackHole()):
            with pytest.raises(ConnectorError) as caught:
                reading.to_the_end()
            with pytest.raises(UnreachableError, match=far_broker.bootstrap_servers):
                wait_until(lambda: bool(query.ranges()), "an answer through the black hole", 60)
    message = str(caught.value)
    assert link.address in message
    assert "far-0" in message
    assert f"offset {reading.rows}" in message


def test_metadata_that_names_a_dead_broker(far_broker: KafkaBroker, link: Link) -> None:
    """The bootstrap address answers, and the address that the broker advertises does not. The error names both."""
    near = link.target
    made = source(far_broker, "far", SHORT_TIMEOUTS, {"kafka.bootstrap.servers": near})
    with link.apply(Refuse()), pytest.raises(UnreachableError) as caught, running(made) as query:
        query.ranges()
    assert near in str(caught.value)
    assert link.address in str(caught.value)
