"""The ids of the topics of many partitions at once. No JVM."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import TopicPartition

_STATE = KafkaEnumeratorState(
    {
        "a": AssignedTopic("id-a", (0, 1, 2), orphans=(1,), cluster_id="here"),
        "b": AssignedTopic("id-b", (0,), cluster_id="there"),
    }
)
_PARTITIONS = [TopicPartition(*each) for each in (("a", 0), ("a", 1), ("a", 2), ("b", 0), ("gone", 7))]


@pytest.mark.parametrize("trusted", [None, "here", "there"])
def test_many_partitions_have_the_ids_that_each_has_alone(trusted: str | None) -> None:
    alone = {tp: _STATE.topic_id_for_reader(tp, trusted) for tp in _PARTITIONS}
    assert _STATE.topic_ids_for_reader(_PARTITIONS, trusted) == alone
    assert set(alone.values()) > {""}
