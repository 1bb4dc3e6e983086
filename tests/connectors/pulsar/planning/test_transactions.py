"""Messages of transactions: aborted ones are never read, open ones hold what follows, markers are no messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_stream.testing import PulsarServer
from flip27_stream.testing.pulsar import skip_reason
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.java_client import Transactions, transactions
from tests.connectors.pulsar.support.kit import numbers, source_of

pytestmark = pytest.mark.jvm

QUICK = {"pulsar.client.operationTimeoutMs": "6000"}
"""The first look at a hidden last entry waits as long as an operation may take."""

SETTINGS = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true"}


@pytest.fixture(scope="module")
def transactional() -> Iterator[tuple[PulsarServer, Transactions]]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with PulsarServer(SETTINGS) as server, transactions(server) as java:
        yield server, java


def test_only_committed_messages_are_read(
    transactional: tuple[PulsarServer, Transactions], topic: str
) -> None:
    """The last entry of the partition may be a marker or an aborted message."""
    server, java = transactional
    server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    with SourceQuery(source_of(server, topic, **QUICK)) as query:
        java.begin(partition, numbers(0, 3)).commit().get()
        assert [row["value"] for row in query.run(3)] == numbers(0, 3)
        java.begin(partition, [b"never"] * 2).abort().get()
        assert query.step() == []
        server.put(partition, numbers(3, 2))
        java.begin(partition, [b"never"] * 2).abort().get()
        assert [row["value"] for row in query.run(2)] == numbers(3, 2)
        offset = query.offset
    java.begin(partition, numbers(5, 4)).commit().get()
    with SourceQuery(source_of(server, topic, maxRecordsPerTrigger="3", **QUICK), offset) as resumed:
        assert [row["value"] for row in resumed.run(4)] == numbers(5, 4)
    with SourceQuery(source_of(server, topic, **QUICK)) as again:
        assert [row["value"] for row in again.run(9)] == numbers(0, 9)


def test_messages_after_an_open_transaction_wait(
    transactional: tuple[PulsarServer, Transactions], topic: str
) -> None:
    server, java = transactional
    server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    server.put(partition, [b"0"])
    opened = java.begin(partition, [b"1"])
    server.put(partition, [b"2"])
    with SourceQuery(source_of(server, topic, **QUICK)) as query:
        rows = query.run(1)
        assert query.step() == []
        opened.commit().get()
        rows += query.run(2)
    assert [row["value"] for row in rows] == numbers(0, 3)


def test_a_batch_read_reads_all_messages_before_an_aborted_transaction(
    transactional: tuple[PulsarServer, Transactions], topic: str
) -> None:
    """The messages are more than one look reads."""
    server, java = transactional
    server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    server.put(partition, numbers(0, 6000))
    java.begin(partition, [b"never"]).abort().get()
    with SourceQuery(source_of(server, topic, **QUICK)) as query:
        assert [row["value"] for row in query.read_batch()] == numbers(0, 6000)
