"""Rows, transactions and tasks in this project's Kafka source and in Spark's built-in one. Each test runs on both
sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest
from kafka import KafkaProducer
from pyspark.sql.functions import col, count, spark_partition_id, window
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import min as least

from tests.spark.support.both_sources import Collected, both_formats, collect, rows, sizes
from tests.spark.support.kafka_queries import T0, KafkaQueries, records

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


@both_formats
def test_headers_are_a_column_if_asked_for(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-22: column ``headers`` is null for a record without headers, and keeps the order of headers with one key.
    KI-01: column ``timestamp`` has the times of the records.
    """
    name = topic()
    pairs = [("a", b"1"), ("b", b""), ("a", b"2")]
    queries.broker.write(name, [(0, T0, b"k", b"v"), (0, T0 + 1, b"k", b"v", pairs)])
    plain = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert queries.batch(name, {"includeHeaders": "false"}, source).columns == plain
    stream = queries.stream(name, {"includeHeaders": "true"}, source)
    assert stream.columns == [*plain, "headers"]
    assert stream.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    (batch,) = collect(stream, queries.folder / "c")
    made = [{"key": key, "value": value} for key, value in pairs]
    assert batch["headers"].to_pylist() == [None, made]
    assert [int(time.timestamp() * 1000) for time in batch["timestamp"].to_pylist()] == [T0, T0 + 1]


@both_formats
def test_rows_of_transactions_are_those_of_spark(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-29: ``read_committed`` reads records of committed transactions only. ``read_uncommitted`` reads those of
    open and aborted transactions, too.
    """
    name = topic()
    settings = {"bootstrap_servers": queries.broker.bootstrap_servers, "transactional_id": name}

    def seen() -> tuple[int, int]:
        levels = [{"kafka.isolation.level": f"read_{level}"} for level in ("uncommitted", "committed")]
        uncommitted, committed = (rows(queries.batch(name, level, source)).num_rows for level in levels)
        return uncommitted, committed

    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        for finish_it, expected in (("abort", (5, 0)), ("commit", (10, 0)), ("commit", (15, 5))):
            producer.begin_transaction()
            for number in range(5):
                producer.send(name, partition=0, value=b"%d" % number, timestamp_ms=T0)
            producer.flush()
            assert seen() == expected
            getattr(producer, f"{finish_it}_transaction")()
    assert seen() == (15, 10)


@both_formats
@pytest.mark.parametrize(
    ("limits", "tasks"), [({}, 1), ({"minPartitions": "1"}, 1), ({"minPartitions": "4"}, 4)]
)
def test_one_range_becomes_as_many_tasks_as_told(
    queries: KafkaQueries, topic: MakeTopic, source: str, limits: Mapping[str, str], tasks: int
) -> None:
    """SK-30: one range is read by one task, or by ``minPartitions`` tasks."""
    name = topic()
    queries.broker.write(name, records(0, [T0] * 100))
    assert queries.batch(name, limits, source).rdd.getNumPartitions() == tasks


@both_formats
@pytest.mark.parametrize(
    ("ends", "least_tasks", "pieces"),
    [
        ([(1, 5)], 4, {(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)}),
        ([(1, 11)], 3, {(0, 1, 4), (0, 4, 7), (0, 7, 11)}),
        ([(1, 5), (1, 21)], 4, {(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)}),
        (
            [(0, 10), (0, 10), (0, 1)],
            6,
            {(p, *piece) for p in (0, 1) for piece in ((0, 3), (3, 6), (6, 10))} | {(2, 0, 1)},
        ),
    ],
    ids=["four", "three", "two-ranges", "three-ranges"],
)
def test_ranges_are_cut_where_spark_cuts_them(
    queries: KafkaQueries,
    topic: MakeTopic,
    source: str,
    ends: list[tuple[int, int]],
    least_tasks: int,
    pieces: set[tuple[int, int, int]],
) -> None:
    """SK-31: ``minPartitions`` cuts ranges at the same offsets in both sources. The last piece of a range takes the
    remainder.
    """
    name = topic(len(ends))
    queries.broker.write(name, [r for p in range(len(ends)) for r in records(p, [T0] * 21)])
    start, end = (json.dumps({name: {str(p): pair[side] for p, pair in enumerate(ends)}}) for side in (0, 1))
    options = {"startingOffsets": start, "endingOffsets": end, "minPartitions": str(least_tasks)}
    frame = queries.batch(name, options, source).groupBy(spark_partition_id(), "partition")
    found = frame.agg(least("offset").alias("from"), greatest("offset").alias("to")).collect()
    assert {(row["partition"], row["from"], row["to"] + 1) for row in found} == pieces


@both_formats
def test_an_empty_topic_has_no_rows_and_no_error(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """KR-03, SK-21: an empty topic and an empty range give no rows, all columns and no error."""
    name = topic(2)
    table = rows(queries.batch(name, source=source))
    assert (table.num_rows, table.num_columns) == (0, 7)
    queries.broker.write(name, records(1, [T0]))
    nothing = json.dumps({name: {"0": 0, "1": 1}})
    options = {"startingOffsets": nothing, "endingOffsets": nothing, "minPartitions": "5"}
    assert rows(queries.batch(name, options, source)).num_rows == 0


@both_formats
@pytest.mark.parametrize("group", [{}, {"kafka.group.id": "ki-02"}], ids=["no-group", "group"])
def test_two_topics_are_read_to_their_ends(
    queries: KafkaQueries, topic: MakeTopic, source: str, group: Mapping[str, str]
) -> None:
    """KI-02, KI-03: two topics are read to their ends by more tasks than they have partitions, with and without a
    group id. Partition p has the values p to 9, and each value comes once.
    """
    names = [topic(10), topic(10)]
    for name in names:
        queries.broker.write(name, [(p, T0, None, b"%d" % i) for p in range(10) for i in range(p, 10)])
    options = {"subscribe": ",".join(names), "minPartitions": "21", **group}
    values = [int(value) for value in rows(queries.batch("", options, source))["value"].to_pylist()]
    assert (len(values), sum(values)) == (110, 660)


@both_formats
def test_progress_counts_input_rows_of_a_window(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-38: the progress counts the input rows. The timestamps of the records make windows and a watermark."""
    name = topic()
    queries.broker.write(name, records(0, [T0, T0 + 1, T0 + 60_000]))
    counted = Collected(queries.stream(name, source=source), queries.folder / "counted")
    assert sizes(counted.finish()) == [3]
    assert sum(progress.numInputRows for progress in counted.query.recentProgress) == 3
    stream = queries.stream(name, source=source).withWatermark("timestamp", "10 seconds")
    windows = stream.groupBy(window(col("timestamp"), "5 seconds")).agg(count("*").alias("records"))
    out = queries.run(windows)
    assert [row["records"] for row in out.rows()] == [2]
