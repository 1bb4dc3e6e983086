"""Offsets of Spark's built-in Kafka source become states of the Kafka source of the project."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flip27_stream.connectors.kafka.offsets_initializer import (
    AtTimestamp,
    Earliest,
    Latest,
    OffsetsInitializer,
    Specific,
)
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.planning.spark_offsets import (
    Offsets,
    adopted,
    first_begins,
    warn_of_skipped_records,
)
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition

OPTIONS = parse_kafka_options({"kafka.bootstrap.servers": "there:1", "subscribe": "t"})
TWO_TOPICS = {"orders": {"10": 7, "9": 0}, "clicks": {"0": 23}}


def test_each_partition_goes_on_at_its_offset() -> None:
    """Each partition goes on at its offset. New partitions begin at their beginning, as in Spark's source."""
    found = adopted(TWO_TOPICS, lambda ends: {})
    assert found is not None
    assert found.splits == (
        (KafkaPartitionSplit("clicks", 0), 23),
        (KafkaPartitionSplit("orders", 9), 0),
        (KafkaPartitionSplit("orders", 10), 7),
    )
    assert found.checkpoint.initial_discovery_finished
    assert found.checkpoint.partitions == {split.topic_partition for split, _ in found.splits}
    assert (found.first_begins, found.later_begin) == ({}, 0)


@dataclass(frozen=True)
class Lookups:
    """A cluster whose logs begin at these offsets. Each log has a record every 10 ms, up to 10 records."""

    first: Mapping[TopicPartition, int]

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.first.get(tp, 0) for tp in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {tp: max(self.first.get(tp, 0), -(-max(at, 0) // 10)) for tp, at in times.items()}
        return {tp: at for tp, at in found.items() if at < 10 or times[tp] == EARLIEST}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        raise NotImplementedError

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        raise NotImplementedError


A, B, C = TopicPartition("clicks", 0), TopicPartition("orders", 9), TopicPartition("orders", 10)


@pytest.mark.parametrize(
    ("start", "logs", "begins"),
    [
        (Specific({A: 5, B: EARLIEST, C: LATEST}), {}, {A: 5, B: 0}),
        (Specific({A: 5, TopicPartition("other", 0): 1}), {}, {A: 5}),
        (Earliest(), {}, {A: 0, B: 0, C: 0}),
        (Earliest(), {A: 1}, {B: 0, C: 0}),
        (Latest(), {}, {}),
        (AtTimestamp(25, "startingTimestamp"), {}, {A: 3, B: 0, C: 3}),
        (AtTimestamp({A: 55, C: 65}, "startingOffsetsByTimestamp"), {}, {A: 6}),
        (AtTimestamp(1000, "startingTimestamp", latest_where_none=True), {}, {B: 0}),
    ],
)
def test_the_first_batch_begins_where_the_options_say(
    start: OffsetsInitializer, logs: Offsets, begins: Offsets
) -> None:
    """A first offset is known if the options give an offset, or a place that only deleted records can move."""
    options = replace(OPTIONS, starting_offsets=start)
    ends = {A: 23, B: 0, C: 7}
    assert first_begins(ends, options, Lookups(logs)) == begins
    accepted = first_begins(ends, replace(options, fail_on_data_loss=False), Lookups(logs))
    assert accepted == {**begins, **(logs if isinstance(start, Earliest) else {})}


def test_with_a_pattern_a_time_may_not_say_where_the_first_batch_begins() -> None:
    """Spark's source reads a topic from its beginning if the pattern did not match it when the query began."""
    matching = parse_kafka_options({"kafka.bootstrap.servers": "there:1", "subscribePattern": "t"})
    options = replace(
        matching, starting_offsets=AtTimestamp({A: 25, B: 25, C: 0}, "startingOffsetsByTimestamp")
    )
    assert first_begins({A: 23, B: 0, C: 7}, options, Lookups({})) == {B: 0, C: 0}


@pytest.mark.parametrize(
    ("asked", "end", "warned"),
    [
        ({"subscribePattern": "t.*"}, 3, True),
        ({"subscribePattern": "t.*"}, 0, False),
        ({"subscribePattern": "t.*", "startingOffsets": "earliest"}, 3, False),
        ({"subscribe": "t"}, 3, False),
    ],
)
def test_records_that_latest_skips_are_warned_of(
    asked: dict[str, str], end: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A source of Spark whose pattern matched no topic has stored no offset, so it begins like a new query here."""
    options = parse_kafka_options({"kafka.bootstrap.servers": "there:1", **asked})
    with caplog.at_level(logging.WARNING):
        warn_of_skipped_records(options, {TopicPartition("t", 0): 0, TopicPartition("t", 1): end})
    said = "Partitions t-1 begin at their end"
    assert [said in record.message for record in caplog.records] == ([True] if warned else [])


def test_an_offset_without_partitions_is_taken_over() -> None:
    """Spark before 3.4 stores it where it has found no partitions. What is found later begins at its beginning."""
    found = adopted({}, lambda ends: {})
    assert found is not None
    assert (found.splits, found.checkpoint.partitions) == ((), frozenset())
    assert found.checkpoint.initial_discovery_finished
    assert (found.first_begins, found.later_begin) == ({}, 0)


@pytest.mark.parametrize(
    "document",
    [
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
def test_documents_of_other_sources_are_not_offsets_of_spark_s_kafka_source(document: dict[str, Any]) -> None:
    assert adopted(document, lambda ends: {}) is None
