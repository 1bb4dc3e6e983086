"""The reader on a real broker reads the same rows as a consumer, whatever is in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.api import InputStatus
from flip27_stream.connectors.kafka.fetching import fetch_size
from flip27_stream.connectors.kafka.fetching import reader as reader_module
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.errors import DataLossError
from flip27_stream.reader.drive import read_ranges
from flip27_stream.testing import KafkaBroker, write_bulk
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.kafka.support.kit import (
    check_rows,
    delete_records,
    planned,
    read,
    running,
    settle,
    source,
    transactions,
    write_transaction,
)
from tests.reader.support.kit import ReaderContext
from tests.testing.support.reading import read as consume

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def rows(output: TaskRows) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset", "key", "value", "timestampType")
    columns = [output.column(name) for name in names]
    return sorted(zip(*columns, output.timestamps, strict=True))


def consumed(broker: KafkaBroker, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    records = consume(broker.bootstrap_servers, topic, partitions, isolation)
    return sorted(
        (r.topic, r.partition, r.offset, r.key, r.value, r.timestamp_type, r.timestamp) for r in records
    )


def test_kr01_bounded_splits_are_read_in_order(broker: KafkaBroker, topic: MakeTopic) -> None:
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


def test_kr03_an_empty_range_ends_before_any_fetch(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-03: a range whose start is at or after its end is empty, also at offset 0. It ends once, before any fetch."""
    name = topic(4)
    broker.write(name, [(0, 1, None, b"v")])
    made = source(broker, subscribe=name)
    output = read(
        made,
        KafkaPartitionSplit(name, 0, 0, 1),
        KafkaPartitionSplit(name, 1, 10, 10),
        KafkaPartitionSplit(name, 2, 0, 0),
        KafkaPartitionSplit(name, 3, 7, 5),
    )
    assert output.released == [f"{name}-{n}" for n in (1, 2, 3, 0)]
    assert output.table.num_rows == 1
    assert read(made, KafkaPartitionSplit(name, 2, 0, 0)).table.num_rows == 0


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_kr07_rows_are_those_of_a_consumer(broker: KafkaBroker, topic: MakeTopic, isolation: str) -> None:
    """KR-07, SK-29: rows are those of a consumer, with null values, markers, aborted records, and a split
    that ends in a marker.
    """
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


def test_batches_larger_than_a_fetch_are_read(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A record batch above every limit is read whole, in each of several partitions."""
    name = topic(3)
    broker.write(name, [(p, i, None, b"%d" % i * 100_000) for i in range(4) for p in range(3)])
    limits = {"kafka.fetch.max.bytes": "1000", "kafka.max.partition.fetch.bytes": "1000"}
    output = read(
        source(broker, limits, subscribe=name), *(KafkaPartitionSplit(name, p, 0, 4) for p in range(3))
    )
    assert sorted(output.timestamps) == sorted([0, 1, 2, 3] * 3)


def test_small_fetches_read_each_row_once(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response holds a part of one split only. Every split goes on, and no row comes twice."""
    monkeypatch.setattr(fetch_size, "_LEAST_FETCH", 500)
    monkeypatch.setattr(fetch_size, "_GUESSED_RECORD", 1)
    name = topic(3)
    broker.write(name, [(p, i, b"k", b"v" * (i % 90)) for i in range(500) for p in range(3)])
    made = source(broker, {"kafka.fetch.max.bytes": "1500"}, subscribe=name)
    output = read(made, *(KafkaPartitionSplit(name, p, 7, 490) for p in range(3)))
    assert rows(output) == [r for r in consumed(broker, name, 3, "read_uncommitted") if 7 <= r[2] < 490]


def test_large_batches_are_not_sent_twice(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A fetch has room for whole batches, also at the end of a range. The first one is a guess."""
    name = topic(2)
    values = pa.array([bytes([n % 251]) * 9_000 for n in range(600)], pa.binary())
    for partition in range(2):
        write_bulk(broker.bootstrap_servers, name, partition, np.arange(600), values, batch_records=20)
    context = ReaderContext()
    made = source(broker, {"kafka.max.partition.fetch.bytes": str(1 << 20)}, subscribe=name)
    ranges = [planned(KafkaPartitionSplit(name, p, 0, 600)) for p in range(2)]
    output = TaskRows(made.schema, ranges)
    for _ in read_ranges(made, context, ranges, output):
        pass
    assert output.table.num_rows == 1200
    assert context.metric_group().snapshot()["bytes_in"] < 1.15 * 1200 * 9_000


def test_a_range_of_aborted_records_alone_has_no_rows(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A split ends although its last offsets, or all of them, are those of an aborted transaction."""
    name = topic()
    broker.write(name, [(0, i, b"k", b"%d" % i) for i in range(10)])
    with transactions(broker, f"{name}-aborted") as producer:
        write_transaction(producer, name, [11], commit=False)
        settle(broker, name)
    made = source(broker, {"kafka.isolation.level": "read_committed"}, subscribe=name)
    assert read(made, KafkaPartitionSplit(name, 0, 10, 12)).table.num_rows == 0
    assert read(made, KafkaPartitionSplit(name, 0, 9, 12)).column("offset") == [9]


def test_a_snapshot_has_the_ranges_that_are_left(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot begins at the first offset that was not emitted, though more records are fetched. The reader emits
    one record batch at a time here.
    """
    monkeypatch.setattr(reader_module, "_DECODED_AT_ONCE", 1)
    name = topic()
    write_bulk(broker.direct_servers, name, 0, np.arange(10), b"v", batch_records=3)
    split = KafkaPartitionSplit(name, 0, 2, 9)
    output, reader = (
        TaskRows(SCHEMA, [planned(split)]),
        source(broker, subscribe=name).create_reader(ReaderContext()),
    )
    reader.add_splits([split])
    found = [(0, reader.snapshot_state())]
    while reader.poll_next(output) is not InputStatus.END_OF_INPUT:
        found.append((output.table.num_rows, reader.snapshot_state()))
    reader.close()
    check_rows(output)
    left = [(emitted, [split.between(2 + emitted, 9)]) for emitted in (0, 1, 4)]
    assert [each for each, _ in groupby(found)] == [*left, (7, [])]


def test_sk26_aged_out_records_of_a_planned_range_are_lost_data(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """SK-26: records of a planned range aged out. The error names the wanted and the available offsets, or the reader
    reads the records that are left, once.
    """
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


def test_a_topic_that_was_deleted_before_it_was_read_is_lost(broker: KafkaBroker, topic: MakeTopic) -> None:
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
    """KR-05: topics with dots, dashes and underscores in their names are read. The ids of their splits differ, though
    a name ends like the split of another topic, and each is read back from its serialized form.
    """
    names = ["dots.dashes-and_underscores", "dots.dashes-and_underscores-1"]
    for name in names:
        broker.create_topic(name, 2)
        broker.write(name, [(p, 1, None, f"{name} {p}".encode()) for p in range(2)])
    made = source(broker, assign=json.dumps({name: [0, 1] for name in names}), startingOffsets="earliest")
    serializer = made.split_serializer
    with running(made) as query:
        ranges = query.ranges()
        assert sorted(ranges) == sorted(f"{name}-{p}" for name in names for p in range(2))
        for split in query.positions:
            stored = serializer.deserialize(serializer.version, serializer.serialize(split))
            assert (stored.topic, stored.partition) == (split.topic, split.partition)
        found = query.read(ranges)
    rows = zip(found.column("topic"), found.column("partition"), found.column("value"), strict=True)
    assert sorted(rows) == [(name, p, f"{name} {p}".encode()) for name in names for p in range(2)]
