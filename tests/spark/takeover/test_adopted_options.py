"""A checkpoint of Spark's Kafka source, taken over with one word changed, under options and triggers of its own."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import flip27_stream
from flip27_stream.testing import wait_until
from tests.documentation.support.page_functions import function_of
from tests.spark.support.both_sources import BUILT_IN, OURS, Collected, collect, failure, positions, sizes
from tests.spark.support.kafka_queries import (
    CONTINUOUS,
    ONCE,
    T0,
    TIME_LIMIT_S,
    KafkaQueries,
    Output,
    fill,
    finish,
)
from tests.spark.support.programs.killed_query import driver, logged
from tests.spark.support.programs.stateful_driver import QUERIES, StatefulAssignment
from tests.spark.takeover.support.counted_records import FOUR, MakeTopic, add_partitions, each_once
from tests.spark.takeover.support.failing_stream import until_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    "options",
    [
        {"groupIdPrefix": "mine", "maxRecordsPerPartition": "2"},
        {"kafka.group.id": "mine", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1s"},
        {"minPartitions": "7", "includeHeaders": "true", "failOnDataLoss": "false"},
    ],
    ids=lambda options: ", ".join(options),
)
def test_options_of_the_query_stay(queries: KafkaQueries, topic: MakeTopic, options: dict[str, str]) -> None:
    """A batch that was planned and not committed is read again as it was planned, and the query goes on."""
    name = topic(2)
    fill(queries, name, 2, 5)
    asked = options | FOUR
    planned = until_failed(queries.stream(name, asked, BUILT_IN), queries, 1)
    fill(queries, name, 2, 4)
    batches = collect(queries.stream(name, asked, OURS), queries.folder / "c")
    assert batches[0].equals(planned.batches[1].select(batches[0].column_names))
    assert positions(planned.batches[:1] + batches) == each_once({(name, 0): 9, (name, 1): 9})
    assert set(sizes(batches)[:-1]) == {4}


def until_read(run: Collected, count: int) -> Collected:
    """Waits until a query that runs continuously has read ``count`` records, and stops it."""
    try:

        def enough() -> bool:
            if (error := run.query.exception()) is not None:
                raise error
            return sum(run.positions().values()) >= count

        wait_until(enough, f"{count} records", TIME_LIMIT_S)
        run.query.processAllAvailable()
    finally:
        run.query.stop()
    return run


def test_a_query_that_runs_continuously_waits_for_offsets(queries: KafkaQueries, topic: MakeTopic) -> None:
    """The query has ``minOffsetsPerTrigger`` and ``maxTriggerDelay``, and a plain processing-time trigger."""
    name = topic(2)
    fill(queries, name, 2, 5)
    asked = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "3s"}
    first = until_read(Collected(queries.stream(name, asked, BUILT_IN), queries.folder / "c", CONTINUOUS), 10)
    fill(queries, name, 2, 1)
    second = until_read(Collected(queries.stream(name, asked, OURS), queries.folder / "c", CONTINUOUS), 2)
    assert positions(first.batches + second.batches) == each_once({(name, 0): 6, (name, 1): 6})


def test_a_pattern_finds_new_topics(queries: KafkaQueries, topic: MakeTopic) -> None:
    names = [topic(1) for _ in range(3)]
    fill(queries, names[0], 1, 3)
    asked = {"subscribePattern": f"{names[0]}|{names[1]}|{names[2]}"}
    queries.broker.delete_topic(names[1])
    queries.broker.delete_topic(names[2])
    read = collect(queries.stream("", asked, BUILT_IN), queries.folder / "c")
    queries.broker.create_topic(names[1], 2)
    fill(queries, names[1], 2, 4)
    planned = until_failed(queries.stream("", asked, BUILT_IN), queries, 1)
    queries.broker.create_topic(names[2], 1)
    fill(queries, names[2], 1, 2)
    add_partitions(queries, names[0], 2)
    fill(queries, names[0], 2, 1)
    batches = collect(queries.stream("", asked, OURS), queries.folder / "c")
    assert positions(batches[:1]) == positions(planned.batches)
    sizes_of = {(names[0], 0): 4, (names[0], 1): 1, (names[1], 0): 4, (names[1], 1): 4, (names[2], 0): 2}
    assert positions(read + batches) == each_once(sizes_of)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
def test_all_topics_are_gone(queries: KafkaQueries, topic: MakeTopic, again: bool) -> None:
    """With ``failOnDataLoss`` = false the query goes on without its topics, and reads what Spark's source would read
    when they are made again. Else it fails.
    """
    names = [topic(1), topic(1)]
    fill(queries, names[0], 1, 5)
    strict = {"subscribePattern": "|".join(names)}
    lenient = strict | {"failOnDataLoss": "false"}
    collect(queries.stream("", lenient, BUILT_IN), queries.folder / "c")
    for name in names:
        queries.broker.delete_topic(name)
    if again:
        queries.broker.create_topic(names[0], 1)
        fill(queries, names[0], 1, 2)
    for source in (BUILT_IN, OURS):
        shutil.copytree(queries.folder / "c", queries.folder / source)
    said = failure(lambda: collect(queries.stream("", strict, OURS), queries.folder / "c"))
    assert "DataLossError" in said
    first = [
        positions(collect(queries.stream("", lenient, source), queries.folder / source))
        for source in (BUILT_IN, OURS)
    ]
    assert first == [Counter(), Counter()]
    if not again:
        queries.broker.create_topic(names[0], 1)
    fill(queries, names[0], 1, 6)
    builtin, ours = (
        positions(collect(queries.stream("", lenient, source), queries.folder / source))
        for source in (BUILT_IN, OURS)
    )
    assert ours == builtin
    assert ours


@pytest.mark.parametrize("stored", ["-", "{}"], ids=["now", "before Spark 3.4"])
@pytest.mark.parametrize("fails", [False, True], ids=["committed", "planned"])
def test_a_source_that_had_no_topic(
    queries: KafkaQueries, topic: MakeTopic, fails: bool, stored: str
) -> None:
    """Beside a source that has data, Spark's source stores no offset where it has found no partitions; before
    Spark 3.4 it stored ``{}``. A topic that comes later is read from its beginning.
    """
    names = [topic(1), topic(1)]
    queries.broker.delete_topic(names[1])
    fill(queries, names[0], 1, 3)

    def both(source: str) -> DataFrame:
        found = queries.stream(names[0], {}, source)
        return found.union(queries.stream("", {"subscribePattern": f"{names[1]}|none"}, source))

    read = collect(both(BUILT_IN), queries.folder / "c")
    fill(queries, names[0], 1, 2)
    if fails:
        until_failed(both(BUILT_IN), queries, 1)
    for number in range(1 + fails):
        log = queries.folder / "c" / "offsets" / str(number)
        lines = log.read_text().splitlines()
        assert lines[3] == "-"
        log.write_text("\n".join([*lines[:3], stored]))
        log.with_name(f".{number}.crc").unlink()
    queries.broker.create_topic(names[1], 2)
    fill(queries, names[1], 2, 4)
    read += collect(both(OURS), queries.folder / "c")
    assert positions(read) == each_once({(names[0], 0): 5, (names[1], 0): 4, (names[1], 1): 4})


@pytest.mark.parametrize(
    "start",
    [
        {"startingOffsets": "latest"},
        {"startingTimestamp": str(T0 + 2), "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["latest", "a time"],
)
def test_the_first_batch_of_a_source_that_had_no_topic_is_read_again(
    queries: KafkaQueries, topic: MakeTopic, start: dict[str, str]
) -> None:
    """It is a later batch of the query. Spark's source reads topics that come later from their beginning, whatever the
    options say.
    """
    names = [topic(1), topic(1)]
    queries.broker.delete_topic(names[1])
    fill(queries, names[0], 1, 3)

    def both(source: str) -> DataFrame:
        late = queries.kafka("", {"subscribePattern": f"{names[1]}|none"})
        del late["startingOffsets"]
        stream = queries.spark.readStream.format(source).options(**late, **start).load()
        return queries.stream(names[0], {}, source).union(stream)

    read = collect(both(BUILT_IN), queries.folder / "c")
    queries.broker.create_topic(names[1], 1)
    queries.broker.write(names[1], [(0, T0 + n, None, b"") for n in range(5)])
    planned = until_failed(both(BUILT_IN), queries, 1)
    fill(queries, names[0], 1, 1)
    batches = collect(both(OURS), queries.folder / "c")
    assert positions(batches[:1]) == positions(planned.batches)
    assert positions(read + batches) == each_once({(names[0], 0): 4, (names[1], 0): 5})


def test_a_source_that_had_no_topic_and_begins_at_latest(queries: KafkaQueries, topic: MakeTopic) -> None:
    """It skips what was written before it starts, as a new query does: a Python source gets no offset in both cases.
    The planning process warns of it.
    """
    names = [topic(1), topic(1)]
    queries.broker.delete_topic(names[1])
    fill(queries, names[0], 1, 3)

    def both(source: str) -> DataFrame:
        asked = {"subscribePattern": f"{names[1]}|none", "startingOffsets": "latest"}
        return queries.stream(names[0], {}, source).union(queries.stream("", asked, source))

    read = collect(both(BUILT_IN), queries.folder / "c")
    queries.broker.create_topic(names[1], 1)
    fill(queries, names[1], 1, 4)
    fill(queries, names[0], 1, 2)
    read += collect(both(OURS), queries.folder / "c")
    assert positions(read) == each_once({(names[0], 0): 5})
    fill(queries, names[1], 1, 2)
    read = collect(both(OURS), queries.folder / "c")
    assert positions(read) == Counter({(names[1], 0, 4): 1, (names[1], 0, 5): 1})


def test_once(queries: KafkaQueries, topic: MakeTopic) -> None:
    name = topic(1)
    fill(queries, name, 1, 5)
    read = collect(queries.stream(name, {}, BUILT_IN), queries.folder / "c", ONCE)
    fill(queries, name, 1, 3)
    read += collect(queries.stream(name, {}, OURS), queries.folder / "c", ONCE)
    assert positions(read) == each_once({(name, 0): 8})


@pytest.fixture
def evolving(queries: KafkaQueries) -> KafkaQueries:
    """Queries whose sources have names, in a session whose offset logs have format 2."""
    session = queries.spark.newSession()
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    session.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    flip27_stream.register(session)
    return KafkaQueries(session, queries.broker, queries.folder)


def named(queries: KafkaQueries, topic: str, source: str, name: str) -> DataFrame:
    reader = queries.spark.readStream.format(source).options(**queries.kafka(topic, FOUR))
    return reader.name(name).load()


def test_named_sources(evolving: KafkaQueries, topic: MakeTopic) -> None:
    queries, one, two = evolving, topic(1), topic(1)

    def both(source: str) -> DataFrame:
        first, second = named(queries, one, source, "one"), named(queries, two, source, "two")
        return first.unionByName(second) if source == BUILT_IN else second.unionByName(first)

    fill(queries, one, 1, 5)
    fill(queries, two, 1, 3)
    read = collect(both(BUILT_IN), queries.folder / "c")
    fill(queries, one, 1, 2)
    fill(queries, two, 1, 2)
    read += collect(both(OURS), queries.folder / "c")
    assert positions(read) == each_once({(one, 0): 7, (two, 0): 5})


@pytest.mark.parametrize("source", [BUILT_IN, OURS])
def test_a_batch_of_named_sources_that_was_not_committed(
    evolving: KafkaQueries, topic: MakeTopic, source: str
) -> None:
    """SX-08: Spark fails at the restart, until the setting that it looks for is in the offset log."""
    queries, name, checkpoint = evolving, topic(1), evolving.folder / "c"
    fill(queries, name, 1, 12)
    planned = until_failed(named(queries, name, source, "one"), queries, 1)
    with pytest.raises(StreamingQueryException, match=r"None\.get"):
        collect(named(queries, name, OURS, "one"), checkpoint)
    function_of("operate.md", "add_shuffle_partitions")(str(checkpoint), 1)
    batches = collect(named(queries, name, OURS, "one"), checkpoint)
    assert positions(planned.batches[:1] + batches) == each_once({(name, 0): 12})


def test_a_killed_program_with_state_goes_on_with_one_word_changed(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """The JVM is killed in the middle of a batch, first with Spark's source and then with ours."""
    name, each = topic(3), 300
    fill(queries, name, 3, each)
    options = queries.kafka(name, {"maxOffsetsPerTrigger": "60"})
    latest = options | {"startingOffsets": "latest"}

    def until_killed(source: str, options: dict[str, str]) -> None:
        task, log = StatefulAssignment(source, options, str(queries.folder)), queries.folder / "driver.log"
        moments = [logged(queries.output(query), "offsets", 3) for query in QUERIES]
        with driver("tests.spark.support.programs.stateful_driver", task.to_json(), log) as kill_when:
            kill_when(lambda: all(moment() for moment in moments), "its third batch")
        assert any(queries.output(query).has_uncommitted_batch() for query in QUERIES)

    until_killed(BUILT_IN, options)
    assert all(is_of_spark(queries.output(query)) for query in QUERIES)
    until_killed(OURS, latest)
    assert not any(is_of_spark(queries.output(query)) for query in QUERIES)
    rest = StatefulAssignment(OURS, latest | {"maxOffsetsPerTrigger": "600"}, str(queries.folder))
    found = {}
    for query in QUERIES:
        finish(rest.start(queries.spark, query, availableNow=True), 400)
        found[query] = queries.output(query).positions()
    assert found == {
        "deduplicated": each_once({(name, p): each for p in range(3)}),
        "joined": each_once({(name, p): each for p in (1, 2)}),
    }


def is_of_spark(output: Output) -> bool:
    """Whether the last offset in the log is one of Spark's source, which has a number for each partition."""
    return all(isinstance(offsets, dict) for offsets in output.offsets()[-1].values())
