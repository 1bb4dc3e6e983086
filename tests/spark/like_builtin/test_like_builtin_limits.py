"""Read limits and triggers in this project's Kafka source and in Spark's built-in one. Each test runs on both
sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from flip27_stream.testing import wait_until, write_bulk
from tests.spark.support.both_sources import (
    BUILT_IN,
    OURS,
    Collected,
    both_formats,
    collect,
    rows_by_partition,
    sizes,
)
from tests.spark.support.kafka_queries import CONTINUOUS, ONCE, T0, TIME_LIMIT_S, KafkaQueries

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def write_at_once(queries: KafkaQueries, topic: str, counts: Mapping[int, int]) -> None:
    """Appends the given number of records to each partition. The records of a partition are written all at once."""
    for partition, count in counts.items():
        write_bulk(queries.broker.bootstrap_servers, topic, partition, T0 + np.arange(count), b"v")


@both_formats
def test_available_now_ends_after_as_many_batches_as_the_limit_makes(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-01: an AvailableNow run reads 15 records in three batches under a limit of 5."""
    name = topic(5)
    write_at_once(queries, name, {0: 15})
    batches = collect(queries.stream(name, {"maxOffsetsPerTrigger": "5"}, source), queries.folder / "c")
    assert sizes(batches) == [5, 5, 5]


@both_formats
def test_a_limit_is_divided_by_size_and_small_shares_are_rounded_up(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-04: a limit is divided among partitions by the number of records that are left in each. A share below one
    record is rounded up. This holds across a restart with the same checkpoint, too.
    """
    name = topic(3)
    write_at_once(queries, name, {0: 40, 1: 11, 2: 1})
    stream, checkpoint = queries.stream(name, {"maxOffsetsPerTrigger": "10"}, source), queries.folder / "c"
    first = rows_by_partition(collect(stream, checkpoint))
    assert first[0] == {0: 7, 1: 2, 2: 1}
    write_at_once(queries, name, {0: 11, 2: 3})
    second = rows_by_partition(collect(stream, checkpoint))
    assert second == [{0: 7, 2: 2}, {0: 4, 2: 1}]
    assert sum(batch.get(0, 0) for batch in [*first, *second]) == 51


@both_formats
def test_trigger_once_reads_everything_whatever_the_limits(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-05: Trigger.Once reads everything in one batch, whatever the limits. The next run reads what has come since,
    even if that is less than the minimum.
    """
    name = topic(2)
    write_at_once(queries, name, {0: 20, 1: 4})
    limits = {"maxOffsetsPerTrigger": "15", "minOffsetsPerTrigger": "12", "maxTriggerDelay": "1h"}
    stream, checkpoint = queries.stream(name, limits, source), queries.folder / "c"
    assert sizes(collect(stream, checkpoint, ONCE)) == [24]
    write_at_once(queries, name, {0: 11})
    assert sizes(collect(stream, checkpoint, ONCE)) == [11]


@both_formats
def test_a_batch_waits_for_its_minimum(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-06: each batch but the first one waits for the minimum number of rows. Records below the minimum are read
    together with later ones.

    A second source of the query, without a minimum, shows that plans were made meanwhile: Spark asks both sources for
    each batch.
    """
    name, other = topic(3), topic()
    write_at_once(queries, name, {0: 10, 1: 5, 2: 1})
    stream = queries.stream(name, {"minOffsetsPerTrigger": "15"}, source)
    running = Collected(stream.unionAll(queries.stream(other, {}, source)), queries.folder / "c", CONTINUOUS)
    # Spark may ask for the first batch of the second source too early to see the 6 records, but not for its second one.
    steps = [
        (16, name, {0: 6}),
        (16, other, {0: 1}),
        (17, other, {0: 1}),
        (18, name, {1: 12}),
        (36, name, {}),
    ]
    try:
        for rows, filled, more in steps:
            wait_until(lambda rows=rows: arrived(running, rows), f"{rows} rows", TIME_LIMIT_S)  # type: ignore[misc]
            write_at_once(queries, filled, more)
    finally:
        running.query.stop()
    read = [batch["topic"].to_pylist().count(name) for batch in running.batches]
    assert [count for count in read if count] == [16, 18]


@both_formats
def test_a_batch_waits_no_longer_than_the_delay(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-06, SK-08: a batch below the minimum runs once ``maxTriggerDelay`` has passed since the last batch."""
    name = topic()
    write_at_once(queries, name, {0: 16})
    limits = {"minOffsetsPerTrigger": "15", "maxTriggerDelay": "2s"}
    running = Collected(queries.stream(name, limits, source), queries.folder / "c", CONTINUOUS)
    try:
        wait_until(lambda: arrived(running, 16), "the first batch", TIME_LIMIT_S)
        write_at_once(queries, name, {0: 10})
        wait_until(lambda: arrived(running, 26), "a batch below the minimum", TIME_LIMIT_S)
    finally:
        running.query.stop()
    assert sizes(running.batches) == [16, 10]


def arrived(running: Collected, rows: int) -> bool:
    if (error := running.query.exception()) is not None:
        raise error
    return sum(sizes(running.batches)) >= rows


@pytest.mark.parametrize(("source", "runs"), [(BUILT_IN, [[5, 5], [2]]), (OURS, [[5, 5, 2], []])])
def test_available_now_reads_records_below_the_minimum(
    queries: KafkaQueries, topic: MakeTopic, source: str, runs: list[list[int]]
) -> None:
    """SK-08: the first batch of a run does not wait for the minimum. With AvailableNow the built-in source leaves
    records below the minimum to the next run. This project's source reads them in the same run.
    """
    name = topic()
    write_at_once(queries, name, {0: 12})
    limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "5"}
    stream, checkpoint = queries.stream(name, limits, source), queries.folder / "c"
    assert [sizes(collect(stream, checkpoint)) for _ in runs] == runs


@both_formats
def test_the_greatest_limit_does_not_overflow(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-09: with the greatest possible limit, 2^63 - 1, a query reads all records that are left."""
    name = topic()
    write_at_once(queries, name, {0: 10})
    start = json.dumps({name: {"0": 5}})
    options = {"maxOffsetsPerTrigger": str(2**63 - 1), "startingOffsets": start}
    assert sizes(collect(queries.stream(name, options, source), queries.folder / "c")) == [5]


@both_formats
def test_the_progress_shows_the_true_end(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-34: ``latestOffset`` in the progress is the end of the log in Spark's JSON form, even if a limit lets the
    batch end before it.
    """
    name = topic(2)
    write_at_once(queries, name, {0: 4, 1: 2})
    running = Collected(queries.stream(name, {"maxOffsetsPerTrigger": "3"}, source), queries.folder / "c")
    running.finish()
    read = [progress.sources[0] for progress in running.query.recentProgress if progress.numInputRows]
    assert len(read) == 2
    assert [json.loads(progress.latestOffset) for progress in read] == [{name: {"0": 4, "1": 2}}] * 2
    assert [progress.numInputRows for progress in read] == [3, 3]
