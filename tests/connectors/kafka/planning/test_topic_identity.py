"""A cluster whose topics have other ids: they were made again, or migrated with their offsets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import OffsetAndTimestamp, TopicMetadata
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.planning.log_ranges import LogRanges
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import source, write_rows
from tests.connectors.kafka.support.log_answers import LogAnswers

TRUSTED = "scan.trusted-cluster-id"
MANY = {"t": AssignedTopic("t of A", (0, 1), (), "A"), "u": AssignedTopic("u of A", (0,), (), "A")}
POSITIONS = {"t-0": 3, "t-1": 3, "u-0": 3}


class ClusterOfTwoTopics(LogAnswers):
    """A cluster with the partitions t-0, t-1 and u-0, each with records 0 to 9."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.move_to(name)
        self.silent: set[str] = set()

    def move_to(self, name: str) -> None:
        self.cluster_id = name
        self.metadata = {
            topic: TopicMetadata(f"{topic} of {name}", False, dict.fromkeys(partitions, 1), name)
            for topic, partitions in {"t": (0, 1), "u": (0,)}.items()
        }

    def list_offsets(
        self, *rounds: Any, read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        answers = super().list_offsets(*rounds, read_committed=read_committed)
        return [{tp: at for tp, at in each.items() if str(tp) not in self.silent} for each in answers]


class Planned:
    """The planning side of a query, over many plans."""

    def __init__(self, cluster: ClusterOfTwoTopics, state: dict[str, AssignedTopic], **options: str) -> None:
        given = {"kafka.bootstrap.servers": "host:1", "subscribe": "t,u", **options}
        self.ranges = LogRanges(cast(KafkaClient, cluster), parse_kafka_options(given))
        self.ranges.topics = cluster.metadata
        self.state = KafkaEnumeratorState(state, initial_discovery_finished=True)

    def look(self, **moved: int) -> dict[str, SplitRange]:
        splits = {
            KafkaPartitionSplit(name[0], int(name[2:])): at for name, at in {**POSITIONS, **moved}.items()
        }
        result = self.ranges.look(splits, self.state)
        self.state = self.state.with_successors(result.recreated).with_identities(result.identified)
        return result.ranges

    @property
    def identities(self) -> dict[str, tuple[str, str]]:
        return {name: (topic.topic_id, topic.cluster_id) for name, topic in self.state.topics.items()}


def of(cluster: str) -> dict[str, tuple[str, str]]:
    return {name: (f"{name} of {cluster}", cluster) for name in ("t", "u")}


GO_ON = dict.fromkeys(POSITIONS, SplitRange(3, 10))
AGAIN = dict.fromkeys(POSITIONS, SplitRange(0, 10))


def test_an_error_names_both_clusters_and_the_remedy() -> None:
    with pytest.raises(DataLossError) as error:
        Planned(ClusterOfTwoTopics("B"), MANY).look()
    assert "wanted from offset 3, available 0 to 10 of a topic that has another id" in str(error.value)
    assert "is of Kafka cluster 'A', and brokers of cluster 'B' answer at host:1" in str(error.value)
    assert f"set option '{TRUSTED}' to 'B'. To go on with the data that is left" in str(error.value)
    with pytest.raises(DataLossError, match=r"to 'B' \(now it names 'C'\)"):
        Planned(ClusterOfTwoTopics("B"), MANY, **{TRUSTED: "C"}).look()


def test_offsets_are_not_used_in_another_cluster_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """The offsets of another cluster are lost without the user's word. A query that goes on begins anew there, and
    its topics are of that cluster then.
    """
    query = Planned(ClusterOfTwoTopics("B"), MANY, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert query.look() == AGAIN
    assert "is of Kafka cluster 'A', and brokers of cluster 'B' answer" in caplog.text
    assert query.identities == of("B")


def test_one_migration_keeps_its_offsets_if_the_option_names_the_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Migrated topics go on at their offsets. A topic that is made again in the new cluster is lost, as always."""
    cluster = ClusterOfTwoTopics("B")
    query = Planned(cluster, MANY, **{TRUSTED: "B"})
    with caplog.at_level(logging.WARNING):
        assert query.look() == query.look() == GO_ON
    for topic in MANY:
        assert f"Topic '{topic}' was read from cluster 'A' and is now read from cluster 'B'" in caplog.text
    assert query.identities == of("B")
    cluster.metadata = {**cluster.metadata, "t": TopicMetadata("t again", False, {0: 1, 1: 1}, "B")}
    with pytest.raises(DataLossError, match="of a topic that was deleted and created again"):
        query.look()


def test_a_migration_while_the_query_runs() -> None:
    """The option may be set before the migration. The next migration needs another value, and so
    does the way back.
    """
    cluster = ClusterOfTwoTopics("A")
    query = Planned(cluster, MANY, **{TRUSTED: "B"})
    assert query.look() == GO_ON
    cluster.move_to("B")
    assert query.look() == GO_ON
    assert query.identities == of("B")
    back = Planned(ClusterOfTwoTopics("A"), dict(query.state.topics), **{TRUSTED: "B"})
    with pytest.raises(DataLossError, match="cluster 'B', and brokers of cluster 'A'"):
        back.look()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_offsets_that_the_new_cluster_does_not_have(fail: str) -> None:
    """The copy may end before the offsets, and records that aged out are not copied. Both are data losses."""
    cluster = ClusterOfTwoTopics("B")
    cluster.start = 5
    query = Planned(cluster, MANY, **{TRUSTED: "B", "failOnDataLoss": fail})
    if fail == "true":
        with pytest.raises(DataLossError, match=r"t-0 .* wanted from offset 3, available 5 to 10"):
            query.look()
        with pytest.raises(DataLossError, match=r"u-0 .* wanted from offset 12, available 5 to 10"):
            query.look(**{"t-0": 5, "t-1": 5, "u-0": 12})
        assert query.identities == of("A")
    else:
        assert query.look(**{"u-0": 12})["u-0"] == SplitRange(10, 10)
        assert query.identities == of("B")


def test_a_topic_is_of_the_new_cluster_once_all_its_leaders_answered() -> None:
    """A topic belongs to the new cluster when all its leaders have answered. A restart in between trusts the
    remaining topics only.
    """
    cluster = ClusterOfTwoTopics("B")
    cluster.silent = {"t-1"}
    query = Planned(cluster, MANY, **{TRUSTED: "B"})
    assert query.look().keys() == {"t-0", "u-0"}
    assert query.identities == {"t": ("t of A", "A"), "u": ("u of B", "B")}
    cluster.silent = set()
    restarted = Planned(cluster, dict(query.state.topics), **{TRUSTED: "B"})
    assert restarted.look() == GO_ON
    assert restarted.identities == of("B")


def test_a_checkpoint_that_does_not_know_its_cluster() -> None:
    """A checkpoint of an earlier release learns its cluster. If the ids of its topics differ
    already, the option decides.
    """
    unknown = {name: AssignedTopic(topic.topic_id, topic.partitions) for name, topic in MANY.items()}
    same = Planned(ClusterOfTwoTopics("A"), unknown)
    assert same.look() == GO_ON
    assert same.identities == of("A")
    with pytest.raises(DataLossError, match="does not name its Kafka cluster, and brokers of cluster 'B'"):
        Planned(ClusterOfTwoTopics("B"), unknown).look()
    migrated = Planned(ClusterOfTwoTopics("B"), unknown, **{TRUSTED: "B"})
    assert migrated.look() == GO_ON
    assert migrated.identities == of("B")


def test_a_cluster_with_the_same_topic_ids_or_none_needs_no_option(caplog: pytest.LogCaptureFixture) -> None:
    """A topic with the same id in another cluster is the same topic. Without ids nobody can tell,
    and a warning says so.
    """
    cluster = ClusterOfTwoTopics("B")
    for tells, why in (("{} of A", "its id is the same"), ("", "without topic ids")):
        cluster.metadata = {
            name: TopicMetadata(tells.format(name), False, topic.leaders, "B")
            for name, topic in cluster.metadata.items()
        }
        query = Planned(cluster, MANY)
        with caplog.at_level(logging.WARNING):
            assert query.look() == GO_ON
        assert why in caplog.text
        assert query.identities == {name: (tells.format(name), "B") for name in MANY}


def test_a_topic_that_is_not_on_the_new_cluster(now: SimpleNamespace) -> None:
    """A topic that is missing in the new cluster may not be migrated yet, or the address may be wrong. It is
    lost after some time.
    """
    cluster = ClusterOfTwoTopics("B")
    del cluster.metadata["t"]  # type: ignore[attr-defined]
    query = Planned(cluster, MANY, **{TRUSTED: "B"})
    assert query.look() == {"u-0": SplitRange(3, 10)}
    now.now += 5
    with pytest.raises(DataLossError, match=r"nothing, the partition does not exist.*of cluster 'B' answer"):
        query.look()
    cluster.move_to("B")
    assert query.look() == GO_ON
    assert query.identities == of("B")


@pytest.fixture(scope="module")
def other_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.mark.jvm
def test_a_query_goes_on_in_another_real_cluster(
    broker: KafkaBroker, other_broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    """A query goes on at its offsets in another real cluster. Its checkpoint belongs to that cluster then."""
    name = topic()
    other_broker.create_topic(name)
    write_rows(broker, name, 5)
    write_rows(other_broker, name, 8)

    def made(at: KafkaBroker, **more: str) -> Any:
        return source(at, {"startingOffsets": "earliest", "subscribe": name, **more})

    with SourceQuery(made(broker)) as query:
        assert len(query.run(5)) == 5
    before = query.offset["enumerator"][1]["cluster"]
    with (
        SourceQuery(made(other_broker), query.offset) as refused,
        pytest.raises(DataLossError, match=rf"is of Kafka cluster '{before}', and brokers of") as error,
    ):
        refused.next_batch()
    with SourceQuery(made(other_broker, failOnDataLoss="false"), query.offset) as lenient:
        assert len(lenient.run(8)) == 8
    after = lenient.offset["enumerator"][1]["cluster"]
    assert before != after
    assert f"set option '{TRUSTED}' to '{after}'" in str(error.value)
    version, state = query.offset["enumerator"]
    older = {**query.offset, "enumerator": [version - 1, {k: v for k, v in state.items() if k != "cluster"}]}
    for offset in (query.offset, json.loads(json.dumps(older))):
        with SourceQuery(made(other_broker, **{TRUSTED: after}), offset) as trusting:
            assert [row["offset"] for row in trusting.run(3)] == [5, 6, 7]
        assert trusting.offset["enumerator"] == lenient.offset["enumerator"]
