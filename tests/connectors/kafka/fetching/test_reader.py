"""The reader on a real broker reads the same rows as a consumer, whatever is in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition as KafkaPythonPartition

from flip27_stream.connectors.kafka.fetching import reader as reader_module
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.errors import DataLossError
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import (
    Output,
    ReaderContext,
    read,
    running,
    settle,
    source,
    transactions,
    write_transaction,
)
from tests.testing.reading import read as consume

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def rows(output: Output) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset", "key", "value", "timestampType")
    columns = [output.column(name) for name in names]
    return sorted(zip(*columns, output.timestamps, strict=True))


def consumed(broker: KafkaBroker, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    records = consume(broker.bootstrap_servers, topic, partitions, isolation)
    return sorted(
        (r.topic, r.partition, r.offset, r.key, r.value, r.timestamp_type, r.timestamp) for r in records
    )


def test_kr01_bounded_splits(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-01: values, offsets and timestamps come in order, for each split from its start up to its stop."""
    name = topic(10)
    broker.write(name, [(p, i * 1000, b"%d" % p, b"%d" % i) for i in range(10) for p in range(10)])
    output = read(source(broker, subscribe=name), *(KafkaPartitionSplit(name, p, p, 10) for p in range(10)))
    assert output.table.schema == SCHEMA
    assert output.table.num_rows == 55
    for p in range(10):
        mine = output.table.filter(pa.compute.equal(output.table["partition"], p))
        assert mine["offset"].to_pylist() == list(range(p, 10))
        assert mine["value"].to_pylist() == [b"%d" % i for i in range(p, 10)]
        assert mine["timestamp"].cast(pa.int64()).to_pylist() == [i * 1_000_000 for i in range(p, 10)]
    assert sorted(output.timestamps) == sorted(i * 1000 for p in range(10) for i in range(p, 10))


def test_kr03_empty_ranges(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-03: a range whose start is at or after its end is empty, also at offset 0."""
    name = topic(3)
    broker.write(name, [(0, 1, None, b"v")])
    made = source(broker, subscribe=name)
    output = read(
        made,
        KafkaPartitionSplit(name, 0, 0, 1),
        KafkaPartitionSplit(name, 1, 10, 10),
        KafkaPartitionSplit(name, 2, 0, 0),
    )
    assert output.table.num_rows == 1
    assert read(made, KafkaPartitionSplit(name, 2, 0, 0)).table.num_rows == 0


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_kr07_same_rows_as_a_consumer(broker: KafkaBroker, topic: MakeTopic, isolation: str) -> None:
    """KR-07, SK-29: rows are those of a consumer, with null values, markers, aborted records, and a split
    that ends in a marker."""
    name = topic(2)
    broker.write(name, [(1, 5, None, b""), (1, 4, b"", None), (1, 0, b"key", b"x" * 5000)])
    with transactions(broker, f"{name}-{isolation}") as producer:
        write_transaction(producer, name, [10, 11, 12], commit=True)
        write_transaction(producer, name, [20, 21], commit=False)
        broker.write(name, [(0, 30, None, b"plain")])
        write_transaction(producer, name, [40] * 20, commit=False, partition=1)
        settle(broker, name)
        settle(broker, name, partition=1)
        made = source(
            broker, {"kafka.isolation.level": isolation}, subscribe=name, startingOffsets="earliest"
        )
        with running(made) as query:
            output = query.read(query.ranges())
    assert rows(output) == consumed(broker, name, 2, isolation)
    assert len(output.timestamps) == (7 if isolation == "read_committed" else 29)


def test_batches_larger_than_a_fetch(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A record batch above every limit is read whole, in each of several partitions."""
    name = topic(3)
    broker.write(name, [(p, i, None, b"%d" % i * 100_000) for i in range(4) for p in range(3)])
    limits = {"kafka.fetch.max.bytes": "1000", "kafka.max.partition.fetch.bytes": "1000"}
    output = read(
        source(broker, limits, subscribe=name), *(KafkaPartitionSplit(name, p, 0, 4) for p in range(3))
    )
    assert sorted(output.timestamps) == sorted([0, 1, 2, 3] * 3)


def test_many_small_fetches(broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response holds a part of one split only. Every split goes on, and no row comes twice."""
    monkeypatch.setattr(reader_module, "_LEAST_FETCH", 500)
    monkeypatch.setattr(reader_module, "_GUESSED_RECORD", 1)
    name = topic(3)
    broker.write(name, [(p, i, b"k", b"v" * (i % 90)) for i in range(500) for p in range(3)])
    made = source(broker, {"kafka.fetch.max.bytes": "1500"}, subscribe=name)
    output = read(made, *(KafkaPartitionSplit(name, p, 7, 490) for p in range(3)))
    assert rows(output) == [r for r in consumed(broker, name, 3, "read_uncommitted") if 7 <= r[2] < 490]


def test_compacted_topic_has_gaps(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A split ends although its last offsets have no records, but an aborted transaction."""
    name = topic()
    broker.write(name, [(0, i, b"k", b"%d" % i) for i in range(10)])
    with transactions(broker, f"{name}-gap") as producer:
        write_transaction(producer, name, [11], commit=False)
        settle(broker, name)
    made = source(broker, {"kafka.isolation.level": "read_committed"}, subscribe=name)
    assert read(made, KafkaPartitionSplit(name, 0, 10, 12)).table.num_rows == 0
    assert read(made, KafkaPartitionSplit(name, 0, 9, 12)).column("offset") == [9]


def test_snapshot_is_what_is_left(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    broker.write(name, [(0, i, None, b"v") for i in range(10)])
    made = source(broker, subscribe=name).create_reader(ReaderContext())
    made.add_splits([KafkaPartitionSplit(name, 0, 2, 10)])
    assert made.snapshot_state() == [KafkaPartitionSplit(name, 0, 2, 10)]
    made.close()


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_records({KafkaPythonPartition(topic, 0): before})
    finally:
        admin.close()


def test_sk26_records_that_age_out_inside_a_planned_range(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-26: records of a planned range aged out. The error names the wanted and the available offsets, or the reader
    reads the records that are left, once."""
    name = topic()
    broker.write(name, [(0, i, None, b"v") for i in range(50)])
    delete_records(broker, name, before=30)
    split = KafkaPartitionSplit(name, 0, 0, 50)
    with pytest.raises(DataLossError, match=rf"{name}-0 .*wanted offsets 0 to 50, available 30 to 50"):
        read(source(broker, subscribe=name), split)
    lenient = source(broker, subscribe=name, failOnDataLoss="false")
    assert read(lenient, split).column("offset") == list(range(30, 50))
    assert read(lenient, KafkaPartitionSplit(name, 0, 0, 20)).table.num_rows == 0
    with pytest.raises(DataLossError, match="wanted offsets 60 to 70, available 30 to 50"):
        read(source(broker, subscribe=name), KafkaPartitionSplit(name, 0, 60, 70))


def test_topic_deleted_before_it_was_read(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    broker.write(name, [(0, i, None, b"v") for i in range(5)])
    broker.delete_topic(name)
    quick = {"kafka.default.api.timeout.ms": "1000"}
    split = KafkaPartitionSplit(name, 0, 0, 5)
    with pytest.raises(
        DataLossError, match="wanted offsets 0 to 5, available nothing, the partition was deleted"
    ):
        read(source(broker, quick, subscribe=name), split)
    assert read(source(broker, quick, subscribe=name, failOnDataLoss="false"), split).table.num_rows == 0


def test_range_beyond_the_end_is_lost(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A log that lost its end after the range was planned is data loss. With failOnDataLoss=false the rest is read."""
    name = topic()
    broker.write(name, [(0, i, None, b"v") for i in range(5)])
    quick = {"kafka.default.api.timeout.ms": "1000"}
    split = KafkaPartitionSplit(name, 0, 3, 9)
    with pytest.raises(DataLossError, match=rf"{name}-0 .*wanted offsets 5 to 9, available 0 to 5"):
        read(source(broker, quick, subscribe=name), split)
    lenient = source(broker, quick, subscribe=name, failOnDataLoss="false")
    assert read(lenient, split).column("offset") == [3, 4]


def test_topic_names_with_dots_and_dashes(broker: KafkaBroker) -> None:
    """KR-05: topics with dots, dashes and underscores in their names are read."""
    name = "dots.dashes-and_underscores-1"
    broker.create_topic(name, 2)
    broker.write(name, [(1, 1, None, b"v")])
    made = source(broker, assign=json.dumps({name: [1]}), startingOffsets="earliest")
    with running(made) as query:
        assert query.read(query.ranges()).column("topic") == [name]
