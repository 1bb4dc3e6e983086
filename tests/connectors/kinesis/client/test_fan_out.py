"""Enhanced fan-out: the driver registers consumers, tasks subscribe to shards, and each range
has exactly its records.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.client.subscription import Subscription
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.errors import (
    AuthenticationError,
    ConnectorError,
    DataLossError,
    MissingTopicError,
    UnreachableError,
)
from flip27_stream.testing import BlackHole, FaultyNetwork, KinesisServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import Answer, answering, error
from tests.connectors.kinesis.support.event_streams import exception_event, records_event, subscription
from tests.connectors.kinesis.support.kit import data_of, numbered, source_of

pytestmark = pytest.mark.node

EXPECTED = [b"%d" % i for i in range(20)]


@pytest.fixture
def filled(kinesis: KinesisServer, stream: str) -> KinesisServer:
    kinesis.create_stream(stream, 1)
    kinesis.put(stream, numbered(0, 20, 1))
    return kinesis


def fan_out(server: KinesisServer, stream: str, **more: str) -> KinesisSource:
    return source_of(server, stream, **{"consumerMode": "efo", "consumerName": "me", **more})


def arn_of(server: KinesisServer, stream: str) -> str:
    return str(
        server.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    )


def consumers(server: KinesisServer, stream: str) -> list[str]:
    """The names of the consumers that are not being de-registered."""
    listed = server.client.list_stream_consumers(StreamARN=arn_of(server, stream))["Consumers"]
    return [c["ConsumerName"] for c in listed if c["ConsumerStatus"] != "DELETING"]


def subscriptions(server: KinesisServer, answer: Answer, **more: str) -> Any:
    """Answers calls of SubscribeToShard in place of the service."""
    connection = parse_kinesis_options({**server.options, "streamName": "x", **more}).connection
    return answering(connection, "SubscribeToShard", answer)


def some_records(server: KinesisServer, stream: str, asked: dict[str, Any], limit: int) -> list[Any]:
    """Returns the service's records from the start position of a subscription on."""
    position = asked["StartingPosition"]
    number = {"StartingSequenceNumber": position["SequenceNumber"]} if "SequenceNumber" in position else {}
    iterator = server.client.get_shard_iterator(
        StreamName=stream, ShardId=asked["ShardId"], ShardIteratorType=position["Type"], **number
    )["ShardIterator"]
    return list(server.client.get_records(ShardIterator=iterator, Limit=limit)["Records"])


def test_all_records_are_read_over_splits_and_restarts(kinesis: KinesisServer, stream: str) -> None:
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 20, 2))
    polled = list[Any]()
    source = fan_out(kinesis, stream)
    with SourceQuery(source) as query:
        batch = query.wait_for_batch()
        connection = parse_kinesis_options({**kinesis.options, "streamName": "x"}).connection
        with answering(connection, "GetRecords", lambda asked: polled.append(asked)):
            rows = query.read_all(*batch)
        query.offset = batch[1]
    assert not polled, "tasks do not poll"
    kinesis.split(stream, 0)
    kinesis.put(stream, numbered(20, 9, 3))
    with SourceQuery(source, query.offset) as resumed:
        rows += resumed.run(29 - len(rows))
    assert sorted(map(int, data_of(rows))) == list(range(29))
    assert consumers(kinesis, stream) == ["flip27_me"], "by default it stays registered"


def test_a_range_ends_at_its_planned_end(filled: KinesisServer, stream: str) -> None:
    """The service sends records that arrived after the plan. They belong to the next batch, at every replay."""
    with SourceQuery(fan_out(filled, stream)) as query:
        batch = query.wait_for_batch()
        filled.put(stream, numbered(20, 20, 1))
        for _ in range(2):
            assert data_of(query.read_all(*batch)) == EXPECTED
        query.offset = batch[1]
        assert data_of(query.run(20)) == [b"%d" % i for i in range(20, 40)]


def test_a_subscription_that_ends_is_renewed_at_the_read_position(filled: KinesisServer, stream: str) -> None:
    """The service ends each subscription after five minutes. Here a fake ends it after three records."""
    starts = list[str]()

    def three(asked: dict[str, Any]) -> Any:
        starts.append(asked["StartingPosition"]["Type"])
        return 200, subscription(records_event(some_records(filled, stream, asked, 3)))

    with subscriptions(filled, three), SourceQuery(fan_out(filled, stream)) as query:
        assert data_of(query.run(20)) == EXPECTED
    assert starts == ["AT_SEQUENCE_NUMBER", *["AFTER_SEQUENCE_NUMBER"] * 6]


@pytest.mark.parametrize(
    "code",
    [
        "ResourceInUseException",
        "LimitExceededException",
        "InternalFailureException",
        "KMSThrottlingException",
    ],
)
@pytest.mark.parametrize("within", [False, True])
def test_errors_that_pass_lose_no_record(
    filled: KinesisServer, stream: str, code: str, *, within: bool
) -> None:
    """Every second subscription fails with an error that passes, before its first event or after some records."""
    turns = itertools.count()

    def answer(asked: dict[str, Any]) -> Any:
        records = some_records(filled, stream, asked, 7)
        if next(turns) % 2:
            return 200, subscription(records_event(records))
        if within:
            return 200, subscription(records_event(records[:2]), exception_event(code))
        return error(code)

    with subscriptions(filled, answer) as given, SourceQuery(fan_out(filled, stream)) as query:
        assert data_of(query.run(20)) == EXPECTED
    assert len(given) > 3


def test_a_consumer_in_use_is_named(filled: KinesisServer, stream: str) -> None:
    with (
        subscriptions(filled, lambda _: error("ResourceInUseException"), requestTimeout="600 ms"),
        SourceQuery(fan_out(filled, stream)) as query,
        SourceQuery(fan_out(filled, stream, requestTimeout="600 ms")) as failing,
    ):
        tasks = query.tasks(*query.wait_for_batch())
        with pytest.raises(UnreachableError, match="'consumerName'") as failure:
            failing.read(tasks[0])
    assert f"{stream}/shardId-000000000000" in str(failure.value)


def test_denied_access_fails_at_once(filled: KinesisServer, stream: str) -> None:
    with (
        subscriptions(filled, lambda _: error("AccessDeniedException")),
        SourceQuery(fan_out(filled, stream)) as query,
        pytest.raises(AuthenticationError, match="SubscribeToShard"),
    ):
        query.run(20)


@pytest.mark.parametrize("operation", ["DescribeStreamConsumer", "SubscribeToShard"])
def test_a_consumer_that_is_de_registered_meanwhile(
    filled: KinesisServer, stream: str, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A task polls its range if its consumer is no longer registered. The emulator does not end every
    de-registration, so a fake answers here.
    """
    connection = parse_kinesis_options({**filled.options, "streamName": "x"}).connection
    with SourceQuery(fan_out(filled, stream)) as query:
        batch = query.wait_for_batch()
        with (
            answering(connection, operation, lambda _: error("ResourceNotFoundException")) as given,
            caplog.at_level(logging.WARNING),
        ):
            assert [row["data"] for task in query.tasks(*batch) for row in query.read(task)] == EXPECTED
    assert given
    assert "is polled" in caplog.text


def test_the_driver_checks_the_registration(filled: KinesisServer, stream: str) -> None:
    """The driver looks for its consumer every ``consumerRefreshInterval``, and registers it
    again if it is missing.
    """
    connection = parse_kinesis_options({**filled.options, "streamName": "x"}).connection
    missing, registered = iter([error("ResourceNotFoundException")]), list[str]()
    with SourceQuery(fan_out(filled, stream, consumerRefreshInterval="50 ms")) as query:
        assert data_of(query.run(20)) == EXPECTED
        with (
            answering(connection, "DescribeStreamConsumer", lambda _: next(missing, None)),
            answering(
                connection, "RegisterStreamConsumer", lambda asked: registered.append(asked["ConsumerName"])
            ),
        ):
            wait_until(lambda: query.next_batch() or registered, "the consumer to be registered", 60)
    assert registered == ["flip27_me"]


def test_a_consumer_is_de_registered_at_the_end_if_that_is_wanted(filled: KinesisServer, stream: str) -> None:
    with SourceQuery(fan_out(filled, stream, requireConsumerDeregistration="true")) as query:
        assert data_of(query.run(20)) == EXPECTED
        assert consumers(filled, stream) == ["flip27_me"]
    wait_until(lambda: not consumers(filled, stream), "the consumer to be de-registered", 60)


@pytest.fixture
def theirs(filled: KinesisServer, stream: str) -> str:
    """The ARN of a consumer that somebody else registered."""
    made = filled.client.register_stream_consumer(StreamARN=arn_of(filled, stream), ConsumerName="theirs")
    return str(made["Consumer"]["ConsumerARN"])


@pytest.mark.parametrize("kind", ["name", "arn"])
def test_a_consumer_of_another_owner_is_used_and_kept(
    filled: KinesisServer, stream: str, theirs: str, kind: str
) -> None:
    given = {"registeredConsumerId": "theirs" if kind == "name" else theirs, "registeredConsumerIdType": kind}
    with SourceQuery(source_of(filled, stream, consumerMode="efo", **given)) as query:
        assert data_of(query.run(20)) == EXPECTED
    assert consumers(filled, stream) == ["theirs"]


def test_a_missing_consumer_of_another_owner_is_named(filled: KinesisServer, stream: str) -> None:
    given = {"consumerMode": "efo", "registeredConsumerId": "nobody", "registeredConsumerIdType": "name"}
    with (
        SourceQuery(source_of(filled, stream, **given)) as query,
        pytest.raises(ConnectorError, match=r"'nobody'.*'registeredConsumerId'"),
    ):
        query.run(20)
    with (
        SourceQuery(fan_out(filled, "nowhere")) as query,
        pytest.raises(MissingTopicError, match="'nowhere'"),
    ):
        query.run(1)


def test_records_that_expire_before_they_are_sent(filled: KinesisServer, stream: str) -> None:
    """The service does not know the start position any more. ``failOnDataLoss`` says whether the
    task fails or goes on.
    """

    def trimmed(asked: dict[str, Any]) -> Any:
        starts = asked.get("StartingPosition", asked)
        known = starts.get("Type", starts.get("ShardIteratorType")) == "TRIM_HORIZON"
        return None if known else error("InvalidArgumentException")

    connection = parse_kinesis_options({**filled.options, "streamName": "x"}).connection
    with SourceQuery(fan_out(filled, stream)) as query:
        task = query.tasks(*query.wait_for_batch())[0]
        with answering(connection, "GetShardIterator", trimmed), subscriptions(filled, trimmed):
            with pytest.raises(DataLossError, match=stream):
                query.read(task)
            with SourceQuery(fan_out(filled, stream, failOnDataLoss="false")) as tolerant:
                assert data_of(tolerant.read(task)) == EXPECTED


def test_a_task_that_is_killed_leaves_no_subscription(
    filled: KinesisServer, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is killed after the first event of its subscription. The subscription is closed, and the range can be read
    again.
    """
    opened = list[Any]()
    subscribe = Subscription._subscribe

    def noted(self: Subscription, position: int) -> Any:
        opened.append(subscribe(self, position))
        return opened[-1]

    def in_threes(asked: dict[str, Any]) -> Any:
        records = some_records(filled, stream, asked, 20)
        return 200, subscription(*(records_event(records[i : i + 3]) for i in range(0, len(records), 3)))

    monkeypatch.setattr(Subscription, "_subscribe", noted)
    with SourceQuery(fan_out(filled, stream)) as query:
        batch = query.wait_for_batch()
        with subscriptions(filled, in_threes):
            query.abandon(query.tasks(*batch)[0])
            wait_until(lambda: opened[0]._raw_stream.closed, "the subscription to be closed")
        assert len(opened) == 1
        assert data_of(query.read_all(*batch)) == EXPECTED


def test_a_service_that_falls_silent_fails_the_task_in_bounded_time(
    filled: KinesisServer, stream: str
) -> None:
    with FaultyNetwork() as network, SourceQuery(fan_out(filled, stream)) as query:
        task = query.tasks(*query.wait_for_batch())[0]
        link = network.link("kinesis", filled.address)
        given = {"requestTimeout": "1 s", "endpoint": f"http://{link.address}"}
        with (
            link.apply(BlackHole()),
            SourceQuery(fan_out(filled, stream, **given)) as failing,
            pytest.raises(UnreachableError),
        ):
            failing.read(task)
        assert data_of(query.read(task)) == EXPECTED
