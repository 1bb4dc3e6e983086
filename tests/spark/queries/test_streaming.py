"""``flip27_kafka`` on a real Spark and a real broker: triggers, strategies, discovery, offsets, schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql.functions import col

from flip27_stream.testing import wait_until, write_bulk
from tests.spark.support.kafka_queries import (
    AVAILABLE_NOW,
    CONTINUOUS,
    MINUTE,
    ONCE,
    SECOND,
    T0,
    TIME_LIMIT_S,
    KafkaQueries,
    arrived,
    records,
)
from tests.spark.support.processes import cpu_seconds, planners

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def steps(partitions: int, each: int) -> list[Any]:
    """Returns balanced partitions with one record per second."""
    times = [T0 + i * SECOND for i in range(each)]
    return [record for p in range(partitions) for record in records(p, times)]


@pytest.mark.parametrize(
    ("trigger", "aligned"),
    [(CONTINUOUS, False), (CONTINUOUS, True), (AVAILABLE_NOW, True), (ONCE, True)],
)
def test_every_trigger_gives_each_record_once(
    queries: KafkaQueries, topic: MakeTopic, trigger: Mapping[str, Any], aligned: bool
) -> None:
    """PY-05, AO-06: each record is read once with every trigger. The read limit cuts all batches but those of Once.
    The first batch of an aligned run is empty, except with Once. Tests of ``like_builtin`` have the other triggers
    without alignment.
    """
    name = topic(3)
    queries.broker.write(name, steps(3, 20))
    options = {"maxOffsetsPerTrigger": "25"} | (queries.aligned() if aligned else {})
    stream = queries.stream(name, options)
    continuous = trigger is CONTINUOUS
    output = queries.run_continuously(stream, 60) if continuous else queries.run(stream, trigger=trigger)
    assert output.positions() == {(name, p, n): 1 for p in range(3) for n in range(20)}
    # Rows are there before their commit is logged, and a query can be stopped in between; offsets come first.
    assert len(output.logged("offsets")) == (1 if trigger is ONCE else 3 + aligned)


def test_trigger_once_reads_up_to_the_horizon_and_the_next_run_goes_on(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """Rule 2: Trigger.Once is aligned without a read limit, too. A split that is at its end and not idle holds the
    other one back, and the next run goes on.
    """
    name = topic(2)
    late = [T0 + MINUTE, T0 + 2 * MINUTE]
    queries.broker.write(name, [*records(0, [T0]), *records(1, [T0, *late])])
    stream = queries.stream(name, queries.aligned("10 s"))
    output = queries.run(stream, trigger=ONCE)
    assert output.positions() == {(name, 0, 0): 1, (name, 1, 0): 1}
    queries.broker.write(name, records(0, [T0 + MINUTE]))
    queries.run(stream, trigger=ONCE)
    assert output.positions() == {(name, p, n): 1 for p in (0, 1) for n in (0, 1)}


@pytest.mark.parametrize("aligned", [False, True])
def test_nothing_to_read_makes_no_batches(queries: KafkaQueries, topic: MakeTopic, aligned: bool) -> None:
    """I8, facts 6, 7, 12: while there is nothing to read no further batch runs. The first batch of an aligned run is
    empty.

    The test prints the processor time of 30 plans that find nothing.
    """
    name, batches = topic(2), [0, 1] if aligned else [0]
    queries.broker.write(name, steps(2, 5))
    queries.spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    query = queries.start(queries.stream(name, queries.aligned() if aligned else {}))
    output = queries.output()
    try:
        wait_until(lambda: arrived(query, output, 10), "the rows", TIME_LIMIT_S)
        wait_until(lambda: output.logged("commits") == batches, "the commit", TIME_LIMIT_S)
        (planner,) = planners()
        before = cpu_seconds(planner)
        seen = len(query.recentProgress)
        wait_until(lambda: len(query.recentProgress) >= seen + 30, "30 looks at nothing", TIME_LIMIT_S)
        print(f"30 idle looks, aligned={aligned}: {cpu_seconds(planner) - before:.2f} s of CPU")
    finally:
        query.stop()
        queries.spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert output.logged("offsets") == output.logged("commits") == batches


def test_spark_stops_the_query_of_a_bounded_stream_only_with_available_now(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """The query goes on without rows, as the page about Flink says, until somebody stops it. A run with AvailableNow
    ends. Records after the end of the stream are never read.
    """
    name = topic(2)
    queries.broker.write(name, steps(2, 5))
    stream = queries.stream(name, {"scan.bounded.mode": "latest-offset"})
    queries.spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    query, output = queries.start(stream), queries.output()
    try:
        wait_until(lambda: arrived(query, output, 10), "the rows", TIME_LIMIT_S)
        queries.broker.write(name, steps(2, 5))
        seen = len(query.recentProgress)
        wait_until(lambda: len(query.recentProgress) >= seen + 10, "10 looks at nothing", TIME_LIMIT_S)
        assert query.isActive
    finally:
        query.stop()
        queries.spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    queries.run(stream)
    assert output.positions() == {(name, p, n): 1 for p in range(2) for n in range(5)}


@pytest.mark.parametrize("aligned", [False, True])
def test_new_partitions_are_read_from_their_beginning(
    queries: KafkaQueries, topic: MakeTopic, aligned: bool
) -> None:
    """KE-05: a new partition is read from its beginning, also with startingOffsets latest. Records that were written
    before the discovery are not missed.
    """
    from kafka import KafkaAdminClient

    name = topic(1)
    queries.broker.write(name, records(0, [T0]))
    options = {"startingOffsets": "latest"} | (queries.aligned() if aligned else {})
    query, output = queries.start(queries.stream(name, options)), queries.output()
    try:
        wait_until(lambda: output.logged("commits"), "batch 0", TIME_LIMIT_S)
        admin = KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)
        admin.create_partitions({name: 2})
        admin.close()
        queries.broker.write(name, [*records(0, [T0 + 1]), *records(1, [T0, T0 + 1])])
        wait_until(lambda: arrived(query, output, 3), "the new partition's records", TIME_LIMIT_S)
    finally:
        query.stop()
    assert output.positions() == {(name, 0, 1): 1, (name, 1, 0): 1, (name, 1, 1): 1}


def test_new_topics_that_match_the_pattern_are_read(queries: KafkaQueries, topic: MakeTopic) -> None:
    """KE-05: a new topic that matches subscribePattern is read. Other topics are not read."""
    prefix, other = topic(), topic()
    first, second = f"{prefix}-first", f"{prefix}-second"
    queries.broker.create_topic(first)
    queries.broker.write(first, records(0, [T0]))
    queries.broker.write(other, records(0, [T0]))
    stream = queries.stream("", {"subscribePattern": f"{prefix}-.*", **queries.aligned()})
    query, output = queries.start(stream), queries.output()
    try:
        wait_until(lambda: arrived(query, output, 1), "the first topic's record", TIME_LIMIT_S)
        queries.broker.create_topic(second)
        queries.broker.write(second, records(0, [T0]))
        wait_until(lambda: arrived(query, output, 2), "the second topic's record", TIME_LIMIT_S)
    finally:
        query.stop()
    assert output.positions() == {(first, 0, 0): 1, (second, 0, 0): 1}


def test_only_the_partitions_named_are_read_each_from_its_own_offset(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    name = topic(4)
    queries.broker.write(name, steps(4, 4))
    given = {
        "assign": json.dumps({name: [0, 2, 3]}),
        "startingOffsets": json.dumps({name: {"0": 3, "2": -2, "3": -1}}),
    }
    output = queries.run(queries.stream(name, given | queries.aligned()))
    assert output.positions() == {(name, 0, 3): 1} | {(name, 2, n): 1 for n in range(4)}


@pytest.mark.parametrize("aligned", [False, True])
def test_latest_loses_nothing_that_is_written_after_the_start(
    queries: KafkaQueries, topic: MakeTopic, aligned: bool
) -> None:
    """Facts 5, 7: with startingOffsets latest no record is lost that is written after the first logged offset. What
    latest means is settled once, in batch 0.
    """
    name = topic(2)
    queries.broker.write(name, steps(2, 5))
    options = {"startingOffsets": "latest"} | (queries.aligned() if aligned else {})
    query, output = queries.start(queries.stream(name, options)), queries.output()
    try:
        wait_until(lambda: output.logged("offsets"), "the first logged offset", TIME_LIMIT_S)
        queries.broker.write(name, steps(2, 3))
        wait_until(lambda: arrived(query, output, 6), "what was written since", TIME_LIMIT_S)
    finally:
        query.stop()
    assert output.positions() == {(name, p, n): 1 for p in (0, 1) for n in (5, 6, 7)}


@pytest.mark.parametrize("aligned", [False, True])
def test_a_limit_below_the_number_of_splits_starves_no_split(
    queries: KafkaQueries, topic: MakeTopic, aligned: bool
) -> None:
    """I2, I6: with a limit below the number of splits all records are read. Aligned, no batch is above the limit.
    Unaligned, a share below one row is rounded up as Spark does.
    """
    name = topic(4)
    queries.broker.write(name, steps(4, 2))
    options = {"maxOffsetsPerTrigger": "3"} | (queries.aligned() if aligned else {})
    output = queries.run(queries.stream(name, options))
    assert output.positions() == {(name, p, n): 1 for p in range(4) for n in range(2)}
    read = [sum(entry[0] for entry in offset["splits"].values()) for offset in output.offsets()]
    sizes = [after - before for before, after in pairwise([0, *read])]
    assert sizes == ([0, 3, 1, 3, 1] if aligned else [4, 4])


def test_a_union_of_a_stream_with_itself_has_each_record_twice(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """Fact 18: both sides of a union of a stream with itself are read through one planner. Each record comes twice,
    and is counted once in the table.
    """
    name = topic(2)
    queries.broker.write(name, steps(2, 5))
    stream = queries.stream(name, queries.aligned())
    output = queries.run(stream.union(stream))
    assert output.positions() == {(name, p, n): 2 for p in range(2) for n in range(5)}
    assert sum(row["rows"] for row in queries.split_watermark_rows()) == 10


def test_a_join_of_a_stream_with_itself_aligns_two_sources(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Fact 18: a join of a stream with itself has two planners. They are two members of the group, as their lineages
    are two.
    """
    name = topic(2)
    queries.broker.write(name, steps(2, 5))
    stream = queries.stream(name, queries.aligned()).withWatermark("timestamp", "11 seconds")
    left, right = stream.alias("left"), stream.alias("right")
    same = [col(f"left.{key}") == col(f"right.{key}") for key in ("partition", "offset", "timestamp")]
    joined = left.join(right, same).select("left.partition", "left.offset")
    output = queries.run(joined)
    assert sorted((row["partition"], row["offset"]) for row in output.rows()) == [
        (p, n) for p in range(2) for n in range(5)
    ]
    assert len({row["source"] for row in queries.split_watermark_rows()}) == 2


def mixed(partitions: int) -> list[Any]:
    """Returns records with null, empty and long keys and values, with headers, and with different event times."""
    return [
        record
        for p in range(partitions)
        for record in (
            (p, T0, b"key", None),
            (p, T0 + 1, b"", b""),
            (p, T0 - 1, b"key", None, [("h", b"1"), ("h", b"2")]),
            (p, T0 + 2, None, b"v" * 70_000),
            (p, 0, b"\x00\xff", "värde".encode()),
        )
    ]


def test_rows_and_schema_are_those_of_the_built_in_source(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Rows and schema are those of the built-in source, in a stream and in a batch read. Some records have headers,
    which the queries do not ask for.
    """
    name = topic(3)
    queries.broker.write(name, mixed(3))
    nothing = pa.nulls(2, pa.binary())
    write_bulk(queries.broker.bootstrap_servers, name, 1, np.array([T0, T0 + 5]), nothing)
    ours, theirs = queries.stream(name), queries.stream(name, source="kafka")
    assert ours.schema == theirs.schema
    queries.run(ours, "ours")
    queries.run(theirs, "theirs")
    one, other = (queries.spark.read.parquet(str(queries.folder / n)) for n in ("ours", "theirs"))
    assert one.count() == 17
    assert_df_equality(one, other, ignore_row_order=True)
    assert_df_equality(queries.batch(name), queries.batch(name, source="kafka"), ignore_row_order=True)


def test_a_batch_read_goes_from_the_given_offsets_to_the_end_of_the_log(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """WM-24: a batch read goes from the given offsets to the ends, and has no watermark. The options of alignment are
    checked and change nothing.
    """
    name = topic(2)
    queries.broker.write(name, steps(2, 5))
    begin = json.dumps({name: {"0": 4, "1": -2}})
    rows = queries.batch(name, {"startingOffsets": begin, **queries.aligned()}).select("partition", "offset")
    assert sorted(map(tuple, rows.collect())) == [(0, 4), *((1, n) for n in range(5))]
    assert not queries.split_watermarks.exists()
