"""Errors that one healthy broker never makes, put into its answers: leaders that moved, refusals and damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import ListOffsetsRequest

from flip27_stream.api import EventTimes, PositioningRequest
from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP, FetchedPartition
from flip27_stream.connectors.kafka.connections.broker_connections import BrokerConnections
from flip27_stream.connectors.kafka.fetching.fetch_responses import FetchResponse, read_fetch_response
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.errors import ConnectorError, CorruptRecordError, Flip27Error
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import read, running, source

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]

NOT_LEADER, UNKNOWN_TOPIC, STORAGE, UNKNOWN, AUTHORIZATION, CORRUPT = 6, 3, 56, -1, 29, 2


@contextmanager
def faults(patch: pytest.MonkeyPatch, request_name: str, error: int, times: int) -> Iterator[list[int]]:
    """Puts an error into every partition of the first answers to requests of a kind. Yields a list of
    the errors put so far.
    """
    put: list[int] = []
    send = BrokerConnections.send

    def spoil(response: Any) -> None:
        for topic in response.topics if request_name == "ListOffsetsRequest" else response.responses:
            for partition in topic.partitions:
                partition.error_code = error
                if request_name == "FetchRequest":
                    partition.records = b""

    def tampered(self: BrokerConnections, node: int, request: Any) -> Any:
        future = send(self, node, request)
        if request.name == request_name and len(put) < times:
            put.append(error)
            future.add_callback(spoil)
        return future

    def spoilt_answers(*response: Any) -> FetchResponse:
        read = read_fetch_response(*response)
        if request_name != "FetchRequest" or len(put) >= times:
            return read
        put.append(error)
        return FetchResponse({tp: FetchedPartition(error, b"", []) for tp in read.partitions})

    with patch.context() as patched:
        patched.setattr(BrokerConnections, "send", tampered)
        patched.setattr("flip27_stream.connectors.kafka.fetching.fetcher.read_fetch_response", spoilt_answers)
        yield put
    assert len(put) == times


@pytest.fixture
def filled(broker: KafkaBroker, topic: MakeTopic) -> str:
    name = topic(2)
    broker.write(name, [(p, 100 + i, None, b"v") for i in range(10) for p in range(2)])
    return name


@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_TOPIC, STORAGE, UNKNOWN])
def test_a_partition_is_read_from_its_new_leader(
    broker: KafkaBroker, filled: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The client asks again after fresh metadata. Ends and event times are found, and each row comes once."""
    made = source(broker, subscribe=filled, startingOffsets="earliest")
    with running(made) as query:
        with faults(monkeypatch, "ListOffsetsRequest", error, times=2):
            ranges = query.ranges()
        with faults(monkeypatch, "FetchRequest", error, times=2):
            found = query.enumerator.event_time_positions(PositioningRequest(ranges))
            assert found.event_times() == dict.fromkeys(ranges, EventTimes(100, 109))
        with faults(monkeypatch, "FetchRequest", error, times=2):
            output = query.read(ranges)
    assert sorted(output.timestamps) == sorted([*range(100, 110)] * 2)


@pytest.mark.parametrize(
    ("request_name", "error", "kind", "message"),
    [
        (
            "ListOffsetsRequest",
            AUTHORIZATION,
            ConnectorError,
            r"refused ListOffsets of .*TopicAuthorizationFailed",
        ),
        (
            "FetchRequest",
            AUTHORIZATION,
            ConnectorError,
            r"refused a fetch of .* at offset 0: TopicAuthorizationFailed",
        ),
        ("FetchRequest", CORRUPT, CorruptRecordError, r"found the log of .* damaged at or after offset 0"),
    ],
)
def test_errors_name_the_refused_topic_or_group(
    broker: KafkaBroker,
    filled: str,
    monkeypatch: pytest.MonkeyPatch,
    request_name: str,
    error: int,
    kind: type[Flip27Error],
    message: str,
) -> None:
    made = source(broker, subscribe=filled, startingOffsets="earliest")
    with running(made) as query:
        ranges = query.ranges() if request_name == "FetchRequest" else {}
        with faults(monkeypatch, request_name, error, times=1), pytest.raises(kind, match=message):
            query.enumerator.event_time_positions(
                PositioningRequest(ranges)
            ).event_times() if ranges else query.ranges()
        if ranges:
            with faults(monkeypatch, request_name, error, times=1), pytest.raises(kind, match=message):
                read(made, KafkaPartitionSplit(filled, 0, 0, 10))


def test_broker_that_cannot_find_the_greatest_timestamp(
    broker: KafkaBroker, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker before Kafka 3.0 has no greatest timestamp (KIP-734). Planning does not wait for it, and
    reads the end of the log.
    """
    api_version = BrokerVersionData.api_version

    def of_kafka_2(self: BrokerVersionData, operation: Any, **bounds: Any) -> int:
        if type(operation) is ListOffsetsRequest and operation._min_version == 7:
            raise IncompatibleBrokerVersion("not before Kafka 3.0")
        return int(api_version(self, operation, **bounds))

    monkeypatch.setattr(BrokerVersionData, "api_version", of_kafka_2)
    for module in ("positions", "log_search"):
        monkeypatch.setattr(f"flip27_stream.connectors.kafka.event_time.{module}.PROBE_BYTES", 100)
    with running(source(broker, subscribe=filled, startingOffsets="earliest")) as query:
        client = query.enumerator._client
        (split, *_) = query.context.splits.values()
        assert client.list_offsets({split.topic_partition: MAX_TIMESTAMP}, read_committed=False) == [{}]
        found = query.enumerator.event_time_positions(PositioningRequest(query.ranges()))
        assert found.event_times()[split.split_id] == EventTimes(100, 109)
