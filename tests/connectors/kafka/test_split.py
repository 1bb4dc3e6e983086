"""Splits of Kafka, the enumerator's state, and their serializers."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import JsonValue
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.planning.enumerator import reader_of
from flip27_stream.connectors.kafka.planning.enumerator_state import (
    AssignedTopic,
    KafkaEnumeratorState,
    KafkaEnumeratorStateSerializer,
)
from flip27_stream.connectors.kafka.split import (
    KafkaPartitionSplit,
    KafkaPartitionSplitSerializer,
    TopicPartition,
)
from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError

LEAST = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}
SPLITS = KafkaPartitionSplitSerializer()
STATES = KafkaEnumeratorStateSerializer()


@pytest.mark.parametrize("stop", [None, -3, 0, 1, 2**62])
def test_ks02_a_split_comes_back_equal(stop: int | None) -> None:
    """KS-02: a stopping offset of 0 reaches the reader as 0. The stored form has only the partition."""
    split = KafkaPartitionSplit("a.topic_with-all", 7, 12, stop)
    assert pickle.loads(pickle.dumps(split)) == split
    stored = json.loads(json.dumps(SPLITS.serialize(split)))
    assert stored == "a.topic_with-all-7"
    assert SPLITS.deserialize(SPLITS.version, stored) == KafkaPartitionSplit("a.topic_with-all", 7)


def test_a_split_has_a_range() -> None:
    assert KafkaPartitionSplit("t", 1).between(0, 5) == KafkaPartitionSplit("t", 1, 0, 5)
    assert KafkaPartitionSplit("t", 1).split_id == str(TopicPartition("t", 1)) == "t-1"


def test_splits_for_readers_have_the_ids_of_their_topics() -> None:
    """KIP-516: splits of tasks have the topic ids of the state with which the batch ends. Unknown topics and topics
    of old brokers have no id.
    """
    state = KafkaEnumeratorState({"t": AssignedTopic("id", (0, 1, 2), (2,)), "old": AssignedTopic("", (0,))})
    given = [KafkaPartitionSplit(*each) for each in (("t", 0), ("t", 2), ("old", 0), ("unknown", 0))]
    made = KafkaSource(LEAST).splits_for_readers(given, state)
    assert [split.topic_id for split in made] == ["id", "", "", ""]
    assert [split.split_id for split in made] == [split.split_id for split in given]
    assert made[0].between(0, 5) == KafkaPartitionSplit("t", 0, 0, 5, "id")
    assert SPLITS.serialize(made[0]) == "t-0"


def test_a_batch_of_a_migrated_topic_is_replayed_by_name() -> None:
    """A batch that was planned on another cluster has a topic id that means nothing on the trusted one. It is read by
    the name of the topic.
    """
    state = KafkaEnumeratorState({"t": AssignedTopic("id", (0,), (), "old cluster")})
    split = KafkaPartitionSplit("t", 0)
    for trusted, topic_id in ((None, "id"), ("new cluster", ""), ("old cluster", "id")):
        assert state.for_reader(split, trusted).topic_id == topic_id
    options = {**LEAST, "scan.trusted-cluster-id": "new cluster"}
    assert KafkaSource(options).splits_for_readers([split], state) == [split]


@given(
    st.dictionaries(st.text(min_size=1), st.tuples(st.uuids(), st.sets(st.integers(0, 999)))), st.booleans()
)
def test_ks01_a_state_comes_back_equal(topics: dict[str, tuple[object, set[int]]], discovered: bool) -> None:
    """KS-01: every state comes back equal from its serialized form."""
    state = KafkaEnumeratorState(
        {name: AssignedTopic(str(uuid), tuple(sorted(ps))) for name, (uuid, ps) in topics.items()}, discovered
    )
    stored = json.loads(json.dumps(STATES.serialize(state)))
    assert STATES.deserialize(STATES.version, stored) == state


@pytest.mark.parametrize("stops", [{}, {("t", 1): 0, ("t", 0): 7, ("u-1", 0): 2**62}])
def test_ks01_stopping_offsets_come_back_equal(stops: dict[tuple[str, int], int]) -> None:
    """KS-01, KS-02: the ends of a bounded source come back equal, also if no partition has one,
    or if one is offset 0.
    """
    offsets = {TopicPartition(*tp): offset for tp, offset in stops.items()}
    state = KafkaEnumeratorState({"t": AssignedTopic("id", (0, 1))}, True, offsets)
    stored = json.loads(json.dumps(STATES.serialize(state)))
    assert STATES.deserialize(2, stored) == state


def test_ks01_version_1_has_no_end() -> None:
    """KS-01: a state that an older release wrote is still read, and has no ends."""
    stored: JsonValue = {"discovered": True, "topics": {"t": ["id", [0, 1]]}}
    assert STATES.deserialize(1, stored) == KafkaEnumeratorState({"t": AssignedTopic("id", (0, 1))}, True)


def test_orphans_come_back_equal() -> None:
    """KS-01: orphans, which are partitions that a topic does not have and its predecessor had, come back equal."""
    state = KafkaEnumeratorState(
        {"t": AssignedTopic("id", (0, 1, 2), (1, 2)), "u": AssignedTopic("", (0,))}, True
    )
    assert STATES.deserialize(3, json.loads(json.dumps(STATES.serialize(state)))) == state


@pytest.mark.parametrize("data", [None, 5, [], ["t", 0], "t", "-1", "t-", "t-x", "t-¹", {"topic": "t"}])
def test_a_corrupt_split_is_refused(data: JsonValue) -> None:
    with pytest.raises(CorruptCheckpointError, match="Kafka split"):
        SPLITS.deserialize(1, data)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"discovered": 1, "topics": {}},
        {"discovered": True, "topics": {"t": ["id", ["0"]]}},
        {"discovered": True, "topics": {"t": ["id", [True]]}},
        {"discovered": True, "topics": {"t": ["id"]}},
        {"discovered": True, "topics": {"t": ["id", [0], 0]}},
        {"discovered": True, "topics": {"t": ["id", [0], [0], []]}},
        {"discovered": True, "topics": {}, "stops": {"t": [[0]]}},
        {"discovered": True, "topics": {}, "stops": 1},
    ],
)
def test_a_corrupt_state_is_refused(data: JsonValue) -> None:
    with pytest.raises(CorruptCheckpointError, match="Kafka enumerator"):
        STATES.deserialize(1, data)


def test_unknown_versions_are_refused() -> None:
    """SK-35: a newer version is refused, and the error names both versions. Version 0 was never written."""
    with pytest.raises(NewerCheckpointError, match=r"Kafka split .* version 9; this release reads up to 1"):
        SPLITS.deserialize(9, ["t", 0, 0])
    with pytest.raises(
        NewerCheckpointError, match=r"Kafka enumerator .* version 9; this release reads up to 5"
    ):
        STATES.deserialize(9, {})
    with pytest.raises(CorruptCheckpointError, match="version 0"):
        SPLITS.deserialize(0, ["t", 0, 0])


@pytest.mark.parametrize(
    ("topic", "owners"),
    [("topic", [1, 2, 0, 1]), ("pattern-topic", [2, 0, 1, 2]), ("dynamic_topic", [0, 1, 2, 0])],
)
def test_ke12_the_owner_of_a_partition_is_that_of_java(topic: str, owners: list[int]) -> None:
    """KE-12: the owner of a partition is that of Java's hash with 32 bits."""
    assert [reader_of(TopicPartition(topic, n), 3) for n in range(4)] == owners


def test_clusters_come_back_equal() -> None:
    """The cluster of most topics is stored once. Version 3 has no clusters."""
    topics = {"t": AssignedTopic("x", (0,), (), "A"), "u": AssignedTopic("y", (0, 1), (1,), "A")}
    state = KafkaEnumeratorState(
        {**topics, "v": AssignedTopic("z", (0,), (0,), "B"), "w": AssignedTopic("", (0,))}
    )
    data = STATES.serialize(state)
    assert data == {
        "cluster": "A",
        "discovered": False,
        "topics": {"t": ["x", [0]], "u": ["y", [0, 1], [1]], "v": ["z", [0], [0], "B"], "w": ["", [0], ""]},
    }
    assert STATES.deserialize(4, data) == state
    before = KafkaEnumeratorState({"t": AssignedTopic("x", (0,))})
    assert STATES.deserialize(3, {"discovered": False, "topics": {"t": ["x", [0]]}}) == before
    assert STATES.serialize(before) == {"discovered": False, "topics": {"t": ["x", [0]]}}


@pytest.mark.parametrize(
    "data", [{"cluster": 1}, {"topics": {"t": ["x", [0], "A", "B"]}}, {"topics": {"t": ["x", "A"]}}]
)
def test_corrupt_clusters_are_refused(data: dict[str, JsonValue]) -> None:
    with pytest.raises(CorruptCheckpointError, match="Kafka enumerator"):
        STATES.deserialize(4, {"discovered": True, "topics": {}, **data})


def test_a_state_has_the_assigned_partitions() -> None:
    """KE-08: a state has no partitions before starting offsets are known, and gets those that are assigned."""
    state = KafkaEnumeratorState()
    assert (state.partitions, state.initial_discovery_finished) == (frozenset(), False)
    state = state.with_partitions({TopicPartition("t", 1): "x", TopicPartition("t", 0): "x"})
    assert state == KafkaEnumeratorState({"t": AssignedTopic("x", (0, 1))}, True)


def test_a_state_keeps_the_orphans_of_a_recreated_topic() -> None:
    """I1: partitions that a new topic lacks are remembered as those of another log, until the new
    topic has them, too.
    """
    zero, one, two = (TopicPartition("t", n) for n in range(3))
    state = KafkaEnumeratorState({"t": AssignedTopic("x", (0, 1, 2))}, True)
    state = state.with_successors({zero: "y"})
    assert state.topics["t"] == AssignedTopic("y", (0, 1, 2), orphans=(1, 2))
    assert state.without({one}).topics["t"] == AssignedTopic("y", (0, 2), orphans=(2,))
    assert state.with_successors({one: "y"}).topics["t"] == AssignedTopic("y", (0, 1, 2), orphans=(2,))
    assert state.with_successors({zero: "z", two: "z"}).topics["t"] == AssignedTopic(
        "z", (0, 1, 2), orphans=(1,)
    )


def test_a_state_leaves_out_topics_without_partitions() -> None:
    """A partition that was found and never planned is not in the checkpoint, and neither is a
    topic without partitions.
    """
    state = KafkaEnumeratorState({"t": AssignedTopic("id", (0, 1)), "u": AssignedTopic("id", (0,))}, True)
    assert state.without({TopicPartition("t", 1), TopicPartition("u", 0)}) == KafkaEnumeratorState(
        {"t": AssignedTopic("id", (0,))}, True
    )
