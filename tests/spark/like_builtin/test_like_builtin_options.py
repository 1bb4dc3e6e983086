"""Options that this project's Kafka source and Spark's built-in one accept and refuse. Most tests run on both
sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.errors import OptionError
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]

BUILT_IN_OPTIONS = {
    "assign": '{"t":[0]}',
    "subscribePattern": "t",
    "subscribe": "t",
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "startingOffsetsByTimestamp": '{"t":{"0":1}}',
    "endingOffsetsByTimestamp": '{"t":{"0":1}}',
    "startingTimestamp": "1",
    "endingTimestamp": "2",
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "minPartitions": "4",
    "maxRecordsPerPartition": "100",
    "maxOffsetsPerTrigger": "100",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "5m",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "10",
    "kafkaConsumer.pollTimeoutMs": "5000",
    "groupIdPrefix": "mine",
    "includeHeaders": "true",
}
"""Every option of a read in ``org.apache.spark.sql.kafka010.KafkaSourceProvider`` of Spark 4.2.0, and a value for it.

Of its constants, ``topic`` is of writing only, ``15m`` is a default and ``_mockSystemTime`` is for Spark's own tests.
"""

NOT_OF_A_READ = {"topic", "15m", "_mockSystemTime"}

STRATEGIES = ("assign", "subscribePattern", "subscribe")


def servers(queries: KafkaQueries) -> dict[str, str]:
    return {"kafka.bootstrap.servers": queries.broker.bootstrap_servers}


def test_the_list_of_built_in_options_is_that_of_spark(registered: SparkSession) -> None:
    """The list of built-in options has exactly the read options of the installed Spark. A release of Spark with a new
    option fails this test.
    """
    jvm = cast(Any, registered)._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    provider = loader.loadClass("org.apache.spark.sql.kafka010.KafkaSourceProvider$")
    module = provider.getField("MODULE$").get(None)
    constants = set()
    for field in provider.getDeclaredFields():
        name = field.getName().rpartition("$")[2]
        if field.getType().getName() == "java.lang.String" and name.isupper() and "MESSAGE" not in name:
            field.setAccessible(True)
            constants.add(field.get(module))
    options = {value for value in constants if "\n" not in value} - NOT_OF_A_READ
    assert options == {name.lower() for name in BUILT_IN_OPTIONS}


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("name", BUILT_IN_OPTIONS)
def test_every_built_in_option_is_known(name: str, bounded: bool) -> None:
    """This project's source accepts every option of the built-in source.

    A stream refuses only the options that set where a batch read ends.
    """
    strategy = {} if name in STRATEGIES else {"subscribe": "t"}
    given = {"kafka.bootstrap.servers": "127.0.0.1:9"} | strategy | {name: BUILT_IN_OPTIONS[name]}
    # This project refuses endingTimestamp in a stream, which Spark ignores.
    if name.startswith("ending") and not bounded:
        with pytest.raises(OptionError, match="not valid in streaming queries"):
            parse_kafka_options(given)
    else:
        parse_kafka_options(given, bounded=bounded)


@both_formats
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        ({"subscribe": "t", "subscribePattern": "t"}, "Only one of the following options can be specified"),
        ({"assign": ""}, "No topicpartitions to assign"),
        ({"subscribe": ""}, "No topics to subscribe to"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribe": "t", "endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        (
            {"subscribe": "t", "endingOffsetsByTimestamp": '{"t":{"0":1}}'},
            "ending timestamp not valid in streaming queries",
        ),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
            "The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)",
        ),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions"),
        ({"subscribe": "t", "minPartitions": "-1"}, "minPartitions"),
        ({"subscribe": "t", "minPartitions": "1.0"}, "1.0"),
        ({"subscribe": "t", "minPartitions": "a"}, "a"),
        ({"subscribe": "t", "maxRecordsPerPartition": "0"}, "maxrecordsperpartition"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_wrong_options_are_refused(
    queries: KafkaQueries, source: str, options: Mapping[str, str], said: str
) -> None:
    """SK-17, SK-30, KB-03: wrong options are refused before the query runs, in Spark's words."""
    assert said.lower() in refusal(queries, source, options).lower()


@both_formats
@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "enable.auto.commit",
        "interceptor.classes",
        "key.deserializer",
        "value.deserializer",
    ],
)
def test_kafka_settings_of_the_source_s_own_are_refused(
    queries: KafkaQueries, source: str, name: str
) -> None:
    """SK-18, KB-02, KB-05: Kafka settings that a source sets itself are refused as options."""
    said = refusal(queries, source, {"subscribe": "t", f"kafka.{name}": "anything"})
    assert f"Kafka option '{name}' is not supported" in said


@both_formats
def test_names_and_words_are_taken_in_any_case(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-19: names of options and words in their values may be in any case. Values may have blanks around them."""
    name = topic()
    queries.broker.write(name, records(0, [T0, T0]))
    given = servers(queries) | {
        "SUBSCRIBE": f" {name} ,",
        "STARTINGOFFSETS": "earLiEst",
        "endingOFFSETS": " laTest ",
        "INCLUDEheaders": "TRUE",
        "FAILONDATALOSS": "False",
    }
    frame = queries.spark.read.format(source).options(**given).load()
    assert frame.columns[-1] == "headers"
    assert rows(frame).num_rows == 2


@both_formats
def test_limits_have_no_effect_on_a_batch_read(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-05: read limits of a stream have no effect on a batch read."""
    name = topic()
    queries.broker.write(name, records(0, [T0, T0, T0]))
    limits = {"maxOffsetsPerTrigger": "2", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1m"}
    assert rows(queries.batch(name, limits, source)).num_rows == 3


@both_formats
def test_both_isolation_levels_are_taken(queries: KafkaQueries, topic: MakeTopic, source: str) -> None:
    """SK-39: both isolation levels of Kafka are accepted, and no other value. ``groupIdPrefix`` and
    ``kafka.group.id`` are accepted.
    """
    name = topic()
    queries.broker.write(name, records(0, [T0]))
    level = "kafka.isolation.level"
    for options in (
        {level: "read_committed"},
        {level: "read_uncommitted"},
        {"groupIdPrefix": "mine"},
        {"kafka.group.id": f"group-of-{name}"},
    ):
        assert rows(queries.batch(name, options, source)).num_rows == 1
    said = failure(lambda: rows(queries.batch(name, {level: "committed"}, source)))
    assert "committed" in said


@both_formats
def test_a_missing_topic_is_an_error(queries: KafkaQueries, source: str) -> None:
    """KS-04: a missing topic fails the query with an error that names it. A pattern without a match is not an error."""
    stream = queries.stream("no-such-topic", source=source)
    said = failure(lambda: collect(stream, queries.folder / "missing"))
    assert source == BUILT_IN or "no-such-topic" in said
    stream = queries.stream("", {"subscribePattern": "no-such.*"}, source)
    assert not positions(collect(stream, queries.folder / "nothing"))
