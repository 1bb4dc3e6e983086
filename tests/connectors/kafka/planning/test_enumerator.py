"""The enumerator on a real broker: discovery, starting offsets and ranges."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.planning.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, MissingTopicError, OptionError
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import (
    add_partitions,
    delete_records,
    running,
    settle,
    source,
    transactions,
    write_rows,
    write_transaction,
)

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DISCOVERY = "scan.topic-partition-discovery.interval"
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def _start(made: KafkaSource) -> None:
    with running(made):
        pass


def test_ke01_the_interval_makes_one_discovery_or_periodic_ones(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """KE-01: the interval 0 makes one discovery, and another interval makes periodic ones."""
    name = topic()
    with running(source(broker, {DISCOVERY: "0"}, subscribe=name)) as query:
        assert [call.period_ms for call in query.context.calls] == [None]
    with running(source(broker, {DISCOVERY: "3 s"}, subscribe=name)) as query:
        assert [(call.initial_delay_ms, call.period_ms) for call in query.context.calls] == [
            (None, None),
            (3000, 3000),
        ]


def test_ke13_splits_are_assigned_in_order(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-12, KE-13: splits are assigned by topic, then partition, and evenly."""
    names = sorted([topic(3), topic(2)])
    with running(source(broker, subscribe=",".join(names))) as query:
        (assignment,) = query.context.assignments
        for splits in assignment.values():
            assert splits == sorted(splits, key=lambda s: (s.topic, s.partition))
        assert {len(splits) for splits in assignment.values()} <= {2, 3}
        assert query.enumerator.snapshot_state().partitions == {
            s.topic_partition for s in query.context.splits.values()
        }


def test_ko01_starting_offsets_are_positions_of_splits(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KO-01: earliest is a marker until the first plan, and latest is an offset at once."""
    name = topic(2)
    write_rows(broker, name, 10)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        assert {s.starting_offset for s in query.context.splits.values()} == {EARLIEST}
        assert query.ranges() == {f"{name}-0": SplitRange(0, 10), f"{name}-1": SplitRange(0, 0)}
    with running(source(broker, subscribe=name)) as query:
        assert [query.context.splits[f"{name}-{n}"].starting_offset for n in (0, 1)] == [10, 0]
        write_rows(broker, name, 3)
        assert query.ranges()[f"{name}-0"] == SplitRange(10, 13)
    offsets = json.dumps({name: {"0": 4, "1": -1}})
    with running(source(broker, subscribe=name, startingOffsets=offsets)) as query:
        assert query.ranges() == {f"{name}-0": SplitRange(4, 13), f"{name}-1": SplitRange(0, 0)}


def test_sk33_offsets_that_lack_a_partition_are_refused(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-33: starting offsets that lack a partition are an error with its name."""
    name = topic(2)
    with pytest.raises(OptionError, match=f"Missing: {name}-1"):
        _start(source(broker, subscribe=name, startingOffsets=json.dumps({name: {"0": 4}})))


def test_ke05_later_partitions_start_at_the_beginning(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-05, SK-12: new topics and partitions are read from their beginning, although the option says latest."""
    first = topic()
    write_rows(broker, first, 10)
    with running(source(broker, subscribePattern=f"{first}(-later)?")) as query:
        assert query.move_to_ends() == {f"{first}-0": SplitRange(10, 10)}
        query.context.run_periodic()
        assert len(query.context.assignments) == 1  # an unchanged listing assigns nothing
        broker.create_topic(f"{first}-later", 2)
        write_rows(broker, f"{first}-later", 5, partition=1)
        add_partitions(broker, first, 2)
        write_rows(broker, first, 2, partition=1)
        query.context.run_periodic()
        ranges = query.ranges()
    assert ranges == {
        f"{first}-0": SplitRange(10, 10),
        f"{first}-1": SplitRange(0, 2),
        f"{first}-later-0": SplitRange(0, 0),
        f"{first}-later-1": SplitRange(0, 5),
    }


def test_restored_enumerator_assigns_only_what_is_new(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-07, SK-12: a restored enumerator assigns new partitions only. A partition that was made while the query was
    stopped begins at its beginning.
    """
    name = topic()
    with running(source(broker, subscribe=name)) as query:
        state = query.enumerator.snapshot_state()
        query.context.run_periodic()
        assert query.enumerator.snapshot_state() == state
    add_partitions(broker, name, 2)
    write_rows(broker, name, 3, partition=1)
    with running(source(broker, subscribe=name), state) as query:
        assert query.context.splits.keys() == {f"{name}-1"}
        query.positions[KafkaPartitionSplit(name, 0)] = 0
        assert query.ranges() == {f"{name}-0": SplitRange(0, 0), f"{name}-1": SplitRange(0, 3)}


def test_a_missing_topic_or_partition_is_named(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KS-04: a missing topic or partition is an error with its name. A pattern may match no topic."""
    with pytest.raises(
        MissingTopicError, match=r"does not have the topics or partitions nowhere.*'subscribe' \(nowhere\)"
    ):
        _start(source(broker, subscribe="nowhere"))
    name = topic()
    with pytest.raises(MissingTopicError, match=f"{name}-7"):
        _start(source(broker, assign=json.dumps({name: [0, 7]})))
    with running(source(broker, subscribePattern="nowhere.*")) as query:
        assert query.ranges() == {}


def test_a_plan_without_new_records_costs_one_round(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of a running query asks each leader for its log ends and, if there are records, one
    broker for topic ids.
    """
    name = topic(3)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        query.move_to_ends()
        connections = query.enumerator._client._cluster.connections
        asked: list[str] = []
        send = connections.send

        def count(node: int, request: Any) -> object:
            asked.append(request.name)
            return send(node, request)

        monkeypatch.setattr(connections, "send", count)
        assert len(query.ranges()) == 3
        assert asked == ["ListOffsetsRequest"]
        write_rows(broker, name, 1)
        assert len(query.ranges()) == 3
        assert asked[1:] == ["ListOffsetsRequest", "MetadataRequest"]


def test_starting_offset_beyond_the_end(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-27: a starting offset beyond the end of the log is a data loss. Without failOnDataLoss the partition is
    read from its end on.
    """
    name = topic()
    write_rows(broker, name, 3)
    wrong = json.dumps({name: {"0": 50}})
    with (
        running(source(broker, subscribe=name, startingOffsets=wrong)) as query,
        pytest.raises(DataLossError, match=rf"{name}-0 .*wanted from offset 50, available 0 to 3"),
    ):
        query.ranges()
    with running(source(broker, subscribe=name, startingOffsets=wrong, failOnDataLoss="false")) as query:
        assert query.ranges() == {f"{name}-0": SplitRange(3, 3)}


def test_open_transaction_is_not_emptiness(broker: KafkaBroker, topic: MakeTopic) -> None:
    """I9: there may be records behind the last stable offset. Only then is the split not drained."""
    name = topic()
    with transactions(broker, name) as producer:
        write_transaction(producer, name, [1, 2], commit=True)
        settle(broker, name)
        write_transaction(producer, name, [3, 4], commit=None)
        with running(source(broker, READ_COMMITTED, subscribe=name, startingOffsets="earliest")) as query:
            assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 3)}
            assert query.ranges() == {f"{name}-0": SplitRange(3, 3, drained=False)}
            producer.commit_transaction()
            settle(broker, name)
            assert query.move_to_ends() == {f"{name}-0": SplitRange(3, 6)}
            assert query.ranges() == {f"{name}-0": SplitRange(6, 6, drained=True)}
        with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
            assert query.ranges() == {f"{name}-0": SplitRange(0, 6)}


def test_sk27_new_partition_that_does_not_begin_at_0(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-27: records that were deleted before their partition was found are lost."""
    first = topic()
    pattern = f"{first}.*"
    strict = source(broker, subscribePattern=pattern)
    lenient = source(broker, subscribePattern=pattern, failOnDataLoss="false")
    with running(strict) as failing, running(lenient) as going_on:
        failing.ranges()
        going_on.ranges()
        later = f"{first}-later"
        broker.create_topic(later)
        write_rows(broker, later, 5)
        delete_records(broker, later, before=2)
        for query in (failing, going_on):
            query.context.run_periodic()
        with pytest.raises(DataLossError, match=f"{later}-0 .* wanted from offset 0, available 2 to 5"):
            failing.ranges()
        with caplog.at_level(logging.WARNING):
            assert going_on.ranges()[f"{later}-0"] == SplitRange(2, 5)
        assert "changed from 0 to 2" in caplog.text


def test_sk40_positions_as_spark_writes_them(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-40, SK-34: positions have the form of Spark's offsets, in order. Names with dashes stay as they are."""
    name = topic(2)
    write_rows(broker, name, 3, partition=1)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        ends = {split: r.end for split, r in query.ranges().items()}
        assert json.dumps(query.enumerator.describe_positions(ends)) == json.dumps({name: {"0": 0, "1": 3}})


def test_a_query_that_never_planned_has_a_state(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-08: a checkpoint from before the discovery begins with a new discovery."""
    name = topic()
    write_rows(broker, name, 2)
    with running(source(broker, subscribe=name), KafkaEnumeratorState()) as query:
        assert query.context.splits[f"{name}-0"].starting_offset == 2
        assert query.enumerator.snapshot_state().partitions == {TopicPartition(name, 0)}
