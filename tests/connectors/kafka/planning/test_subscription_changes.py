"""The subscription changes while a query is stopped. The query takes the change as Spark's source does."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka.source import KafkaSource
from flip27_stream.errors import DataLossError, ForeignCheckpointError, MissingTopicError
from flip27_stream.spark.source_spec import Driver, SourceSpec
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import source, write_rows
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

MakeTopic = Callable[..., str]

EARLIEST = {"startingOffsets": "earliest", "scan.topic-partition-discovery.interval": "50 ms"}
GO_ON = {"failOnDataLoss": "false"}
SERVERS = {"kafka.bootstrap.servers": "host:1"}


def aligned(table: Path | str, **more: str) -> AlignmentOptions:
    alignment = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "g",
            "scan.watermark.alignment.max-drift": "1 h",
            "scan.watermark.alignment.table": str(table),
            **{f"scan.watermark.{name.replace('_', '-')}": value for name, value in more.items()},
        }
    )
    assert alignment is not None
    return alignment


def spec(options: dict[str, str], event_time: str | None = None) -> SourceSpec:
    alignment = aligned("/unused", event_time=event_time) if event_time is not None else None
    return SourceSpec(KafkaSource({**SERVERS, **options}), WatermarkStrategy(), alignment, Driver())


@pytest.mark.parametrize("event_time", [None, "timestamp", "/t"])
def test_checkpoints_of_any_subscription_are_accepted(event_time: str | None) -> None:
    """A query goes on from checkpoints of any subscription under the same event time."""
    options: list[dict[str, str]] = [
        {"subscribe": "a,b"},
        {"subscribePattern": "(a)|(b)"},
        {"assign": '{"a":[0,1]}'},
    ]
    specs = [spec(each, event_time) for each in options]
    for now in specs:
        assert all(now.goes_on_as(then.fingerprint, True) == then.fingerprint for then in specs)
        for foreign in ("parquet files of /data", "Delta table /Kafka option 'subscribe' (a)", "Kafka"):
            assert now.goes_on_as(foreign, False) is None


def test_an_event_time_cannot_be_changed_but_turned_on_and_off() -> None:
    """A stored time means nothing under another event time. A checkpoint of a query that was not aligned has none, and
    a query that is not aligned uses none.
    """
    kafka = {"subscribe": "a"}
    unaligned, by_timestamp, by_pointer = spec(kafka), spec(kafka, "timestamp"), spec(kafka, "/t")
    assert by_pointer.goes_on_as(unaligned.fingerprint, False) == by_pointer.fingerprint
    assert by_timestamp.goes_on_as(unaligned.fingerprint, False) == by_timestamp.fingerprint
    assert unaligned.goes_on_as(by_pointer.fingerprint, True) == by_pointer.fingerprint
    for now, then in (
        (by_pointer, by_timestamp),
        (by_timestamp, by_pointer),
        (spec(kafka, "/u"), by_pointer),
    ):
        with pytest.raises(ForeignCheckpointError, match=r"has event times of .*scan\.watermark\.event-time"):
            now.goes_on_as(then.fingerprint, True)
    assert spec({"subscribe": "a,b"}, "/t").goes_on_as(unaligned.fingerprint, False) == by_pointer.fingerprint


@pytest.mark.jvm
def test_the_table_keeps_the_name_of_the_source(
    broker: KafkaBroker, topic: MakeTopic, tmp_path: Path
) -> None:
    """The source's name in the table comes from the fingerprint with which the checkpoint began. The offset
    keeps that fingerprint.
    """
    first, second = topic(), topic()
    write_rows(broker, first, 3)
    write_rows(broker, second, 3)
    made = source(broker, EARLIEST, subscribe=first)
    with SourceQuery(made, alignment=aligned(tmp_path)) as query:
        assert len(query.run(3)) == 3
    with SourceQuery(
        source(broker, EARLIEST, subscribe=f"{first},{second}"), query.offset, alignment=aligned(tmp_path)
    ) as after:
        assert positions(after.run(3)) == all_of(second)
    assert after.offset["source"] == query.offset["source"] == made.fingerprint
    rows = SplitWatermarkTable(str(tmp_path), {}).rows().to_pylist()
    assert {row["split"] for row in rows} >= {f"{first}-0", f"{second}-0"}
    assert len({row["source"] for row in rows}) == 1


@pytest.mark.jvm
def test_a_checkpoint_of_other_topics_alone_is_taken_for_that_of_another_query(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """A copied query often keeps the checkpoint's path. The remedy is then another path, and not data loss."""
    first, second = topic(), topic()
    write_rows(broker, first, 3)
    with SourceQuery(source(broker, EARLIEST, subscribe=first)) as query:
        query.run(3)
    with (
        SourceQuery(source(broker, EARLIEST, subscribe=second), query.offset) as other,
        pytest.raises(
            DataLossError, match=rf"{first}-0 .*\({second}\) does not name.*its own checkpointLocation"
        ),
    ):
        other.next_batch()


@pytest.mark.jvm
def test_partitions_that_are_no_longer_named_are_lost_data(
    broker: KafkaBroker, topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """Partitions that are not named any more are lost, as failOnDataLoss says. If they are named
    again, they are new.
    """
    left, kept = topic(2), topic()
    for name in (left, kept):
        write_rows(broker, name, 3)
    with SourceQuery(source(broker, EARLIEST, subscribe=f"{left},{kept}")) as query:
        query.run(6)
    write_rows(broker, kept, 1)
    with (
        SourceQuery(source(broker, EARLIEST, subscribe=kept), query.offset) as strict,
        pytest.raises(DataLossError, match=rf"{left}-0, {left}-1 .*\({kept}\) does not name.*failOnDataLoss"),
    ):
        strict.next_batch()
    with (
        caplog.at_level(logging.WARNING),
        SourceQuery(source(broker, {**EARLIEST, **GO_ON}, subscribe=kept), query.offset) as lenient,
    ):
        assert positions(lenient.run(1)) == Counter({(kept, 0, 3): 1})
    assert f"Partitions {left}-0, {left}-1 are in the checkpoint" in caplog.text
    assert list(lenient.offset["splits"]) == [f"{kept}-0"]
    with SourceQuery(source(broker, EARLIEST, subscribe=f"{left},{kept}"), lenient.offset) as again:
        assert positions(again.run(3)) == all_of(left)


@pytest.mark.jvm
def test_a_partition_that_is_no_longer_named_is_dropped_at_once(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """A partition that is not named any more is dropped at once, also if the others have no records.
    Then the query is idle.
    """
    name = topic(2)
    write_rows(broker, name, 3, partition=0)
    with SourceQuery(source(broker, EARLIEST, assign=json.dumps({name: [0, 1]}))) as query:
        query.run(3)
    narrower = source(broker, {**EARLIEST, **GO_ON}, assign=json.dumps({name: [1]}))
    with SourceQuery(narrower, query.offset) as after:
        batch = after.next_batch()
        assert batch is not None
        assert after.tasks(*batch) == []
        assert list(batch[1]["splits"]) == [f"{name}-1"]
        after.offset = batch[1]
        assert after.next_batch() is None


@pytest.mark.jvm
def test_a_batch_that_was_planned_is_read_under_the_new_subscription(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """The process died before it read a planned batch. Spark asks for its ranges again, which
    are in the two offsets.
    """
    left, kept = topic(), topic()
    for name in (left, kept):
        write_rows(broker, name, 3)
    with SourceQuery(source(broker, EARLIEST, subscribe=f"{left},{kept}")) as query:
        start, end = query.wait_for_batch()
        planned = query.tasks(start, end)
    with SourceQuery(source(broker, {**EARLIEST, **GO_ON}, subscribe=kept), end) as after:
        replayed = after.tasks(start, end)
        assert replayed == planned
        rows = [row for task in replayed for row in after.read(task)]
        assert positions(rows) == all_of(left) + all_of(kept)
        assert not after.run(0)
        assert list(after.offset["splits"]) == [f"{kept}-0"]


@pytest.mark.jvm
def test_a_newly_named_topic_must_exist(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A misspelt topic is an error, and no silent wait. A topic that the checkpoint has may be missing."""
    name, other = topic(), topic()
    with SourceQuery(source(broker, EARLIEST, subscribe=f"{name},{other}")) as query:
        query.run(0)
    with (
        SourceQuery(
            source(broker, EARLIEST, subscribe=f"{name},{other},none-such"), query.offset
        ) as misspelt,
        pytest.raises(MissingTopicError, match="topics or partitions none-such"),
    ):
        misspelt.next_batch()
    broker.delete_topic(other)
    with SourceQuery(source(broker, EARLIEST, subscribe=f"{name},{other}"), query.offset) as known:
        assert known.next_batch() is None


@pytest.mark.jvm
def test_a_bounded_query_keeps_the_partitions_with_which_it_began(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name, other = topic(), topic()
    for each in (name, other):
        write_rows(broker, each, 3)
    bounded = {**EARLIEST, "scan.bounded.mode": "latest-offset"}
    with SourceQuery(source(broker, bounded, subscribe=name)) as query:
        query.run(3)
    with SourceQuery(source(broker, bounded, subscribe=f"{name},{other}"), query.offset) as after:
        assert not after.run(0)


@pytest.mark.jvm
def test_another_event_time_is_refused(broker: KafkaBroker, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    write_rows(broker, name, 3)
    made = source(broker, EARLIEST, subscribe=name)
    with SourceQuery(made, alignment=aligned(tmp_path)) as query:
        query.run(3)
    with (
        SourceQuery(made, query.offset, alignment=aligned(tmp_path, event_time="/t")) as other,
        pytest.raises(ForeignCheckpointError, match=r"has event times of 'timestamp', and .* from '/t'"),
    ):
        other.next_batch()


def positions(rows: list[dict[str, Any]]) -> Counter[tuple[str, int, int]]:
    return Counter((row["topic"], row["partition"], row["offset"]) for row in rows)


def all_of(topic: str) -> Counter[tuple[str, int, int]]:
    return Counter({(topic, 0, n): 1 for n in range(3)})
