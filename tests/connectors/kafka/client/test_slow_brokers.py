"""The planner's client with brokers that are silent, slow or throttle it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    ALL,
    FIRST,
    SECOND,
    THIRD,
    connected,
    end_of_second,
    ends,
    full_waits,
    until_heard,
)


@pytest.mark.usefixtures("quick")
def test_silent_broker_is_not_asked_for_metadata_again(try_first: Callable[[int], None]) -> None:
    """A client asks another broker for metadata while one of them has not answered."""
    with fake_cluster() as cluster, connected(cluster) as client:
        try_first(0)
        client.topics(["t"])
        silent = cluster.brokers[0]
        silent.silent_about.add("MetadataRequest")
        assert client.any_node() == silent.node
        client.topics(["t"])
        until_heard(lambda: client.any_node() != silent.node)

        def others_are_asked() -> bool:
            before = silent.requests["MetadataRequest"]
            for _ in range(5):
                assert client.topics(["t"]).keys() == {"t"}
            return silent.requests["MetadataRequest"] == before

        until_heard(others_are_asked)  # on a busy machine a healthy broker may miss its turn


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("late", [False, True])
def test_slow_broker_is_heard_again_after_a_miss(late: bool) -> None:
    """A broker is heard again that is slower than a short wait, than a prompt answer, and than a full wait. Each has
    a cluster of its own, and all run at once.
    """
    delays_s = [0.06, 0.4, 1.2]
    with ThreadPoolExecutor(len(delays_s)) as pool:
        assert len([*pool.map(lambda delay_s: hear_after_a_miss(delay_s, late=late), delays_s)]) == 3


def hear_after_a_miss(delay_s: float, *, late: bool) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster, late=late) == ALL)
        slow = cluster.brokers[1]
        slow.freeze()
        for _ in range(2):
            assert SECOND not in ends(client, cluster, late=late)
        slow.delay_s = delay_s
        slow.resume()
        for _ in range(2):
            until_heard(lambda: SECOND in ends(client, cluster, late=late))


@pytest.mark.usefixtures("quick")
def test_broker_that_is_always_slow_does_not_hold_every_round(waits: dict[float, float]) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].delay_s = 0.8
        waits.clear()
        for _ in range(2):
            until_heard(lambda: SECOND in ends(client, cluster))
        for _ in range(12):
            ends(client, cluster)
        assert len(waits) - full_waits(waits) >= 6


@pytest.mark.usefixtures("quick")
def test_a_frozen_broker_costs_short_waits_and_few_requests(waits: dict[float, float]) -> None:
    """A frozen broker costs short waits and few requests, also in rounds of searches, whose late
    answers are of no use.
    """
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        waits.clear()
        began, metadata = time.monotonic(), cluster.requests("MetadataRequest")
        for _ in range(6):
            assert SECOND not in ends(client, cluster)
            assert client.list_offsets({SECOND: 5}, read_committed=False) == [{}]
            assert client.fetch({SECOND: FetchFrom(0, 100)}, read_committed=False, max_bytes=100) == {}
        took = time.monotonic() - began
        assert full_waits(waits) <= 2
        assert cluster.requests("MetadataRequest") - metadata <= 12 + 2 * took
        cluster.brokers[1].resume()
        tries = until_heard(lambda: ends(client, cluster) == ALL)
        # Requests without an answer did not pile up.
        assert cluster.brokers[1].requests["ListOffsetsRequest"] < 8 + took + tries


@pytest.mark.usefixtures("quick")
def test_a_late_answer_is_marked_and_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes after its round is marked as late, for it is an end of some time ago.
    It is taken only once.
    """
    monkeypatch.setattr("flip27_stream.connectors.kafka.client.offset_round.FULL_S", 0.3)
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        assert SECOND not in ends(client, cluster)
        cluster.brokers[1].resume()
        answer = end_of_second(client)
        assert (answer.offset, answer.late) == (100, True)
        monkeypatch.setattr("flip27_stream.connectors.kafka.client.offset_round.FULL_S", 60.0)
        cluster.ends[SECOND] = 120
        answer = end_of_second(client)
        assert (answer.offset, answer.late) == (120, False)


@pytest.mark.usefixtures("quick")
def test_a_late_answer_is_not_taken_where_a_current_one_is_needed() -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        assert SECOND not in ends(client, cluster)
        cluster.ends[SECOND] = 120
        cluster.brokers[1].resume()
        assert client.end_offsets([SECOND], read_committed=False) == {SECOND: 120}
        cluster.ends[SECOND] = 130
        assert end_of_second(client).offset == 130


@pytest.mark.usefixtures("unhurried")
def test_a_throttled_client_sends_no_request_before_the_time_is_over() -> None:
    """A throttled client sends no request before the time is over, and does not take the broker for a silent one."""
    with fake_cluster(1) as cluster, connected(cluster) as client:
        cluster.brokers[0].throttle_ms = 300
        for _ in range(4):
            assert ends(client, cluster, late=False) == {FIRST}
        assert cluster.brokers[0].too_early == 0
