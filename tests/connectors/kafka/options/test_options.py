"""Options of the Kafka source: which are accepted, and the errors for wrong ones."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from flip27_stream.api import Boundedness, ReadLimits, WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource, KafkaSourceFactory
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.offsets_initializer import Earliest, Latest, Specific
from flip27_stream.connectors.kafka.options.java_client_options import warn_without_effect
from flip27_stream.connectors.kafka.options.source_options import (
    FORBIDDEN,
    OPTIONS,
    WITHOUT_EFFECT,
    KafkaOptions,
    parse_kafka_options,
)
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.subscriber import PartitionSetSubscriber, TopicListSubscriber
from flip27_stream.errors import MissingTopicError, OptionError

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
LEAST = {**SERVERS, "subscribe": "t"}


def parse(**options: str) -> KafkaOptions:
    """Parses these options beside the required ones. In names ``__`` stands for a dot."""
    return parse_kafka_options(
        {**LEAST, **{name.replace("__", "."): value for name, value in options.items()}}
    )


def test_defaults_are_those_of_spark() -> None:
    options = parse()
    assert options.subscriber == TopicListSubscriber(("t",))
    assert options.starting_offsets == Latest()
    assert options.fail_on_data_loss
    assert not options.read_committed
    assert options.discovery_interval_ms == 1000
    assert options.limits == ReadLimits(max_trigger_delay_ms=900_000, rows_worth_a_task=500)  # SK-08
    assert options.stopping_offsets is None
    assert not options.include_headers
    assert options.group_id is None
    assert (options.fetch_retries, options.fetch_retry_interval_ms) == (3, 1000)
    assert options.connection.first_contact_timeout_ms == 15_000
    assert options.connection.api_timeout_ms == 60_000


def test_sk19_names_and_values_in_any_case() -> None:
    """SK-19: Spark passes names in lower case, and users write them in any case."""
    options = parse_kafka_options(
        {
            "KAFKA.bootstrap.SERVERS": " a:1 ,b:2,",
            "SUBSCRIBE": "x, y,,x",
            "startingoffsets": "earLiEst",
            "MAXOFFSETSPERTRIGGER": str(2**63 - 1),
            "failondataloss": "False",
            "kafka.isolation.level": "read_committed",
            "kafka.request.timeout.ms": "99999",
            "kafka.default.api.timeout.ms": "5000",
            "kafka.client.id": "me",
            "scan.topic-partition-discovery.interval": "5 min",
        }
    )
    assert options.connection.bootstrap_servers == "a:1,b:2"
    assert options.subscriber == TopicListSubscriber(("x", "y"))
    assert options.starting_offsets == Earliest()
    assert options.limits.max_rows == 2**63 - 1  # SK-09
    assert not options.fail_on_data_loss
    assert options.read_committed
    assert options.discovery_interval_ms == 300_000
    connection = options.connection  # KE-11
    assert (connection.client_id, connection.request_timeout_ms) == ("me", 99_999)
    assert (connection.api_timeout_ms, connection.first_contact_timeout_ms) == (5000, 5000)


def test_discovery_can_be_switched_off() -> None:
    """KE-01: the interval 0 switches the discovery off."""
    assert parse(**{"scan.topic-partition-discovery.interval": "0"}).discovery_interval_ms is None


def test_sk40_json_offsets_have_numbers_for_latest_and_earliest() -> None:
    """SK-40: in JSON the offset -1 is latest, and -2 is earliest."""
    options = parse(startingOffsets='{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    expected = {
        TopicPartition("topicA", 0): 23,
        TopicPartition("topicA", 1): -1,
        TopicPartition("topicB", 0): -2,
    }
    assert options.starting_offsets == Specific(expected)


def test_assign_names_partitions() -> None:
    options = parse_kafka_options({**SERVERS, "assign": '{"a":[0,1],"b":[2]}'})
    expected = {TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)}
    assert options.subscriber == PartitionSetSubscriber(frozenset(expected))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SERVERS, "One of the following options must be specified for Kafka source: subscribe, subscribePattern"),
        ({**LEAST, "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        ({**LEAST, "subscribePattern": "a"}, "Only one of the following options can be specified"),
        ({**SERVERS, "subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe'"),
        ({**SERVERS, "subscribe": ""}, "option 'subscribe' is ''. Expected e.g. topicA,topicB."),
        ({**SERVERS, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({**SERVERS, "subscribePattern": "a("}, "Invalid value for option 'subscribePattern': 'a('"),
        ({**SERVERS, "assign": ""}, "No topicpartitions to assign"),
        ({**SERVERS, "assign": "{}"}, "No topicpartitions to assign"),
        ({**SERVERS, "assign": "clicks:0"}, "is 'clicks:0'. Expected e.g. {\"topicA\":[0,1],\"topicB\":[0,1]}."),
        ({**SERVERS, "assign": "[0,1]"}, "is '[0,1]'. Expected e.g. {\"topicA\":[0,1]"),
        ({**SERVERS, "assign": '{"a":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'),
        ({**SERVERS, "assign": '{"a":["0"]}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'),
        ({**SERVERS, "assign": "{nonsense"}, "Expected e.g."),
        ({"subscribe": "t"}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({**LEAST, "kafka.bootstrap.servers": "localhost"}, "Invalid value for option 'kafka.bootstrap.servers'"),
        ({**SERVERS, "subscribePattern": "a{99999999999}"}, "Invalid value for option 'subscribePattern'"),
        ({**SERVERS, "assign": '{"a":' * 100_000}, "Expected e.g."),
        ({**LEAST, "startingOffsets": '{"a":' * 100_000}, "Expected earliest, latest, group-offsets, or e.g."),
        ({**LEAST, "startingOffsets": ""}, "Invalid value for option 'startingOffsets': ''"),
        ({**LEAST, "kafka.bootstrap.servers": "host:0"}, "Invalid value for option 'kafka.bootstrap.servers'"),
        ({**LEAST, "kafka.bootstrap.servers": "host:65536"}, "Invalid value for option 'kafka.bootstrap.servers'"),
        ({**LEAST, "kafka.bootstrap.servers": "host:٩٠٩٢"}, "Invalid value for option 'kafka.bootstrap.servers'"),
        ({**LEAST, "kafka.bootstrap.servers": "host:port"}, "Invalid value for option 'kafka.bootstrap.servers'"),
        ({**LEAST, "endingOffsets": "latest"}, "Ending offset not valid in streaming queries"),
        ({**LEAST, "endingOffsetsByTimestamp": "{}"}, "Ending timestamp not valid in streaming queries"),
        ({**LEAST, "endingTimestamp": "1"}, "Ending timestamp not valid in streaming queries"),
        ({**LEAST, "startingOffsets": "newest"}, "Expected earliest, latest, group-offsets, or e.g."),
        ({**LEAST, "startingOffsets": '{"t":{"0":"5"}}'}, "Invalid value for option 'startingOffsets'"),
        ({**LEAST, "startingOffsets": '{"t":{"x":5}}'}, "Invalid value for option 'startingOffsets'"),
        ({**LEAST, "startingOffsets": '{"t":{"0":-3}}'}, "Invalid value for option 'startingOffsets'"),
        ({**LEAST, "startingOffsets": '{"t":5}'}, "Invalid value for option 'startingOffsets'"),
        ({**LEAST, "maxOffsetsPerTrigger": "0"}, "Invalid value for option 'maxOffsetsPerTrigger': '0'"),
        ({**LEAST, "maxOffsetsPerTrigger": "ten"}, "Invalid value for option 'maxOffsetsPerTrigger': 'ten'"),
        ({**LEAST, "maxOffsetsPerTrigger": str(2**63)}, "a whole number from 1 to 9223372036854775807"),
        ({**LEAST, "failOnDataLoss": "yes"}, "Invalid value for option 'failOnDataLoss': 'yes'. Allowed: true, false"),
        ({**LEAST, "kafka.isolation.level": "committed"}, "Allowed: read_committed, read_uncommitted"),
        ({**LEAST, "kafka.request.timeout.ms": "-1"}, "Invalid value for option 'kafka.request.timeout.ms'"),
        ({**LEAST, "kafka.fetch.max.bytes": str(2**31)}, "Invalid value for option 'kafka.fetch.max.bytes'"),
        ({**LEAST, "scan.topic-partition-discovery.interval": "soon"}, "scan.topic-partition-discovery.interval"),
        ({**LEAST, "subscrbe": "t"}, "Unknown option 'subscrbe'. Did you mean 'subscribe'?"),
        ({**LEAST, "kafka.fetch.max.byte": "1"}, "Did you mean 'kafka.fetch.max.bytes'?"),
        ({**LEAST, "scan.startup.mode": "group-offsets"}, "here it is 'startingOffsets' or 'startingTimestamp'."),
        ({**LEAST, "kafka.acknowledge": "all"}, "Unknown option 'kafka.acknowledge'"),
        ({**LEAST, "kafka.group.id": " "}, "Invalid value for option 'kafka.group.id'"),
        ({**LEAST, "scan.commit-offsets": "true"}, "'scan.commit-offsets' needs option 'kafka.group.id'"),
        ({**LEAST, "scan.commit-offsets": "1"}, "Invalid value for option 'scan.commit-offsets': '1'"),
        ({**LEAST, "maxOffsetsPerTrigger": "15", "minOffsetsPerTrigger": "20"},
         "The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)"),
        ({**LEAST, "maxTriggerDelay": "soon"}, "Invalid value for option 'maxTriggerDelay': 'soon'"),
        ({**LEAST, "includeHeaders": "yes"}, "Invalid value for option 'includeHeaders': 'yes'"),
        ({**LEAST, "minPartitions": "a"}, "Invalid value for option 'minPartitions': 'a'"),
        ({**LEAST, "minPartitions": "1.0"}, "Invalid value for option 'minPartitions': '1.0'"),
        ({**LEAST, "minPartitions": "0"}, "Invalid value for option 'minPartitions': '0'"),
        ({**LEAST, "minPartitions": "-1"}, "Invalid value for option 'minPartitions': '-1'"),
        ({**LEAST, "maxRecordsPerPartition": "0"}, "Invalid value for option 'maxRecordsPerPartition': '0'"),
        ({**LEAST, "fetchOffset.numRetries": "0"}, "Invalid value for option 'fetchOffset.numRetries': '0'"),
        ({**LEAST, "fetchOffset.retryIntervalMs": "-1"}, "'fetchOffset.retryIntervalMs': '-1'. Allowed: a whole"),
        ({**LEAST, "kafkaConsumer.pollTimeoutMs": "1s"}, "Invalid value for option 'kafkaConsumer.pollTimeoutMs'"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_in_spark_s_words(options: dict[str, str], message: str) -> None:
    """SK-17, SK-30, SK-39, SK-40, KB-03: the errors are those of Spark's own source, and say what is allowed."""
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_kafka_options(options)


@pytest.mark.parametrize("end", [{"endingOffsets": "latest"}, {"scan.bounded.mode": "latest-offset"}])
def test_a_wrong_interval_is_refused_also_where_it_has_no_effect(end: dict[str, str]) -> None:
    wrong = {**LEAST, **end, "scan.topic-partition-discovery.interval": "soon"}
    with pytest.raises(OptionError, match=r"'scan.topic-partition-discovery.interval': 'soon'"):
        parse_kafka_options(wrong, bounded="endingOffsets" in end)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_sk18_kafka_settings_that_spark_refuses(name: str) -> None:
    """SK-18: the error names the setting and the reason."""
    with pytest.raises(
        OptionError, match=f"Kafka option '{name.removeprefix('kafka.')}' is not supported. [A-Z]"
    ):
        parse_kafka_options({**LEAST, name: "anything"})


def test_sk20_a_batch_read_begins_at_earliest() -> None:
    """SK-20, SK-21: a batch read begins at earliest, and cannot begin at latest."""
    assert parse_kafka_options(LEAST, bounded=True).starting_offsets == Earliest()
    with pytest.raises(OptionError, match="can't be latest for batch queries"):
        parse_kafka_options({**LEAST, "startingOffsets": "latest"}, bounded=True)
    with pytest.raises(OptionError, match="startingOffsets for t-1 can't be latest for batch queries"):
        parse_kafka_options({**LEAST, "startingOffsets": '{"t":{"0":5,"1":-1}}'}, bounded=True)


def test_every_option_is_known_to_the_factory() -> None:
    factory = KafkaSourceFactory()
    assert {option.name for option in OPTIONS} <= set(factory.option_names.values())
    assert all(name == canonical.lower() for name, canonical in factory.option_names.items())


@pytest.mark.parametrize(
    ("start", "said"),
    [("7", "start offset 7 .* greater than the end offset 5"), ("-1", "can't be latest for batch")],
)
def test_an_option_of_an_end_means_a_batch_read(start: str, said: str) -> None:
    """SK-20, SK-33: an end means a batch read. The error is about its offsets, and not that a stream has no end."""
    offsets = {"startingOffsets": f'{{"t":{{"0":{start}}}}}', "endingOffsets": '{"t":{"0":5}}'}
    with pytest.raises(OptionError, match=said):
        KafkaSourceFactory().check({**LEAST, **offsets})


def test_limits_are_parsed() -> None:
    """SK-06, SK-08, SK-30: a delay without a unit is in milliseconds, as in Spark. Batch reads
    have no limits of rows.
    """
    given = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7", "minPartitions": "4"}
    parsed = parse(**given, maxRecordsPerPartition="3", maxTriggerDelay="5s")
    assert parsed.limits == ReadLimits(7, 5, 5000, 4, 3, rows_worth_a_task=500)
    assert parse(maxTriggerDelay="250").limits.max_trigger_delay_ms == 250
    batch = parse_kafka_options({**LEAST, **given, "maxTriggerDelay": "5s"}, bounded=True)
    assert batch.limits == ReadLimits(min_tasks=4, rows_worth_a_task=500)


def test_sk39_options_of_groups_headers_and_retries_are_parsed() -> None:
    """SK-22, SK-39: options of headers, retries and time-outs are read in any case. Without commits a
    group has no effect.
    """
    options = parse(
        kafka__group__id="readers",
        includeHeaders="TRUE",
        fetchOffset__numRetries="5",
        fetchOffset__retryIntervalMs="10",
        kafkaConsumer__pollTimeoutMs="512",
    )
    assert options.group_id is None
    assert options.include_headers
    assert (options.fetch_retries, options.fetch_retry_interval_ms, options.poll_timeout_ms) == (5, 10, 512)


def test_committing_is_a_choice_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Offsets are committed to a group only if an option says so, for the group may belong to another application. A
    log line says that the group has no effect.
    """
    warn_without_effect.cache_clear()
    commit, group = {"scan.commit-offsets": "True"}, {"kafka.group.id": "lag"}
    uses = {"scan.bounded.mode": "group-offsets"}, {"startingOffsets": "group-offsets"}
    assert parse_kafka_options({**LEAST, **group, **commit}).group_id == "lag"
    for use in uses:
        assert parse_kafka_options({**LEAST, **group, **use}).group_id is None
    assert not caplog.records
    assert parse_kafka_options({**LEAST, **group}).group_id is None
    assert "'kafka.group.id' has no effect: processed offsets are committed only if" in caplog.text
    assert parse_kafka_options({**LEAST, **group, **commit}, bounded=True).group_id is None
    assert "'scan.commit-offsets' has no effect: this is a batch read" in caplog.text


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_settings_without_effect_are_named_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """SK-39: a setting of a Java client without effect, such as groupIdPrefix, is named in one warning."""
    warn_without_effect.cache_clear()
    for _ in range(2):
        parse_kafka_options({**LEAST, name.upper(): "1"})
    assert [record.getMessage() for record in caplog.records] == [
        f"Option '{name}' has no effect: {WITHOUT_EFFECT[name]}."
    ]


def test_no_name_is_in_two_tables() -> None:
    names = [*(option.name for option in OPTIONS), *WITHOUT_EFFECT, *FORBIDDEN]
    assert len({name.lower() for name in names}) == len(names)


def test_options_are_picklable_and_a_connection_hashable() -> None:
    """Options travel to the workers, where they are keys of pooled connections."""
    options = parse(startingOffsets='{"t":{"0":1}}', kafka__security__protocol="SSL")
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy.connection) == hash(options.connection)


def test_source_is_a_picklable_value() -> None:
    made: Any = pickle.loads(
        pickle.dumps(KafkaSourceFactory().create(LEAST, WatermarkStrategy(), bounded=True))
    )
    assert isinstance(made, KafkaSource)
    assert made.boundedness is Boundedness.BOUNDED
    assert made.fingerprint == "Kafka option 'subscribe' (t)"


TOPICS = {
    "pattern-topic": TopicMetadata("1", False, {0: 1, 1: 1}),
    "topic2": TopicMetadata("2", False, {0: 1}),
    "pattern-internal": TopicMetadata("3", True, {0: 1}),
}


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"subscribe": "topic2,pattern-topic"}, {("topic2", 0), ("pattern-topic", 0), ("pattern-topic", 1)}),
        ({"subscribePattern": "pattern.*"}, {("pattern-topic", 0), ("pattern-topic", 1)}),
        ({"subscribePattern": "pattern"}, set()),
        ({"assign": '{"pattern-topic":[1]}'}, {("pattern-topic", 1)}),
    ],
)
def test_ks03_a_subscription_has_exactly_its_partitions(
    options: dict[str, str], partitions: set[tuple[str, int]]
) -> None:
    """KS-03: a subscription has exactly these partitions. A pattern matches whole names, and no internal topic."""
    subscriber = parse_kafka_options({**SERVERS, **options}).subscriber
    subscriber.require(TOPICS)
    assert subscriber.partitions(TOPICS) == partitions


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"subscribe": "topic2,nowhere,never"}, "never, nowhere"),
        ({"assign": '{"topic2":[0,2147483647]}'}, "topic2-2147483647"),
    ],
)
def test_ks04_an_error_names_missing_topics(options: dict[str, str], missing: str) -> None:
    """KS-04: the error names the topics and partitions that are missing."""
    subscriber = parse_kafka_options({**SERVERS, **options}).subscriber
    with pytest.raises(MissingTopicError, match=f"does not have the topics or partitions {missing}"):
        subscriber.require(TOPICS)
