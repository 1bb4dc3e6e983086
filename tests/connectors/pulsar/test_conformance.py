"""Pulsar through the conformance suite, on a real server: SX-01 to SX-08, CO-11, CO-25, alignment, replays.

The client reaches the server directly, or through a link that is slow and cuts connections.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.records.columns import SCHEMA
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import ExternalSystem, FaultyNetwork, PulsarServer, SourceConformanceSuite
from flip27_stream.testing.conformance.event_times import EventTimeChecks
from flip27_stream.testing.conformance.reading import ReadingChecks
from flip27_stream.testing.conformance.restarts import RestartChecks
from flip27_stream.testing.conformance.running import RunningChecks
from flip27_stream.testing.pulsar import skip_reason
from tests.connectors.pulsar.support.kit import QUICK
from tests.connectors.support.interruptions import interruptions
from tests.connectors.support.paused_server import EndlessLogs

pytestmark = pytest.mark.jvm

PARTITIONS = 6

_systems = itertools.count()


class PulsarPartitions(EndlessLogs):
    """A topic with a partition for each split. Each message has a publish time, and an event time in its value.

    Args:
        server: The server.
        strategy: How event time is found.
        reached: Options with which the source reaches the server; by default directly.
    """

    def __init__(
        self, server: PulsarServer, strategy: WatermarkStrategy, reached: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(server)
        self._server = server
        self._strategy = strategy
        self._reached = {"service.url": server.service_url} if reached is None else reached
        self._topic = f"conformance-{next(_systems)}"
        server.create_topic(self._topic, PARTITIONS)

    def _source(self, **more: str) -> PulsarSource:
        options = {
            **QUICK,
            "topic": self._topic,
            "pulsar.client.operationTimeoutMs": "2000",
            "pollTimeoutMs": "5000",
            **self._reached,
        }
        return PulsarSource({**options, **more}, self._strategy)

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """Writes few messages one by one, so that their publish times differ, and many messages in batches."""
        partition = f"{self._topic}-partition-{split}"
        written: list[Hashable] = []
        for first in range(0, len(times), 200):
            values = [b"{}" if t is None else b'{"t": %d}' % t for t in times[first : first + 200]]
            ids = self._server.put(partition, values, batch=1 if len(times) < 200 else 7)
            written += [(partition, *message_id) for message_id in ids]
        return written

    def identify(self, row: dict[str, Any]) -> Hashable:
        import pulsar

        found = pulsar.MessageId.deserialize(row["__messageId"])
        partition = row["__topic"].rpartition("/")[2]
        return partition, found.ledger_id(), found.entry_id(), found.batch_index()


@pytest.fixture(scope="module")
def network() -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running:
        yield running


@pytest.fixture(scope="module")
def own_server(network: FaultyNetwork) -> Iterator[PulsarServer]:
    """A server that only this module uses, because its tests pause it."""
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with PulsarServer(through=network.link) as running:
        yield running


class TestPublishTimes(SourceConformanceSuite):
    """The event time is the publish time, which the broker's index finds."""

    large_split = 5000
    gives_up_within_s = 60.0

    @pytest.fixture(autouse=True)
    def _uses(self, own_server: PulsarServer) -> None:
        self._server = own_server

    def create_system(self) -> ExternalSystem:
        return PulsarPartitions(self._server, self.strategy)

    def test_null_and_implausible_event_times(self) -> None:
        pytest.skip("every message has a publish time, which the client's clock gives")


class TestPulsarTimesInTheValue(EventTimeChecks):
    """The event time is in the value, where the source probes for it."""

    strategy = WatermarkStrategy().with_timestamp_assigner(
        timestamp_assigner("/t", SCHEMA, "scan.watermark.event-time", None, "value")
    )

    @pytest.fixture(autouse=True)
    def _uses(self, own_server: PulsarServer) -> None:
        self._server = own_server

    def create_system(self) -> ExternalSystem:
        return PulsarPartitions(self._server, self.strategy)


class TestPulsarBehindAFaultyNetwork(ReadingChecks, RestartChecks, EventTimeChecks, RunningChecks):
    """The checks run while answers come late and connections are cut, for which the name of the test is the seed."""

    large_split = 5000

    @pytest.fixture(autouse=True)
    def _faults(
        self, request: pytest.FixtureRequest, network: FaultyNetwork, own_server: PulsarServer
    ) -> Iterator[None]:
        self._server = own_server
        with network.playing(interruptions(request.node.name, network.links)):
            yield

    def create_system(self) -> ExternalSystem:
        long_timeouts = {"pulsar.client.operationTimeoutMs": "30000", "pollTimeoutMs": "30000"}
        return PulsarPartitions(self._server, self.strategy, {**self._server.options, **long_timeouts})

    def test_null_and_implausible_event_times(self) -> None:
        pytest.skip("event times are those of the class above")
