"""Where reading begins and ends, in this project's Kafka source and in Spark's built-in one. Each test runs on both
sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.spark.support.both_sources import (
    BUILT_IN,
    both_formats,
    collect,
    failure,
    positions,
    refusal,
    rows,
)
from tests.spark.support.kafka_queries import T0, KafkaQueries, records

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


@pytest.fixture
def steps(queries: KafkaQueries, topic: MakeTopic) -> str:
    """A topic with ten records in each of two partitions, at T0 + 0, 10, ..., 90 ms. Those of the second partition
    are 5 ms later.
    """
    name = topic(2)
    for partition in (0, 1):
        queries.broker.write(name, records(partition, [T0 + 5 * partition + 10 * n for n in range(10)]))
    return name


def begins(queries: KafkaQueries, name: str, source: str, **options: str) -> list[int]:
    """Returns the offset of the first record that a batch read gives for each partition."""
    return [offsets[0] for offsets in read(queries, name, source, **options)]


def read(queries: KafkaQueries, name: str, source: str, **options: str) -> list[list[int]]:
    """Returns the offsets of the records that a batch read gives, by partition."""
    table = rows(queries.batch(name, options, source))
    pairs = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    return [[offset for p, offset in pairs if p == partition] for partition in (0, 1)]


def offsets(name: str, *of_partitions: int) -> str:
    return json.dumps({name: {str(n): offset for n, offset in enumerate(of_partitions)}})


@both_formats
def test_one_time_comes_before_times_by_partition_and_these_before_offsets(
    queries: KafkaQueries, steps: str, source: str
) -> None:
    """SK-15: a time for all partitions overrides times by partition, and these override offsets. This holds for the
    beginning and for the end.
    """
    start = {"startingOffsets": offsets(steps, 7, 8)}
    assert begins(queries, steps, source, **start) == [7, 8]
    start["startingOffsetsByTimestamp"] = offsets(steps, T0 + 20, T0 + 30)
    assert begins(queries, steps, source, **start) == [2, 3]
    start["startingTimestamp"] = str(T0 + 45)
    assert begins(queries, steps, source, **start) == [5, 4]
    end = {"endingOffsets": offsets(steps, 3, 2)}
    assert read(queries, steps, source, **end) == [[0, 1, 2], [0, 1]]
    end["endingOffsetsByTimestamp"] = offsets(steps, T0 + 10, T0 + 5)
    assert read(queries, steps, source, **end) == [[0], []]
    end["endingTimestamp"] = str(T0 + 15)
    assert read(queries, steps, source, **end) == [[0, 1], [0]]


@both_formats
def test_a_time_after_all_records_is_treated_as_in_spark(
    queries: KafkaQueries, steps: str, source: str
) -> None:
    """SK-16, SK-13: an ending time after the last record means the end of the partition. A starting time after the
    last record is an error, or with the strategy ``latest`` the end of the partition.
    """
    late = {"startingOffsetsByTimestamp": offsets(steps, T0 + 20, T0 + 1000)}
    assert read(queries, steps, source, endingTimestamp=str(T0 + 92)) == [[*range(10)], [*range(9)]]
    assert "No offset matched from request" in failure(lambda: read(queries, steps, source, **late))
    latest = late | {"startingOffsetsByTimestampStrategy": "latest"}
    assert read(queries, steps, source, **latest) == [[*range(2, 10)], []]


@both_formats
def test_a_stream_from_a_time_without_a_record_is_treated_as_in_spark(
    queries: KafkaQueries, steps: str, source: str
) -> None:
    """SK-13, not KO-03: a stream fails if a partition has no record after its starting time. With the strategy
    ``latest`` the stream begins at the end of that partition, and reads later records.
    """
    options, checkpoint = {"startingTimestamp": str(T0 + 92)}, queries.folder / "c"
    assert "No offset matched from request" in failure(
        lambda: collect(queries.stream(steps, options, source), queries.folder / "failed")
    )
    stream = queries.stream(steps, options | {"startingOffsetsByTimestampStrategy": "latest"}, source)
    assert positions(collect(stream, checkpoint)) == {(steps, 1, 9): 1}
    queries.broker.write(steps, records(0, [T0, T0 + 1000]))
    assert positions(collect(stream, checkpoint)) == {(steps, 0, 10): 1, (steps, 0, 11): 1}


@both_formats
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("startingOffsets", "latest", "starting offset can't be latest for batch queries on Kafka"),
        (
            "startingOffsets",
            '{"t":{"0":1,"1":-1}}',
            "startingOffsets for t-1 can't be latest for batch queries",
        ),
        ("endingOffsets", "earliest", "ending offset can't be earliest for batch queries on Kafka"),
        (
            "endingOffsets",
            '{"t":{"0":1,"1":-2}}',
            "ending offset for t-1 can't be earliest for batch queries",
        ),
    ],
)
def test_a_batch_read_neither_begins_at_the_end_nor_ends_at_the_beginning(
    queries: KafkaQueries, source: str, option: str, value: str, said: str
) -> None:
    """SK-20: a batch read that begins at the latest or ends at the earliest offset is refused. If that is the offset
    of one partition, the error names the partition.
    """
    assert said.lower() in refusal(queries, source, {"subscribe": "t", option: value}, bounded=True).lower()


@both_formats
@pytest.mark.parametrize("text", ["soon", "[1]", '{"a":0}', '{"a":{"x":1}}', '{"a":{"0":"x"}}'])
def test_offsets_of_a_wrong_shape_are_refused(queries: KafkaQueries, source: str, text: str) -> None:
    """SK-40: both sources refuse offsets of a wrong shape. The error of this project's source shows the right
    shape.
    """
    said = refusal(queries, source, {"subscribe": "t", "startingOffsets": text}, bounded=True)
    assert source == BUILT_IN or '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' in said


@both_formats
def test_a_batch_read_fixes_its_offsets_when_it_is_executed(
    queries: KafkaQueries, steps: str, source: str
) -> None:
    """SK-21: a batch read goes from the earliest to the latest offset at the time of its execution, not of
    ``load()``. A union of it with itself has each row twice.
    """
    given = {"kafka.bootstrap.servers": queries.broker.bootstrap_servers, "subscribe": steps}
    frame = queries.spark.read.format(source).options(**given).load()
    queries.broker.write(steps, records(0, [T0, T0]))
    assert positions([rows(frame)]) == {(steps, 0, n): 1 for n in range(12)} | {
        (steps, 1, n): 1 for n in range(10)
    }
    assert set(positions([rows(frame.union(frame))]).values()) == {2}


@both_formats
def test_offsets_and_times_name_exactly_the_partitions_that_are_read(
    queries: KafkaQueries, steps: str, source: str
) -> None:
    """SK-33, not KO-04: offsets and times for too few partitions fail a batch read, and offsets for too few
    partitions fail a stream. Offsets for too many partitions fail a batch read.
    """
    mismatch = "Specified: .*Assigned: "
    for option in (
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "endingOffsets",
        "endingOffsetsByTimestamp",
    ):
        said = failure(lambda o=option: read(queries, steps, source, **{o: offsets(steps, 1)}))  # type: ignore[misc]
        assert re.search(mismatch, said)
    said = failure(lambda: read(queries, steps, source, startingOffsets=offsets(steps, 1, 1, 1)))
    assert re.search(mismatch, said)
    stream = queries.stream(steps, {"startingOffsets": offsets(steps, 1)}, source)
    said = failure(lambda: collect(stream, queries.folder / "c"))
    assert re.search(mismatch, said)


@both_formats
def test_a_start_after_the_end_is_an_error(queries: KafkaQueries, steps: str, source: str) -> None:
    """SK-33: a beginning after the end is an error, whether both are offsets, or one is found by time or is the end
    of the log.
    """
    both = {"startingOffsets": offsets(steps, 5, 5), "endingOffsets": offsets(steps, 6, 4)}
    said = failure(lambda: read(queries, steps, source, **both))
    assert "start offset 5" in said
    assert "end offset 4" in said
    for start, end in (
        ({"startingOffsets": offsets(steps, 5, 5)}, {"endingTimestamp": str(T0 + 20)}),
        ({"startingOffsets": offsets(steps, 5, 11)}, {"failOnDataLoss": "false"}),
        ({"startingTimestamp": str(T0 + 50)}, {"endingTimestamp": str(T0 + 20)}),
    ):
        said = failure(lambda given=start | end: read(queries, steps, source, **given))  # type: ignore[misc]
        assert re.search(r"is after the ending offset|is greater than the resolved end offset", said)


@both_formats
def test_a_batch_read_beyond_the_log_fails(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-26, SK-33: offsets outside the log fail a batch read. With ``failOnDataLoss`` false the batch read has the
    records that exist. An empty range outside the log is no error.
    """
    name = topic(2)  # offsets 30 to 49 and 0 to 9
    queries.broker.write(name, records(0, [T0] * 50) + records(1, [T0] * 10))
    with closing(KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(name, 0): 30})
    none: list[int] = []

    def asked(begin: tuple[int, int], end: tuple[int, int], fail: bool) -> list[list[int]]:
        options = {"startingOffsets": offsets(name, *begin), "endingOffsets": offsets(name, *end)}
        waits = {"kafkaConsumer.pollTimeoutMs": "2000", "failOnDataLoss": str(fail)}
        return read(queries, name, source, **options, **waits)

    error = r"DataLossError|OffsetOutOfRangeException"
    assert re.search(error, failure(lambda: asked((40, 5), (40, 15), True)))
    assert asked((40, 5), (40, 15), False) == [none, [*range(5, 10)]]
    assert re.search(error, failure(lambda: asked((0, 5), (40, 5), True)))
    assert asked((0, 12), (40, 15), False) == [[*range(30, 40)], none]
    assert asked((0, 5), (20, 5), False) == [none, none]
    assert asked((0, 12), (0, 12), True) == [none, none]
    said = failure(lambda: asked((-2, 5), (20, 5), False))
    assert source == BUILT_IN or "Beginning offset 30 is after the ending offset 20" in said
