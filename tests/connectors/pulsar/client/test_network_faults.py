"""Pulsar behind a network that refuses, falls silent, cuts connections or is slow, and a Pulsar server that dies."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import FaultyNetwork, Link, PulsarServer
from flip27_stream.testing.pulsar import skip_reason
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import QUICK, counted, numbers
from tests.connectors.support.outages import OUTAGES, check_outage, rows_over_bad_link

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def network() -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running:
        yield running


@pytest.fixture(scope="module")
def linked(network: FaultyNetwork) -> Iterator[PulsarServer]:
    """A server whose clients come through a link. A test may kill it."""
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with PulsarServer(through=network.link) as running:
        yield running


@pytest.fixture
def link(network: FaultyNetwork, linked: PulsarServer) -> Iterator[Link]:
    yield network.links["pulsar"]
    network.heal()


def behind(server: PulsarServer, topic: str, **more: str) -> PulsarSource:
    return PulsarSource({**server.options, **QUICK, "topic": topic, **more})


class MessagesPastLink:
    """Puts numbered messages past the link, into two partitions."""

    def __init__(self, server: PulsarServer, topic: str) -> None:
        self._server, self._topic, self.count = server, topic, 0
        server.create_topic(topic, 2)

    def __call__(self, count: int) -> Sequence[bytes]:
        values = numbers(self.count, count)
        for number in range(2):
            self._server.put(f"{self._topic}-partition-{number}", values[number::2])
        self.count += count
        return values


@pytest.mark.parametrize("fault", OUTAGES)
def test_outages_are_named_and_lose_nothing(linked: PulsarServer, topic: str, link: Link, fault: str) -> None:
    put = MessagesPastLink(linked, topic)
    timeouts = {"pulsar.client.operationTimeoutMs": "2000", "pollTimeoutMs": "2000"}
    source, impatient = behind(linked, topic), behind(linked, topic, **timeouts)
    check_outage(link, OUTAGES[fault], source, impatient, put, lambda row: row["value"])


def test_slow_and_cut_connections_lose_no_message(linked: PulsarServer, topic: str, link: Link) -> None:
    """Answers come late, and connections are cut again and again. Every message comes once, without an error."""
    put = MessagesPastLink(linked, topic)
    with SourceQuery(behind(linked, topic, maxRecordsPerTrigger="7")) as query:
        rows = rows_over_bad_link(query, link, put)
        rows += query.run(put.count - len(rows))
    assert counted(rows) == Counter(numbers(0, put.count))


def test_a_query_goes_on_after_the_server_restarts(linked: PulsarServer, topic: str) -> None:
    """The server keeps messages and their ids. The query waits for the server, and a planned range
    has the same messages.
    """
    put = MessagesPastLink(linked, topic)
    put(20)
    long_timeouts = {"pulsar.client.operationTimeoutMs": "60000", "pollTimeoutMs": "60000"}
    with SourceQuery(behind(linked, topic, **long_timeouts)) as query:
        rows = query.run(20)
        put(10)
        batch = query.wait_for_batch()
        linked.kill()
        restarting = threading.Timer(0.5, linked.restart)
        restarting.start()
        rows += query.read_all(*batch)
        restarting.join()
        query.offset = batch[1]
        put(10)
        rows += query.run(10)
    assert counted(rows) == Counter(numbers(0, 40))
