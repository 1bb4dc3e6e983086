"""The enumerator on a real broker: discovery, starting offsets, ranges, and lost records."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions
from kafka.structs import TopicPartition as KafkaPythonPartition

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka import KafkaSource, log_ranges
from flip27_stream.connectors.kafka.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, MissingTopicError, OptionError
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.kit import running, settle, source, transactions, write_transaction

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DISCOVERY = "scan.topic-partition-discovery.interval"
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def _start(made: KafkaSource) -> None:
    with running(made):
        pass


def write(broker: KafkaBroker, topic: str, count: int, partition: int = 0) -> None:
    broker.write(topic, [(partition, 1000 * i, None, b"%d" % i) for i in range(count)])


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_records({KafkaPythonPartition(topic, 0): before})
    finally:
        admin.close()


def add_partitions(broker: KafkaBroker, topic: str, total: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_partitions({topic: NewPartitions(total)})
    finally:
        admin.close()


def test_ke01_one_discovery_or_periodic_ones(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-01."""
    name = topic()
    with running(source(broker, {DISCOVERY: "0"}, subscribe=name)) as query:
        assert [call.period_ms for call in query.context.calls] == [None]
    with running(source(broker, {DISCOVERY: "3 s"}, subscribe=name)) as query:
        assert [(call.initial_delay_ms, call.period_ms) for call in query.context.calls] == [
            (None, None),
            (3000, 3000),
        ]


def test_ke13_splits_are_assigned_in_order(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-12, KE-13: by topic, then partition; evenly."""
    names = sorted([topic(3), topic(2)])
    with running(source(broker, subscribe=",".join(names))) as query:
        (assignment,) = query.context.assignments
        for splits in assignment.values():
            assert splits == sorted(splits, key=lambda s: (s.topic, s.partition))
        assert {len(splits) for splits in assignment.values()} <= {2, 3}
        assert query.enumerator.snapshot_state().partitions == {
            s.topic_partition for s in query.context.splits.values()
        }


def test_ko01_starting_offsets(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KO-01: earliest is a marker until the first plan, latest an offset at once."""
    name = topic(2)
    write(broker, name, 10)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        assert {s.starting_offset for s in query.context.splits.values()} == {EARLIEST}
        assert query.ranges() == {f"{name}-0": SplitRange(0, 10), f"{name}-1": SplitRange(0, 0)}
    with running(source(broker, subscribe=name)) as query:
        assert [query.context.splits[f"{name}-{n}"].starting_offset for n in (0, 1)] == [10, 0]
        write(broker, name, 3)
        assert query.ranges()[f"{name}-0"] == SplitRange(10, 13)
    offsets = json.dumps({name: {"0": 4, "1": -1}})
    with running(source(broker, subscribe=name, startingOffsets=offsets)) as query:
        assert query.ranges() == {f"{name}-0": SplitRange(4, 13), f"{name}-1": SplitRange(0, 0)}


def test_sk33_offsets_that_do_not_fit(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-33."""
    name = topic(2)
    with pytest.raises(OptionError, match=f"Missing: {name}-1"):
        _start(source(broker, subscribe=name, startingOffsets=json.dumps({name: {"0": 4}})))


def test_ke05_later_partitions_start_at_the_beginning(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-05, SK-12: new topics and partitions are read from their beginning, although the option says latest."""
    first = topic()
    write(broker, first, 10)
    with running(source(broker, subscribePattern=f"{first}(-later)?")) as query:
        assert query.move_to_ends() == {f"{first}-0": SplitRange(10, 10)}
        query.context.run_periodic()
        assert len(query.context.assignments) == 1  # an unchanged listing assigns nothing
        broker.create_topic(f"{first}-later", 2)
        write(broker, f"{first}-later", 5, partition=1)
        add_partitions(broker, first, 2)
        write(broker, first, 2, partition=1)
        query.context.run_periodic()
        ranges = query.ranges()
    assert ranges == {
        f"{first}-0": SplitRange(10, 10),
        f"{first}-1": SplitRange(0, 2),
        f"{first}-later-0": SplitRange(0, 0),
        f"{first}-later-1": SplitRange(0, 5),
    }


def test_restored_enumerator_assigns_only_what_is_new(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-07, SK-12: and what was made while the query was stopped begins at its beginning."""
    name = topic()
    with running(source(broker, subscribe=name)) as query:
        state = query.enumerator.snapshot_state()
        query.context.run_periodic()
        assert query.enumerator.snapshot_state() == state
    add_partitions(broker, name, 2)
    write(broker, name, 3, partition=1)
    with running(source(broker, subscribe=name), state) as query:
        assert query.context.splits.keys() == {f"{name}-1"}
        query.positions[KafkaPartitionSplit(name, 0)] = 0
        assert query.ranges() == {f"{name}-0": SplitRange(0, 0), f"{name}-1": SplitRange(0, 3)}


def test_missing_topic_and_partition(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KS-04; a pattern that matches nothing is fine."""
    with pytest.raises(
        MissingTopicError, match=r"no such topic or partition: nowhere.*'subscribe' \(nowhere\)"
    ):
        _start(source(broker, subscribe="nowhere"))
    name = topic()
    with pytest.raises(MissingTopicError, match=f"{name}-7"):
        _start(source(broker, assign=json.dumps({name: [0, 7]})))
    with running(source(broker, subscribePattern="nowhere.*")) as query:
        assert query.ranges() == {}


def test_steady_plan_costs_one_round(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once begun, a plan asks each leader where its logs end; then one broker for topic ids, if there are records."""
    name = topic(3)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        query.move_to_ends()
        client = query.enumerator._client
        asked: list[str] = []
        send = client.send

        def count(node: int, request: Any) -> object:
            asked.append(request.name)
            return send(node, request)

        monkeypatch.setattr(client, "send", count)
        assert len(query.ranges()) == 3
        assert asked == ["ListOffsetsRequest"]
        write(broker, name, 1)
        assert len(query.ranges()) == 3
        assert asked[1:] == ["ListOffsetsRequest", "MetadataRequest"]


def test_sk25_recreated_topic(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-25, SK-02: another topic of the same name is found by its id, however long it is."""
    name = topic()
    write(broker, name, 2)
    for records in (1, 5):
        with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
            query.move_to_ends()
            broker.delete_topic(name)
            broker.create_topic(name)
            write(broker, name, records)
            query.context.run_periodic()
            with pytest.raises(
                DataLossError, match=rf"{name}-0 may have been lost: wanted from offset \d.* changed from"
            ):
                query.ranges()


def test_recreated_topic_is_read_from_its_beginning(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-24: with failOnDataLoss false there is a warning, and the new id is kept."""
    name = topic()
    write(broker, name, 3)
    with running(source(broker, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")) as query:
        query.move_to_ends()
        before = query.enumerator.snapshot_state()
        broker.delete_topic(name)
        broker.create_topic(name)
        write(broker, name, 2)  # shorter than the position: found although no discovery ran
        with caplog.at_level(logging.WARNING):
            assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 2)}
        assert "changed from 3 to 2" in caplog.text
        after = query.enumerator.snapshot_state()
        assert after.partitions == before.partitions
        assert after != before
        assert query.ranges() == {f"{name}-0": SplitRange(2, 2)}


@pytest.mark.parametrize("discovery", ["0", "1 hour"])
def test_topic_that_was_recreated_longer(broker: KafkaBroker, topic: MakeTopic, discovery: str) -> None:
    """I1, SK-25: noticed by the plan that would read it, before a row is planned, however seldom topics are listed."""
    name = topic(2)
    write(broker, name, 3)
    made = {"startingOffsets": "earliest", DISCOVERY: discovery, "subscribe": name}
    with (
        running(source(broker, made, failOnDataLoss="false")) as lenient,
        running(source(broker, made)) as strict,
    ):
        lenient.move_to_ends()
        strict.move_to_ends()
        broker.delete_topic(name)
        broker.create_topic(name, 2)
        write(broker, name, 5)
        assert lenient.move_to_ends() == {f"{name}-0": SplitRange(0, 5), f"{name}-1": SplitRange(0, 0)}
        assert lenient.ranges() == {f"{name}-0": SplitRange(5, 5), f"{name}-1": SplitRange(0, 0)}
        with pytest.raises(
            DataLossError, match=r"wanted from offset 3, .*made again\. .* changed from 3 to 0\. "
        ):
            strict.ranges()


def test_bounded_stream_of_a_topic_that_was_recreated_longer(broker: KafkaBroker, topic: MakeTopic) -> None:
    """I1: no listing is needed; the stop stays what it was."""
    name = topic()
    write(broker, name, 3)
    stops = {
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": json.dumps({name: {"0": 4}}),
    }
    made = source(broker, stops, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    with running(made) as query:
        assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 3)}
        broker.delete_topic(name)
        broker.create_topic(name)
        write(broker, name, 5)
        assert query.ranges() == {f"{name}-0": SplitRange(0, 4, final=True)}


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("count", [2, 7])
def test_partition_that_a_recreated_topic_gets_later(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, count: int, restart: bool
) -> None:
    """I1, SK-24: it is a new one, read from its beginning, though its predecessor of the same number was read."""
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name = topic(2)
    write(broker, name, 5, partition=1)
    made = source(broker, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    with running(made) as query:
        query.move_to_ends()
        broker.delete_topic(name)
        broker.create_topic(name)
        write(broker, name, 1)
        gone = SplitRange(5, 5, drained=False)
        assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 1), f"{name}-1": gone}
        state = query.enumerator.snapshot_state()
        with running(made, state) if restart else nullcontext(query) as later:
            later.positions.update(query.positions)
            add_partitions(broker, name, 2)
            write(broker, name, count, partition=1)
            later.context.run_periodic()
            assert later.move_to_ends()[f"{name}-1"] == SplitRange(0, count)
            assert later.ranges()[f"{name}-1"] == SplitRange(count, count)


def test_deleted_topic(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SK-27, KE-09: a partition that is gone is a data loss; without failure it has nothing to read, said once."""
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name, other = topic(), topic()
    write(broker, name, 3)
    pattern = f"{name}|{other}"
    with (
        running(source(broker, subscribePattern=pattern, startingOffsets="earliest")) as strict,
        running(
            source(broker, subscribePattern=pattern, startingOffsets="earliest", failOnDataLoss="false")
        ) as lenient,
    ):
        strict.move_to_ends()
        lenient.move_to_ends()
        broker.delete_topic(name)
        for query in (strict, lenient):
            query.context.run_periodic()
        with pytest.raises(
            DataLossError, match=f"{name}-0 .* offset 3, available nothing, the partition was deleted"
        ):
            strict.ranges()
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert lenient.ranges() == {
                    f"{name}-0": SplitRange(3, 3, drained=False),
                    f"{other}-0": SplitRange(0, 0),
                }
        assert caplog.text.count("may have been lost") == 1


def test_aged_out_records(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-26, SK-27: a checkpoint's position below the beginning of the log."""
    name = topic()
    write(broker, name, 10)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        query.ranges()
        state = query.enumerator.snapshot_state()
    delete_records(broker, name, before=6)
    split = KafkaPartitionSplit(name, 0)
    with running(source(broker, subscribe=name), state) as query:
        query.positions[split] = 2
        with pytest.raises(
            DataLossError, match=rf"{name}-0 .*wanted from offset 2, available 6 to 10.*from 2 to 6"
        ):
            query.ranges()
    with running(source(broker, subscribe=name, failOnDataLoss="false"), state) as query:
        query.positions[split] = 2
        assert query.ranges() == {split.split_id: SplitRange(6, 10)}
    with running(
        source(broker, subscribe=name, startingOffsets="earliest")
    ) as query:  # no loss: nothing was promised
        assert query.ranges() == {split.split_id: SplitRange(6, 10)}


def test_starting_offset_beyond_the_end(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-27."""
    name = topic()
    write(broker, name, 3)
    wrong = json.dumps({name: {"0": 50}})
    with (
        running(source(broker, subscribe=name, startingOffsets=wrong)) as query,
        pytest.raises(DataLossError, match=rf"{name}-0 .*wanted from offset 50, available 0 to 3"),
    ):
        query.ranges()
    with running(source(broker, subscribe=name, startingOffsets=wrong, failOnDataLoss="false")) as query:
        assert query.ranges() == {f"{name}-0": SplitRange(3, 3)}


def test_open_transaction_is_not_emptiness(broker: KafkaBroker, topic: MakeTopic) -> None:
    """I9: behind the last stable offset there may be records; only then is the split not drained."""
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


def test_sk02_partitions_lost_under_a_run_that_has_an_end(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-02: an error with the words of Spark's source, whatever failOnDataLoss says."""
    name = topic(2)
    write(broker, name, 5)
    with running(source(broker, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")) as query:
        query.move_to_ends()
        query.enumerator.freeze()
        broker.delete_topic(name)
        broker.create_topic(name, 1)
        query.context.run_periodic()
        with pytest.raises(
            DataLossError, match=r"have been lost during running query with Trigger\.AvailableNow"
        ):
            query.ranges()


@pytest.mark.parametrize("partitions", [None, 1])
def test_partitions_lost_before_a_run_that_has_an_end(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, partitions: int | None
) -> None:
    """SK-02, SK-24: topics of a pattern that were deleted, or made again with less, while the query was stopped."""
    name, other = topic(2), topic()
    made = source(
        broker, subscribePattern=f"{name}|{other}", startingOffsets="earliest", failOnDataLoss="false"
    )
    write(broker, name, 5, partition=1)
    with running(made) as query:
        query.move_to_ends()
        state, positions = query.enumerator.snapshot_state(), query.positions
    broker.delete_topic(name)
    if partitions is not None:
        broker.create_topic(name, partitions)
    write(broker, other, 3)
    with running(made, state) as query:
        query.positions.update(positions)
        assert query.move_to_ends().get(f"{other}-0") == SplitRange(0, 3)
        query.enumerator.freeze()
        monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
        assert query.ranges()[f"{name}-1"] == SplitRange(5, 5, drained=False)


def test_sk27_new_partition_that_does_not_begin_at_0(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-27: what was deleted before the partition was found is lost."""
    first = topic()
    pattern = f"{first}.*"
    strict = source(broker, subscribePattern=pattern)
    lenient = source(broker, subscribePattern=pattern, failOnDataLoss="false")
    with running(strict) as failing, running(lenient) as going_on:
        failing.ranges()
        going_on.ranges()
        later = f"{first}-later"
        broker.create_topic(later)
        write(broker, later, 5)
        delete_records(broker, later, before=2)
        for query in (failing, going_on):
            query.context.run_periodic()
        with pytest.raises(DataLossError, match=f"{later}-0 .* wanted from offset 0, available 2 to 5"):
            failing.ranges()
        with caplog.at_level(logging.WARNING):
            assert going_on.ranges()[f"{later}-0"] == SplitRange(2, 5)
        assert "changed from 0 to 2" in caplog.text


def test_sk40_positions_as_spark_writes_them(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-40, SK-34: sorted; names with dashes keep them."""
    name = topic(2)
    write(broker, name, 3, partition=1)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        ends = {split: r.end for split, r in query.ranges().items()}
        assert json.dumps(query.enumerator.describe_positions(ends)) == json.dumps({name: {"0": 0, "1": 3}})


def test_state_of_a_query_that_never_planned(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-08: a checkpoint from before the discovery starts over."""
    name = topic()
    write(broker, name, 2)
    with running(source(broker, subscribe=name), KafkaEnumeratorState()) as query:
        assert query.context.splits[f"{name}-0"].starting_offset == 2
        assert query.enumerator.snapshot_state().partitions == {TopicPartition(name, 0)}
