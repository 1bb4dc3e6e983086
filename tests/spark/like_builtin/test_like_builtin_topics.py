"""Topics are created, grow, lose records and are deleted. Most tests run on this project's Kafka source and on
Spark's built-in one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.spark.support.both_sources import Collected, both_formats, collect, failure, positions, rows
from tests.spark.support.kafka_queries import T0, KafkaQueries, Output, fill

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def offsets(topic: str, partitions: int, begin: int, end: int) -> Counter[tuple[str, int, int]]:
    return Counter((topic, p, n) for p in range(partitions) for n in range(begin, end))


def recreate(queries: KafkaQueries, topic: str, partitions: int = 1) -> None:
    queries.broker.delete_topic(topic)
    queries.broker.create_topic(topic, partitions)


@both_formats
def test_an_available_now_run_fails_if_its_topic_is_recreated_with_fewer_partitions(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-02: an AvailableNow run fails if its topic is deleted meanwhile and created again with fewer partitions."""
    name = topic(5)
    fill(queries, name, 5, 3)
    stream = queries.stream(name, {"maxOffsetsPerTrigger": "5"}, source)

    class Recreating(Collected):
        def _keep(self, batch: object, number: int) -> None:
            if number == 0:
                recreate(queries, name, 3)

    said = failure(lambda: Recreating(stream, queries.folder / "c").finish())
    assert (
        "partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow" in said
    )


@both_formats
def test_nothing_is_lost_or_doubled_across_runs(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-12: two runs read each record once, also records that were written between the runs. With subscribe and
    subscribePattern the second run reads new partitions, too; with assign it does not.
    """
    name = topic(2)
    fill(queries, name, 2, 3)
    by = {"subscribe": name, "subscribePattern": f"{name}$", "assign": json.dumps({name: [0, 1]})}
    streams = {strategy: queries.stream("", {strategy: value}, source) for strategy, value in by.items()}

    def run() -> dict[str, Counter[tuple[str, int, int]]]:
        return {strategy: positions(collect(s, queries.folder / strategy)) for strategy, s in streams.items()}

    assert run() == dict.fromkeys(by, offsets(name, 2, 0, 3))
    with closing(KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)) as admin:
        admin.create_partitions({name: 3})
    fill(queries, name, 3, 2)
    more = offsets(name, 2, 3, 5)
    found = more | Counter({(name, 2, n): 1 for n in (0, 1)})
    assert run() == {"subscribe": found, "subscribePattern": found, "assign": more}


@both_formats
def test_a_checkpoint_takes_another_subscription(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """A topic that is new in a changed subscription is read from its beginning. A topic that is no longer in it fails
    the query. With ``failOnDataLoss`` false that topic is forgotten, and read from its beginning when it is named
    again.
    """
    one, other = topic(), topic()
    for name in (one, other):
        fill(queries, name, 1, 2)

    def run(**options: str) -> Counter[tuple[str, int, int]]:
        options = {"startingOffsets": "latest", **options}
        return positions(collect(queries.stream("", options, source), queries.folder / "c"))

    assert not run(subscribePattern=f"{one}$")
    assert run(assign=json.dumps({one: [0], other: [0]})) == offsets(other, 1, 0, 2)
    fill(queries, one, 1, 1)
    fill(queries, other, 1, 1)
    said = failure(lambda: run(subscribePattern=f"{other}$"))
    assert f"{one}-0" in said
    assert "failOnDataLoss" in said
    assert run(subscribePattern=f"{other}$", failOnDataLoss="false") == offsets(other, 1, 2, 3)
    assert run(subscribePattern=f"{one}$|{other}$") == offsets(one, 1, 0, 3)


@both_formats
def test_a_pattern_follows_deleted_and_new_topics(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-24, SK-27: with ``failOnDataLoss`` false a topic of a pattern can be deleted and another one created. No
    offset in the offset log is empty.
    """
    prefix = topic()
    first, second = f"{prefix}-first", f"{prefix}-second"
    queries.broker.create_topic(first)
    fill(queries, first, 1, 3)
    options = {"subscribePattern": f"{prefix}-.*", "failOnDataLoss": "false"}
    stream, output = queries.stream("", options, source), Output(queries.folder / "t", queries.folder / "c")
    assert positions(collect(stream, output.checkpoint)) == offsets(first, 1, 0, 3)
    queries.broker.delete_topic(first)
    assert not positions(collect(stream, output.checkpoint))
    queries.broker.create_topic(second)
    fill(queries, second, 1, 2)
    assert positions(collect(stream, output.checkpoint)) == offsets(second, 1, 0, 2)
    assert all(output.offsets())


@both_formats
def test_a_recreated_topic_with_fewer_records_is_lost_data(
    queries: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SK-25: a topic that was deleted and created again with fewer records fails the next run. The error names the
    offset that was reached and the end of the new topic.
    """
    name = topic()
    fill(queries, name, 1, 2)
    stream = queries.stream("", {"subscribePattern": f"{name}$"}, source)
    collect(stream, queries.folder / "c")
    recreate(queries, name)
    fill(queries, name, 1, 1)
    said = failure(lambda: collect(stream, queries.folder / "c"))
    assert "was changed from 2 to 1" in said
    assert name in said


@both_formats
def test_aged_out_records_are_lost_data(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-26: records that were deleted before they were read fail a batch read. With ``failOnDataLoss`` false a batch
    read and a stream have each remaining record once.
    """
    name = topic()
    fill(queries, name, 1, 50)
    with closing(KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(name, 0): 30})
    start = {"startingOffsets": json.dumps({name: {"0": 0}})}
    said = failure(lambda: rows(queries.batch(name, start, source)))
    assert re.search(r"DataLossError|Some data may have been lost", said)
    go_on = start | {"failOnDataLoss": "false"}
    left = offsets(name, 1, 30, 50)
    assert positions([rows(queries.batch(name, go_on, source))]) == left
    assert positions(collect(queries.stream(name, go_on, source), queries.folder / "c")) == left


def test_each_run_reads_a_topic_that_was_recreated_between_runs(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """SK-26: a topic is deleted and created again after each of four runs. With ``failOnDataLoss`` false each run
    reads each row of the topic that exists at the time once.
    """
    name = topic(2)
    stream = queries.stream(name, {"failOnDataLoss": "false", "maxOffsetsPerTrigger": "7"})
    made: list[pa.Table] = []
    for life in range(4):
        queries.broker.write(
            name, [(p, T0 + life, b"%d" % life, b"") for p in (0, 1) for _ in range(5 - life)]
        )
        made += collect(stream, queries.folder / "c")
        recreate(queries, name, 2)
    lives = Counter(
        zip(*(pa.concat_tables(made)[c].to_pylist() for c in ("key", "partition", "offset")), strict=True)
    )
    assert lives == {(b"%d" % life, p, n): 1 for life in range(4) for p in (0, 1) for n in range(5 - life)}
