"""Fake brokers whose fetches, coordinators, sizes or throttle times cannot be right."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.kafka.client import answer_deadlines
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.connections import broker_connections
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.event_time import event_time_probe
from flip27_stream.connectors.kafka.fetching.broker_pauses import BrokerPauses
from flip27_stream.connectors.kafka.kafka_python.throttling import LONGEST_THROTTLE_MS
from flip27_stream.connectors.kafka.planning import group_coordinator
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.planning.group_offsets import GroupCommitter
from flip27_stream.connectors.kafka.split import LATEST
from flip27_stream.errors import UnreachableError
from tests.connectors.kafka.support import fake_cluster as fakes
from tests.connectors.kafka.support.coordinator_answers import committed_offset, coordinator
from tests.connectors.kafka.support.fake_cluster import FakeBroker, fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    BRIEF,
    FIRST,
    connected,
    ends,
    planning,
    until_heard,
)
from tests.connectors.kafka.support.kit import EnumeratorQuery

DAYS_MS = 5 * 24 * 3600 * 1000


@pytest.mark.usefixtures("quick")
def test_fetches_that_are_never_answered_fail_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader tells where its log ends and never answers a fetch. The query fails after as long as
    Spark's source tries.
    """
    monkeypatch.setattr(event_time_probe, "_TIME_LIMIT_S", 0.1)
    with fake_cluster() as cluster, planning(cluster, BRIEF) as query:
        cluster.brokers[1].silent_about.add("FetchRequest")
        with pytest.raises(UnreachableError, match=r"no answer about t-1 .*broker 2 at 127"):
            plan_for(query, 60)


def plan_for(query: EnumeratorQuery, seconds: float) -> None:
    """Plans with event times again and again, for some seconds. A leader that owes an answer is not
    asked for its log ends.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ranges = {i: span for i, span in query.ranges().items() if i == "t-1"}
        request = PositioningRequest(ranges)
        query.enumerator.event_time_positions(request).event_times()


def test_no_plan_waits_for_days_because_of_a_quota(
    unhurried: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_cluster(1) as cluster, connected(cluster) as client:
        wanted = {FIRST: FetchFrom(0, 100)}
        cluster.brokers[0].fetch_throttle_ms = DAYS_MS
        with caplog.at_level(logging.WARNING):
            assert client.fetch(wanted, read_committed=False, max_bytes=100).keys() == {FIRST}
        assert f"asks for no requests for {DAYS_MS} ms" in caplog.text
        assert client._cluster.connections.throttled_for(1) <= LONGEST_THROTTLE_MS / 1000
        monkeypatch.setattr(answer_deadlines, "FULL_S", 0.5)
        assert client.fetch(wanted, read_committed=False, max_bytes=100) == {}


def test_no_task_waits_for_days_because_of_a_quota(caplog: pytest.LogCaptureFixture) -> None:
    pauses = BrokerPauses(ConnectionOptions("127.0.0.1:1"))
    with caplog.at_level(logging.WARNING):
        pauses.answered(1, DAYS_MS)
    assert f"asks for no requests for {DAYS_MS} ms" in caplog.text
    assert 0 < pauses.throttled_until(1) - time.monotonic() <= LONGEST_THROTTLE_MS / 1000
    pauses.answered(1, -5)
    assert not pauses.is_paused(1)


def test_response_of_two_gigabytes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response claims two gigabytes over a connection that was good so far. The client drops it, and
    uses another connection.
    """
    answered, sizes = FakeBroker._answered, iter([2**31 - 1])

    def announcing(self: FakeBroker, body: bytes) -> bytes:
        whole = answered(self, body)
        is_offsets = struct.unpack_from(">h", body) == (ListOffsetsRequest.API_KEY,)
        size = next(sizes, None) if is_offsets else None
        return whole if size is None else struct.pack(">i", size) + whole[4:]

    monkeypatch.setattr(FakeBroker, "_answered", announcing)
    with fake_cluster(1) as cluster, connected(cluster, api_timeout_ms=2000) as client:
        until_heard(lambda: ends(client, cluster) == {FIRST})
        sizes = iter([2**31 - 1] * 1000)
        with pytest.raises(UnreachableError) as refused:
            client.offsets({FIRST: LATEST}, read_committed=False)
    said = str(refused.value)
    assert f"Invalid frame length: {2**31 - 1}" in said
    assert cluster.brokers[0].address in said
    assert str(broker_connections._LARGEST_RESPONSE) in said


@pytest.fixture
def coordinated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Makes each broker a coordinator with committed offset 5. A search for the coordinator gets
    the given error codes.
    """
    kinds = {FindCoordinatorRequest: 2, OffsetFetchRequest: 5, OffsetCommitRequest: 7}
    monkeypatch.setattr(fakes, "REQUESTS", (*fakes.REQUESTS, *kinds))
    monkeypatch.setattr(fakes, "VERSIONS", fakes.VERSIONS | kinds)

    def committed(self: FakeBroker, asked: Any) -> Any:
        return committed_offset(5)

    monkeypatch.setattr(FakeBroker, "_OffsetFetchRequest", committed, raising=False)

    def with_errors(error: Callable[[], int]) -> None:
        def find(self: FakeBroker, asked: Any) -> Any:
            return coordinator(self, error())

        monkeypatch.setattr(FakeBroker, "_FindCoordinatorRequest", find, raising=False)

    return with_errors


def test_a_coordinator_that_is_unknown_for_a_moment_is_asked_for_again(
    coordinated: Callable[[Callable[[], int]], None],
) -> None:
    """A coordinator search with UNKNOWN_SERVER_ERROR is repeated, as in Java's client, for a limited time."""
    codes = iter([-1, -1, 15])
    coordinated(lambda: next(codes, 0))
    with fake_cluster(1) as cluster, connected(cluster) as client:
        assert GroupCoordinator(client, "g").committed_offsets([FIRST]) == {FIRST: 5}
    coordinated(lambda: -1)
    with (
        fake_cluster(1) as cluster,
        connected(cluster, api_timeout_ms=1000) as client,
        pytest.raises(
            UnreachableError, match=r"coordinator of consumer group 'g' .* did not answer within 1 s"
        ),
    ):
        GroupCoordinator(client, "g").committed_offsets([FIRST])


def test_a_client_closes_although_its_coordinator_hangs(
    coordinated: Callable[[Callable[[], int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A committer is closed at once beside a coordinator that hangs. Its thread ends, too, and
    makes no new connection.
    """
    monkeypatch.setattr(group_coordinator, "_TRY_S", 0.2)
    coordinated(lambda: 0)
    with fake_cluster(1) as cluster:
        cluster.brokers[0].silent_about.add("OffsetCommitRequest")
        with closing(KafkaClient(ConnectionOptions(cluster.bootstrap_servers))) as client:
            committer = GroupCommitter(client, "g")
            committer.processed({FIRST: 5})
            assert not committer.flush(0.5)
            committer.close(0.0)
            assert isinstance(committer._worker, threading.Thread)
            committer._worker.join(60)
            assert not committer._worker.is_alive()
