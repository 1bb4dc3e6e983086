"""Topics that are made again or deleted, and records that are gone, as the enumerator finds them on a real broker."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest, SplitRange
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.fetching import reader
from flip27_stream.connectors.kafka.planning import log_ranges
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.errors import DataLossError
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import (
    add_partitions,
    delete_records,
    running,
    source,
    write_rows,
)
from watermark_alignment.options import AlignmentOptions

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DISCOVERY = "scan.topic-partition-discovery.interval"
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_sk25_a_recreated_topic_is_lost_data(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-25, SK-02: another topic of the same name is found by its id, however long it is."""
    name = topic()
    write_rows(broker, name, 2)
    for records in (1, 5):
        with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
            query.move_to_ends()
            broker.delete_topic(name)
            broker.create_topic(name)
            write_rows(broker, name, records)
            query.context.run_periodic()
            with pytest.raises(
                DataLossError, match=rf"{name}-0 may have been lost: wanted from offset \d.* changed from"
            ):
                query.ranges()


def test_recreated_topic_is_read_from_its_beginning(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-24: without failOnDataLoss a topic that was made again is warned of, and read from its
    beginning. The new id is kept.
    """
    name = topic()
    write_rows(broker, name, 3)
    with running(source(broker, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")) as query:
        query.move_to_ends()
        before = query.enumerator.snapshot_state()
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, 2)  # the log ends before the position, so no discovery is needed
        with caplog.at_level(logging.WARNING):
            assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 2)}
        assert "changed from 3 to 2" in caplog.text
        after = query.enumerator.snapshot_state()
        assert after.partitions == before.partitions
        assert after != before
        assert query.ranges() == {f"{name}-0": SplitRange(2, 2)}


@pytest.mark.parametrize("discovery", ["0", "1 hour"])
def test_topic_that_was_recreated_longer(broker: KafkaBroker, topic: MakeTopic, discovery: str) -> None:
    """I1, SK-25: a plan notices the new topic before it plans a row of it, however seldom topics are discovered."""
    name = topic(2)
    write_rows(broker, name, 3)
    made = {"startingOffsets": "earliest", DISCOVERY: discovery, "subscribe": name}
    with (
        running(source(broker, made, failOnDataLoss="false")) as lenient,
        running(source(broker, made)) as strict,
    ):
        lenient.move_to_ends()
        strict.move_to_ends()
        broker.delete_topic(name)
        broker.create_topic(name, 2)
        write_rows(broker, name, 5)
        assert lenient.move_to_ends() == {f"{name}-0": SplitRange(0, 5), f"{name}-1": SplitRange(0, 0)}
        assert lenient.ranges() == {f"{name}-0": SplitRange(5, 5), f"{name}-1": SplitRange(0, 0)}
        with pytest.raises(
            DataLossError, match=r"wanted from offset 3, .*created again\. .* changed from 3 to 0\. "
        ):
            strict.ranges()


def make_again(broker: KafkaBroker, name: str, records: int) -> None:
    broker.delete_topic(name)
    broker.create_topic(name)
    write_rows(broker, name, records)


@pytest.mark.parametrize("records", [2, 9])
def test_topic_that_is_made_again_between_plan_and_fetch(
    broker: KafkaBroker,
    topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    records: int,
) -> None:
    """I1, SK-25, KIP-516: no row of the new topic is read at offsets of the old one. The next plan
    begins the new topic.
    """
    monkeypatch.setattr(reader, "_GONE_AFTER_S", 0.0)
    name = topic()
    write_rows(broker, name, 5)
    made = {"subscribe": name, "startingOffsets": "earliest"}
    with (
        running(source(broker, made, failOnDataLoss="false")) as lenient,
        running(source(broker, made)) as strict,
    ):
        planned = lenient.move_to_ends()
        assert strict.move_to_ends() == planned == {f"{name}-0": SplitRange(0, 5)}
        make_again(broker, name, records)
        with pytest.raises(
            DataLossError, match=rf"{name}-0 were lost .* offsets 0 to 5, .* or created again"
        ):
            strict.read(planned)
        assert lenient.read(planned).batches == []
        assert "were lost while they were read" in caplog.text
        again = lenient.move_to_ends()
        assert again == {f"{name}-0": SplitRange(0, records)}
        assert len(lenient.read(again).timestamps) == records


def test_topic_that_is_made_again_between_plan_and_probe(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KIP-516: a topic that is gone has no event times. Those of the new topic are not taken."""
    name = topic()
    write_rows(broker, name, 5)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        ranges = query.move_to_ends()
        make_again(broker, name, 9)
        found = query.enumerator.event_time_positions(PositioningRequest(ranges))
        assert found.event_times() == {}


@pytest.mark.parametrize("hybrid", [False, True])
def test_ids_of_topics_reach_the_tasks(broker: KafkaBroker, topic: MakeTopic, hybrid: bool) -> None:
    """KIP-516: tasks get the ids of topics, in a stream, in a batch read, and where the source is
    one of a hybrid source.
    """
    name = topic()
    write_rows(broker, name, 5)
    live = source(broker, subscribe=name, startingOffsets="earliest")
    made = HybridSource.builder(live).build() if hybrid else live
    query = SourceQuery(made)
    try:
        planned = None
        while planned is None or not query.tasks(*planned):
            planned = query.next_batch()
        ((split, start, end),) = query.tasks(*planned)[0]
        bounded: Any = split.between(start, end)
        ((again, *_),) = Flip27BatchReader(query.spec).partitions()[0].value.ranges
        ids = {(s.split if hybrid else s).topic_id for s in (bounded, again)}
        described = broker_topic_ids(broker, name)
        assert ids == described
    finally:
        query.close()


def broker_topic_ids(broker: KafkaBroker, name: str) -> set[str]:
    client = KafkaClient(ConnectionOptions(broker.bootstrap_servers))
    try:
        return {client.topics([name])[name].topic_id}
    finally:
        client.close()


def test_bounded_stream_of_a_topic_that_was_recreated_longer(broker: KafkaBroker, topic: MakeTopic) -> None:
    """I1: a topic that was made again is found without a discovery, and the stop stays the same."""
    name = topic()
    write_rows(broker, name, 3)
    stops = {
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": json.dumps({name: {"0": 4}}),
    }
    made = source(broker, stops, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    with running(made) as query:
        assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 3)}
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, 5)
        assert query.ranges() == {f"{name}-0": SplitRange(0, 4, final=True)}


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("count", [2, 7])
def test_partition_that_a_recreated_topic_gets_later(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, count: int, restart: bool
) -> None:
    """I1, SK-24: a partition that the new topic gets later is read from its beginning, though a partition of that
    number was read before.
    """
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name = topic(2)
    write_rows(broker, name, 5, partition=1)
    made = source(broker, subscribe=name, startingOffsets="earliest", failOnDataLoss="false")
    with running(made) as query:
        query.move_to_ends()
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, 1)
        gone = SplitRange(5, 5, drained=False, final=True)
        assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 1), f"{name}-1": gone}
        state = query.enumerator.snapshot_state()
        with running(made, state) if restart else nullcontext(query) as later:
            later.positions.update(query.positions)
            add_partitions(broker, name, 2)
            write_rows(broker, name, count, partition=1)
            later.context.run_periodic()
            assert later.move_to_ends()[f"{name}-1"] == SplitRange(0, count)
            assert later.ranges()[f"{name}-1"] == SplitRange(count, count)


def test_a_deleted_topic_is_lost_data(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SK-27, KE-09: a partition that is gone is a data loss. Without failOnDataLoss it has no
    records, and one warning.
    """
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name, other = topic(), topic()
    write_rows(broker, name, 3)
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
                    f"{name}-0": SplitRange(3, 3, drained=False, final=True),
                    f"{other}-0": SplitRange(0, 0),
                }
        assert caplog.text.count("may have been lost") == 1


def test_a_deleted_topic_does_not_hold_others_back(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rule 5, SK-27: no record can come from a topic that is gone, so an aligned query reads the others on, also where
    splits never turn idle, and a query that goes on from its checkpoint does so, too.
    """
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name, other = topic(), topic()
    made = source(broker, subscribe=f"{name},{other}", startingOffsets="earliest", failOnDataLoss="false")
    options = {"max-drift": "1 s", "group": "g", "table": str(tmp_path / "table")}
    given = {f"scan.watermark.alignment.{option}": value for option, value in options.items()}
    alignment = AlignmentOptions.parse({**given, "scan.watermark.idle-timeout": "0"})
    for each in (name, other):
        write_rows(broker, each, 3)
    with SourceQuery(made, alignment=alignment) as query:
        assert len(query.run(6)) == 6
        broker.delete_topic(name)
        broker.write(other, [(0, 60_000 + n, None, b"late") for n in range(4)])
        assert len(query.run(4)) == 4
    broker.write(other, [(0, 120_000 + n, None, b"later") for n in range(5)])
    with SourceQuery(made, query.offset, alignment=alignment) as after:
        assert len(after.run(5)) == 5


def test_a_bounded_source_ends_without_the_records_of_a_deleted_topic(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SK-27: otherwise the next source of a hybrid source would never be read."""
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name, other, live = topic(), topic(), topic()
    for each in (name, other, live):
        write_rows(broker, each, 3)
    bounded = {
        "startingOffsets": "earliest",
        "scan.bounded.mode": "latest-offset",
        "maxOffsetsPerTrigger": "2",
        "failOnDataLoss": "false",
    }
    first = source(broker, bounded, subscribe=f"{name},{other}")
    then = source(broker, subscribe=live, startingOffsets="earliest")
    hybrid = HybridSource.builder(first, event_time="timestamp").add_source(then).build()
    with SourceQuery(hybrid) as query:
        read = query.read_all(*query.wait_for_batch())
        broker.delete_topic(name)
        left = [row for row in read if row["topic"] == name]
        assert len(left) < 3
        rows = [*read, *query.run(6 - len(read) + len(left))]
    assert [row["topic"] for row in rows].count(live) == 3


def test_aged_out_records_are_lost_data(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-26, SK-27: the position of a checkpoint is below the beginning of the log."""
    name = topic()
    write_rows(broker, name, 10)
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
    ) as query:  # no loss: a new query has no position
        assert query.ranges() == {split.split_id: SplitRange(6, 10)}


def test_sk02_partitions_lost_under_a_run_that_has_an_end(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-02: the error has the words of Spark's source, whatever failOnDataLoss says."""
    name = topic(2)
    write_rows(broker, name, 5)
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
    """SK-02, SK-24: topics of a pattern were deleted, or made again with fewer partitions, while
    the query was stopped.
    """
    name, other = topic(2), topic()
    made = source(
        broker, subscribePattern=f"{name}|{other}", startingOffsets="earliest", failOnDataLoss="false"
    )
    write_rows(broker, name, 5, partition=1)
    with running(made) as query:
        query.move_to_ends()
        state, positions = query.enumerator.snapshot_state(), query.positions
    broker.delete_topic(name)
    if partitions is not None:
        broker.create_topic(name, partitions)
    write_rows(broker, other, 3)
    with running(made, state) as query:
        query.positions.update(positions)
        assert query.move_to_ends().get(f"{other}-0") == SplitRange(0, 3)
        query.enumerator.freeze()
        monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
        assert query.ranges()[f"{name}-1"] == SplitRange(5, 5, drained=False, final=True)
