"""Offsets of Spark's built-in Kafka source, as states of ours."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_stream.connectors.kafka.offsets_initializer import Earliest, Specific
from flip27_stream.connectors.kafka.planning.spark_offsets import adopted
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition

TWO_TOPICS = {"orders": {"10": 7, "9": 0}, "clicks": {"0": 23}}


def test_each_partition_goes_on_at_its_offset() -> None:
    """Partitions found from now on begin at their beginning, as those that Spark's source finds do."""
    found = adopted(TWO_TOPICS, Earliest())
    assert found is not None
    assert found.splits == (
        (KafkaPartitionSplit("clicks", 0), 23),
        (KafkaPartitionSplit("orders", 9), 0),
        (KafkaPartitionSplit("orders", 10), 7),
    )
    assert found.checkpoint.initial_discovery_finished
    assert found.checkpoint.partitions == {split.topic_partition for split, _ in found.splits}
    assert (found.first_begins, found.later_begin) == ({}, 0)


def test_where_the_first_batch_begins_is_known_only_as_far_as_the_options_name_offsets() -> None:
    said = {
        TopicPartition("clicks", 0): 5,
        TopicPartition("orders", 9): EARLIEST,
        TopicPartition("other", 0): 1,
    }
    found = adopted(TWO_TOPICS, Specific(said))
    assert found is not None
    assert found.first_begins == {"clicks-0": 5}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"clicks": {}},
        {"clicks": 3},
        {"clicks": [0, 1]},
        {"clicks": {"first": 1}},
        {"clicks": {"0": -1}},
        {"clicks": {"0": 1.0}},
        {"clicks": {"0": True}},
        {"clicks": {"0": 1}, "version": 1},
    ],
    ids=str,
)
def test_other_documents_are_no_offsets_of_it(document: dict[str, Any]) -> None:
    assert adopted(document, Earliest()) is None
