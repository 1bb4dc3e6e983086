"""This project's source goes on from a checkpoint of Spark's built-in Kafka source, and each record is read once."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.support.both_sources import BUILT_IN, OURS, collect, positions
from tests.spark.support.kafka_queries import T0, KafkaQueries, fill, records
from tests.spark.takeover.support.counted_records import FOUR, MakeTopic, add_partitions, each_once
from tests.spark.takeover.support.failing_stream import until_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm


def test_a_query_goes_on_after_the_last_committed_batch(queries: KafkaQueries, topic: MakeTopic) -> None:
    """This project's source goes on after the last committed batch of several topics, and reads new records, new
    partitions and a new topic. Then it goes on from its own checkpoint.
    """
    names = [topic(2), topic(1)]
    both = {"subscribe": ",".join(names)} | FOUR
    fill(queries, names[0], 2, 5)
    fill(queries, names[1], 1, 5)
    read = collect(queries.stream("", both, BUILT_IN), queries.folder / "c")
    fill(queries, names[0], 2, 3)
    add_partitions(queries, names[0], 3)
    fill(queries, names[0], 3, 2)
    third = topic(1)
    fill(queries, third, 1, 4)
    all_three = both | {"subscribe": f"{both['subscribe']},{third}", "startingOffsets": "latest"}
    read += collect(queries.stream("", all_three, OURS), queries.folder / "c")
    fill(queries, third, 1, 1)
    read += collect(queries.stream("", all_three, OURS), queries.folder / "c")
    sizes = {(names[0], 0): 10, (names[0], 1): 10, (names[0], 2): 2, (names[1], 0): 5, (third, 0): 5}
    assert positions(read) == each_once(sizes)


def test_a_planned_batch_without_a_commit_is_read_again(queries: KafkaQueries, topic: MakeTopic) -> None:
    """A batch that was planned and not committed is read again as it was planned, with the partition that it reads
    for the first time.
    """
    name = topic(2)
    fill(queries, name, 2, 2)
    read = collect(queries.stream(name, source=BUILT_IN), queries.folder / "c")
    add_partitions(queries, name, 3)
    fill(queries, name, 3, 3)
    planned = until_failed(queries.stream(name, source=BUILT_IN), queries, 1)
    fill(queries, name, 3, 2)
    batches = collect(queries.stream(name), queries.folder / "c")
    assert batches[0].equals(planned.batches[0].select(batches[0].column_names))
    assert positions(read + batches) == each_once({(name, 0): 7, (name, 1): 7, (name, 2): 5})


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest"},
        {"startingTimestamp": str(T0), "startingOffsetsByTimestampStrategy": "latest"},
        {
            "startingOffsets": "earliest",
            "subscribePattern": "TOPIC$",
            "includeHeaders": "true",
            "minPartitions": "3",
        },
        {"startingOffsets": '{"TOPIC":{"0":-2,"1":0,"2":-2}}', "assign": '{"TOPIC":[0,1,2]}'},
    ],
    ids=["earliest", "a time", "a pattern", "assigned"],
)
def test_an_uncommitted_first_batch_is_read_again_if_its_records_exist(
    queries: KafkaQueries, topic: MakeTopic, options: dict[str, str]
) -> None:
    """A first batch that was not committed is read again as it was planned, if the user changes only the name of the
    format and nothing was deleted.
    """
    name = topic(3)
    fill(queries, name, 2, 5)
    asked = FOUR | {key: value.replace("TOPIC", name) for key, value in options.items()}
    planned = until_failed(queries.stream(name, asked, BUILT_IN), queries, 0)
    fill(queries, name, 2, 3)
    batches = collect(queries.stream(name, asked), queries.folder / "c")
    assert positions(batches[:1]) == positions(planned.batches)
    assert positions(batches) == each_once({(name, 0): 8, (name, 1): 8})


def test_an_uncommitted_first_batch_begins_where_spark_noted_it(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """Where a first batch begins that was not committed is not in Spark's offset log, and the options do not say it.
    Spark's source noted it elsewhere in the checkpoint, for each source of the query.
    """
    one, other = topic(1), topic(2)
    fill(queries, one, 1, 5)
    fill(queries, other, 1, 4)
    starts = [(one, {"0": 2}), (other, {"0": 1, "1": 0}), (one, {"0": 4})]

    def stream(source: str) -> DataFrame:
        streams = [
            queries.stream(
                name,
                {"startingOffsets": json.dumps({name: start}) if source == BUILT_IN else "latest"},
                source,
            )
            for name, start in starts
        ]
        return streams[0].unionByName(streams[1]).unionByName(streams[2])

    planned = until_failed(stream(BUILT_IN), queries, 0)
    fill(queries, other, 2, 2)
    batches = collect(stream(OURS), queries.folder / "c")
    wanted = {(one, 0): (2, 5), (other, 0): (1, 4)}
    first = Counter((*at, n) for at, (begin, end) in wanted.items() for n in range(begin, end))
    first[one, 0, 4] += 1
    assert positions(batches[:1]) == positions(planned.batches) == first
    later = Counter([(other, 0, 4), (other, 0, 5), (other, 1, 0), (other, 1, 1)])
    assert positions(batches) == first + later


def test_a_query_with_one_topic_twice_goes_on(queries: KafkaQueries, topic: MakeTopic) -> None:
    name, other = topic(1), topic(1)

    def stream(source: str) -> DataFrame:
        one = queries.stream(name, FOUR, source)
        return one.unionByName(queries.stream(other, FOUR, source)).unionByName(one)

    fill(queries, name, 1, 5)
    fill(queries, other, 1, 3)
    output = queries.run(stream(BUILT_IN))
    fill(queries, name, 1, 6)
    fill(queries, other, 1, 1)
    queries.run(stream(OURS))
    once = each_once({(name, 0): 11, (other, 0): 4})
    assert output.positions() == {at: 2 if at[0] == name else 1 for at in once}


def test_an_adopted_query_is_aligned(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3: once this project's source reads, the partition that is behind goes first."""
    name = topic(2)
    queries.broker.write(name, [*records(0, [T0]), *records(1, [T0])])
    read = collect(queries.stream(name, source=BUILT_IN), queries.folder / "c")
    times = range(T0, T0 + 60_000, 6_000)
    queries.broker.write(name, [*records(0, times), *records(1, [t + 3_600_000 for t in times])])
    batches = collect(queries.stream(name, queries.aligned("10 s")), queries.folder / "c")
    first = [row["partition"] for batch in batches for row in batch.to_pylist()][: len(times)]
    assert set(first) == {0}
    assert positions(read + batches) == each_once({(name, 0): 11, (name, 1): 11})


def test_alignment_by_a_json_pointer_is_turned_on_later_and_off(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """docs/migrate.md, step 6: the source is changed first, and alignment is turned on later. The checkpoint has no
    event times until then, and those of another pointer are refused after that.
    """
    name, checkpoint = topic(2), queries.folder / "c"

    def write(*times: int) -> None:
        rows = [(partition, T0, None, b'{"t": %d, "u": 1}' % t) for partition in (0, 1) for t in times]
        queries.broker.write(name, rows)

    def by(pointer: str) -> dict[str, str]:
        return queries.aligned("10 s") | {"scan.watermark.event-time": pointer}

    write(T0)
    read = collect(queries.stream(name, source=BUILT_IN), checkpoint)
    for options in ({}, by("/t"), by("/t"), {}, by("/t")):
        write(*range(T0 + 1000, T0 + 3000, 1000))
        read += collect(queries.stream(name, options), checkpoint)
    assert positions(read) == each_once({(name, 0): 11, (name, 1): 11})
    write(T0)
    with pytest.raises(
        StreamingQueryException, match=r"has event times of '/t', and this query takes them from '/u'"
    ):
        collect(queries.stream(name, by("/u")), checkpoint)
