"""Kinesis through the conformance suite, on an emulator: SX-01 to SX-08, CO-11, CO-25, alignment, replays.

The client reaches the emulator directly, or through a link that is slow and cuts connections.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import ExternalSystem, FaultyNetwork, KinesisServer, SourceConformanceSuite
from flip27_stream.testing.conformance.event_times import EventTimeChecks
from flip27_stream.testing.conformance.reading import ReadingChecks
from flip27_stream.testing.conformance.restarts import RestartChecks
from flip27_stream.testing.conformance.running import RunningChecks
from flip27_stream.testing.kinesis import skip_reason
from tests.connectors.support.interruptions import interruptions
from tests.connectors.support.paused_server import EndlessLogs

pytestmark = pytest.mark.node

SHARDS = 6
SETTLED = 100
"""The end of a shard that had more records of late is looked for before its settling time."""

_systems = itertools.count()


class KinesisShards(EndlessLogs):
    """A stream with a shard for each split. The event time is the time of arrival, or a time in the data.

    Args:
        server: The emulator.
        strategy: How event time is found.
        reached: Options with which the source reaches the emulator, where it does not do so directly.
    """

    def __init__(
        self, server: KinesisServer, strategy: WatermarkStrategy, reached: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(server)
        self._server = server
        self._strategy = strategy
        self._reached = reached or {}
        self._stream = f"conformance-{next(_systems)}"
        server.create_stream(self._stream, SHARDS)

    def _source(self, **more: str) -> KinesisSource:
        options = {
            **self._server.options,
            "streamName": self._stream,
            "initialPosition": "trim_horizon",
            "shardFetchInterval": "100 ms",
            "minFetchPeriod": "0",
            "maxFetchRate": "2.0",
            "maxRecordsPerFetch": "200",
            "requestTimeout": "10 s",
            "settlingTime": "50 ms",
            **self._reached,
        }
        return KinesisSource({**options, **more}, self._strategy)

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """Writes in small calls, because the records of one call arrive in the same millisecond."""
        written: list[Hashable] = []
        step = 8 if len(times) < SETTLED else 100
        for first in range(0, len(times), step):
            data = [b"{}" if t is None else b'{"t": %d}' % t for t in times[first : first + step]]
            written += self._server.put(self._stream, [(split, value) for value in data])
            time.sleep(0.002)
        if len(times) > SETTLED:
            time.sleep(0.1)
        return written

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["shardId"], row["sequenceNumber"]

    def close(self) -> None:
        super().close()
        self._server.delete_stream(self._stream)


@pytest.fixture(scope="module")
def own_server() -> Iterator[KinesisServer]:
    """A server that only this module uses, because its tests pause it."""
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with KinesisServer() as running:
        yield running


class TestArrivalTimes(SourceConformanceSuite):
    """The event time is the time of arrival, which the service's index finds."""

    large_split = 500
    gives_up_within_s = 30.0

    @pytest.fixture(autouse=True)
    def _uses(self, own_server: KinesisServer) -> None:
        self._server = own_server

    def create_system(self) -> ExternalSystem:
        return KinesisShards(self._server, self.strategy)

    def test_null_and_implausible_event_times(self) -> None:
        pytest.skip("every record has a time of arrival, which the service's clock gives")


class TestTimesInTheData(EventTimeChecks):
    """The event time is in the data, where the service cannot find it. Shards are paused by reports (FLIP-217)."""

    strategy = WatermarkStrategy().with_timestamp_assigner(
        timestamp_assigner(
            "/t", KinesisSource({"streamName": "any"}).schema, "scan.watermark.event-time", None, "data"
        )
    )

    @pytest.fixture(autouse=True)
    def _uses(self, own_server: KinesisServer) -> None:
        self._server = own_server

    def create_system(self) -> ExternalSystem:
        return KinesisShards(self._server, self.strategy)


@pytest.fixture(scope="module")
def network(own_server: KinesisServer) -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running:
        running.link("kinesis", own_server.address)
        yield running


class TestKinesisBehindAFaultyNetwork(ReadingChecks, RestartChecks, EventTimeChecks, RunningChecks):
    """The checks run while answers come late and connections are cut, for which the name of the test is the seed."""

    large_split = 500

    @pytest.fixture(autouse=True)
    def _faults(
        self, request: pytest.FixtureRequest, network: FaultyNetwork, own_server: KinesisServer
    ) -> Iterator[None]:
        self._server = own_server
        self._endpoint = f"http://{network.links['kinesis'].address}"
        with network.playing(interruptions(request.node.name, network.links)):
            yield

    def create_system(self) -> ExternalSystem:
        reached = {"endpoint": self._endpoint, "requestTimeout": "30 s"}
        return KinesisShards(self._server, self.strategy, reached)

    def test_null_and_implausible_event_times(self) -> None:
        pytest.skip("event times are those of the class above")

    def test_limits_of_the_source(self) -> None:
        pytest.skip("it takes half a minute; client/test_network_faults.py has a limit behind such faults")
