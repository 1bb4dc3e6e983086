"""The client while brokers are away: its errors, and that it goes on when the brokers are back."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.split import LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.kafka.node import answers_api_versions
from tests.connectors.kafka.support.kit import EnumeratorQuery, read, running, source

TP = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def _no_socket_is_left_open() -> Iterator[None]:
    """Collects garbage after each test: a socket that is left open causes a warning, which is an error here."""
    yield
    gc.collect()


def test_an_unreachable_address_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The error names the address, the time tried and the cause; kafka-python's own log stays off stderr."""
    client = KafkaClient(ConnectionOptions("127.0.0.1:1", first_contact_timeout_ms=1000))
    with pytest.raises(
        UnreachableError, match=r"answered at 127.0.0.1:1 within 1 s \(.*ECONNREFUSED\)\. Check"
    ):
        client.topics(["t"])
    client.close()
    assert capfd.readouterr().err == ""


def test_no_level_of_a_logger_changes() -> None:
    assert logging.getLogger("kafka").level == logging.NOTSET


@pytest.fixture(scope="module")
def _own_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running_broker:
        running_broker.create_topic("t")
        running_broker.write("t", [(0, i, None, b"v") for i in range(10)])
        yield running_broker


@pytest.fixture
def own_broker(_own_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """A broker that a test may freeze and kill. One that does not answer after a test is started again."""
    yield _own_broker
    host, _, port = _own_broker.bootstrap_servers.partition(":")
    if not answers_api_versions(host, int(port)):
        _own_broker.restart()


def wait_for_the_end(query: EnumeratorQuery) -> None:
    """Waits until a plan has the end of the partition. A broker that has just started may need some time."""

    def is_known() -> bool:
        with suppress(UnreachableError, KeyError):
            return query.ranges()["t-0"].end == 10
        return False

    wait_until(is_known, "the end of the partition", 60)


@pytest.mark.jvm
def test_a_frozen_or_killed_broker_is_unreachable_and_comes_back(own_broker: KafkaBroker) -> None:
    """A frozen or killed broker is unreachable after the given time. When it is back, plans have the end again."""
    quick = {
        "kafka.default.api.timeout.ms": "2000",
        "kafka.request.timeout.ms": "1000",
        "fetchOffset.numRetries": "1",
    }
    made = source(own_broker, quick, subscribe="t", startingOffsets="earliest")
    with running(made) as query:
        wait_for_the_end(query)
        query.move_to_ends()
        own_broker.pause()
        with pytest.raises(
            UnreachableError, match=r"no answer about t-0 for .* broker 1 at .* did not answer"
        ):
            wait_until(lambda: bool(query.ranges()), "an answer of the frozen broker", 30)
        own_broker.resume()
        wait_for_the_end(query)
        own_broker.kill()
        with pytest.raises(UnreachableError, match=r"no answer about t-0 for .*broker 1 at"):
            wait_until(lambda: bool(query.ranges()), "an answer of the killed broker", 30)
        own_broker.restart()
        wait_for_the_end(query)


@pytest.mark.jvm
def test_a_task_waits_for_a_frozen_broker_up_to_its_time_limit(own_broker: KafkaBroker) -> None:
    """A task waits for a frozen broker for ``kafkaConsumer.pollTimeoutMs``. The error names the option, broker,
    partition and offset.
    """
    made = source(own_broker, {"kafkaConsumer.pollTimeoutMs": "1000"}, subscribe="t")

    def is_read() -> bool:
        with suppress(ConnectorError):
            return read(made, KafkaPartitionSplit("t", 0, 0, 5)).column("offset") == list(range(5))
        return False

    wait_until(is_read, "the first records", 60)
    own_broker.pause()
    try:
        with pytest.raises(ConnectorError) as caught:
            read(made, KafkaPartitionSplit("t", 0, 5, 10))
    finally:
        own_broker.resume()
    said = str(caught.value)
    assert (
        f"The leader of t-0, broker 1 at {own_broker.bootstrap_servers}, sent no records at offset 5" in said
    )
    assert "'kafkaConsumer.pollTimeoutMs'" in said


@pytest.mark.jvm
def test_reader_goes_on_after_a_restart(own_broker: KafkaBroker) -> None:
    """A task waits for a broker that is down. A kept connection to the broker before its restart does no harm."""
    made = source(own_broker, subscribe="t")
    split = KafkaPartitionSplit("t", 0, 0, 10)
    assert read(made, split).column("offset") == list(range(10))
    own_broker.kill()
    back = threading.Timer(0.5, own_broker.restart)
    back.start()
    try:
        assert read(made, split).column("offset") == list(range(10))
    finally:
        back.join()


@pytest.mark.jvm
def test_silent_leader_is_left_out(own_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that does not answer in time is missing from offsets and fetches, and is no error."""
    client = KafkaClient(ConnectionOptions(own_broker.bootstrap_servers))

    def wait_for_the_latest_offset() -> None:
        def is_known() -> bool:
            (found,) = client.list_offsets({TP: LATEST}, read_committed=False)
            return TP in found and found[TP].offset == 10

        wait_until(is_known, "the answer of the leader", 60)

    try:
        wait_for_the_latest_offset()
        monkeypatch.setattr("flip27_stream.connectors.kafka.client.answer_deadlines.FULL_S", 0.5)
        own_broker.pause()
        assert client.list_offsets({TP: LATEST}, read_committed=False) == [{}]
        assert client.fetch({TP: FetchFrom(0, 1000)}, read_committed=False, max_bytes=1000) == {}
        own_broker.resume()
        wait_for_the_latest_offset()
    finally:
        client.close()
