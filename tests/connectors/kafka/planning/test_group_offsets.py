"""Offsets of a consumer group: a worker commits processed ones, without failing the query; a query begins at them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as ConsumerPartition
from kafka.structs import OffsetAndMetadata

from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.planning.group_offsets import GroupCommitter
from flip27_stream.connectors.kafka.split import EARLIEST, TopicPartition
from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import running, source

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """A coordinator that notes committed offsets, or fails if a test sets an error."""

    def __init__(self) -> None:
        self.committed: list[dict[TopicPartition, int]] = []
        self.error: Exception | None = None

    def close(self) -> None:
        """Does nothing, for no request is under way."""

    def ask(self, request: Callable[[], Any], errors: Callable[[Any], Any]) -> None:
        if self.error is not None:
            raise self.error
        topics = request().topics
        self.committed.append(
            {
                TopicPartition(t.name, p.partition_index): p.committed_offset
                for t in topics
                for p in t.partitions
            }
        )


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def committer(coordinator: Coordinator) -> Iterator[GroupCommitter]:
    committer = GroupCommitter(cast(KafkaClient, SimpleNamespace(close=lambda: None)), "group")
    committer._coordinator = cast(GroupCoordinator, coordinator)
    yield committer
    committer.close(5)


def test_kr_11_markers_are_never_committed(committer: GroupCommitter, coordinator: Coordinator) -> None:
    """KR-11, KR-13: the committed offset is that of the next record. A split that is still at a marker has none."""
    committer.processed({A: EARLIEST, B: 10})
    assert committer.flush(5)
    assert coordinator.committed == [{B: 10}]


def test_kr_10_only_changed_offsets_are_committed(
    committer: GroupCommitter, coordinator: Coordinator
) -> None:
    """KR-09, KR-10: an offset is committed once, and a commit is never empty."""
    for offsets in ({}, {A: 1, B: 1}, {A: 1, B: 1}, {A: 1, B: 2}):
        committer.processed(offsets)
        assert committer.flush(5)
    assert coordinator.committed == [{A: 1, B: 1}, {B: 2}]


def test_a_failed_commit_is_only_warned_of(
    committer: GroupCommitter, coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    """Facts 11: the checkpoint decides, so an error of a broker fails no query. Later commits go on."""
    coordinator.error = UnreachableError("nobody answers")
    with caplog.at_level(logging.WARNING):
        committer.processed({A: 1})
        assert committer.flush(5)
    assert "not committed to consumer group 'group': nobody answers" in caplog.text
    coordinator.error = None
    committer.processed({A: 2})
    assert committer.flush(5)
    assert coordinator.committed == [{A: 2}]


@pytest.mark.jvm
def test_kr_08_processed_offsets_are_committed_to_the_group(
    broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    """KR-08, KR-12, KB-01: offsets of all partitions, finished or not, are committed if the options say so."""
    name = topic(2)
    broker.write(name, [(0, 1000 * i, None, b"v") for i in range(10)])
    group = {"kafka.group.id": f"group-{name}", "scan.commit-offsets": "true"}
    with running(source(broker, group, subscribe=name, startingOffsets="earliest")) as query:
        query.move_to_ends()
        query.enumerator.notify_checkpoint_complete({s.split_id: p or 0 for s, p in query.positions.items()})
    other = {"kafka.group.id": f"other-{name}"}
    for options in ({}, other):
        with running(source(broker, options, subscribe=name, startingOffsets="earliest")) as query:
            query.move_to_ends()
            positions = {s.split_id: p or 0 for s, p in query.positions.items()}
            query.enumerator.notify_checkpoint_complete(positions)
    client = KafkaClient(ConnectionOptions(broker.bootstrap_servers))
    partitions = [TopicPartition(name, n) for n in (0, 1)]
    try:
        coordinator = GroupCoordinator(client, f"group-{name}")
        assert coordinator.committed_offsets(partitions) == {partitions[0]: 10, partitions[1]: 0}
    finally:
        client.close()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        ours = [g for g in map(str, admin.list_groups()) if name in g]
        assert len(ours) == 1
    finally:
        admin.close()


@pytest.mark.jvm
def test_a_restored_query_commits_where_it_begins(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    """Facts 11: only the next run knows that the last batch of a run is processed. It commits before it plans."""
    name = topic()
    group = {"kafka.group.id": f"group-{name}", "scan.commit-offsets": "true"}
    with running(source(broker, group, subscribe=name)) as query:
        query.ranges()
        state = query.enumerator.snapshot_state()
    with running(source(broker, group, subscribe=name), state) as query:
        query.enumerator.notify_checkpoint_complete({f"{name}-0": 7})
    client = KafkaClient(ConnectionOptions(broker.bootstrap_servers))
    try:
        tp = TopicPartition(name, 0)
        assert GroupCoordinator(client, f"group-{name}").committed_offsets([tp]) == {tp: 7}
    finally:
        client.close()


def commit(broker: KafkaBroker, group: str, topic: str, *offsets: int) -> None:
    """Commits offsets of the first partitions of a topic, as another application does."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
    try:
        committed = {
            ConsumerPartition(topic, n): OffsetAndMetadata(offset, "", -1) for n, offset in enumerate(offsets)
        }
        consumer.commit(committed)
    finally:
        consumer.close()


@pytest.mark.jvm
def test_a_query_begins_at_the_offsets_of_a_group(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    """KO-05: the beginning may be the end of a log. A restart goes on at its checkpoint, whatever the group says."""
    name = topic(2)
    broker.write(name, [(0, 1000, None, b"a"), (0, 2000, None, b"b"), (1, 1000, None, b"c")])
    group = {"kafka.group.id": f"group-{name}", "startingOffsets": "group-offsets"}
    commit(broker, f"group-{name}", name, 1, 1)
    with SourceQuery(source(broker, group, subscribe=name)) as query:
        assert [row["value"] for row in query.run(1)] == [b"b"]
    commit(broker, f"group-{name}", name, 0, 0)
    broker.write(name, [(1, 3000, None, b"d")])
    with SourceQuery(source(broker, group, subscribe=name), query.offset) as query:
        assert [row["value"] for row in query.run(1)] == [b"d"]


@pytest.mark.jvm
def test_a_partition_without_an_offset_of_the_group_is_an_error(
    broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    """KO-05: to begin elsewhere would leave out its records, or read them twice."""
    name = topic(2)
    group = {"kafka.group.id": f"group-{name}", "startingOffsets": "group-offsets"}
    commit(broker, f"group-{name}", name, 0)
    message = f"committed no offset for {name}-1\\. .* value of option 'startingOffsets'"
    with (
        SourceQuery(source(broker, group, subscribe=name)) as query,
        pytest.raises(ConnectorError, match=message),
    ):
        query.run(1)
