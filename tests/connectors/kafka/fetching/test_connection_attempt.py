"""Connections for fetches to several fake brokers are made at the same time."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any, cast

import pytest

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.fetching.connection_attempt import ConnectionAttempt
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.fetching.fetcher import Answer, Fetcher
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.testing import wait_until
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import FIRST, SECOND, connected


def send(fetcher: Fetcher, node: int, tp: TopicPartition) -> None:
    fetcher.send(node, {tp: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)


def answer(fetcher: Fetcher) -> Answer:
    found = fetcher.next_answer(30)
    assert found is not None
    return found


def test_a_broker_that_hangs_does_not_hold_up_the_others() -> None:
    """A broker that accepts its connection and sends nothing does not hold up the fetch from another broker."""
    with fake_cluster(2) as cluster, connected(cluster, connection_setup_timeout_ms=30_000) as client:
        client.topics(["t"])
        cluster.brokers[0].hang()
        with closing(Fetcher(client)) as fetcher:
            send(fetcher, 1, FIRST)
            send(fetcher, 2, SECOND)
            assert fetcher.partitions_in_flight() == {FIRST, SECOND}
            first = answer(fetcher)
            assert (first.partitions, bool(first.fetched)) == ((SECOND,), True)
            assert fetcher.is_busy(1)
            assert fetcher.partitions_in_flight() == {FIRST}
            fetcher.give_up()
            assert not fetcher.is_busy(1)


def test_a_connection_that_cannot_be_made_is_reported() -> None:
    with fake_cluster(2) as cluster, connected(cluster, connection_setup_timeout_ms=300) as client:
        client.topics(["t"])
        cluster.brokers[0].hang()
        with closing(Fetcher(client)) as fetcher:
            send(fetcher, 1, FIRST)
            assert answer(fetcher) == Answer((FIRST,), None)
            assert isinstance(fetcher.failure, TimeoutError)


class ClosableConnection:
    """A connection that can only be closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_connection_that_is_made_too_late_is_closed() -> None:
    made, may_end = ClosableConnection(), threading.Event()

    def make() -> Any:
        assert may_end.wait(30)
        return made

    attempt = ConnectionAttempt(make)
    attempt.abandon()
    may_end.set()
    wait_until(lambda: made.is_closed, "its end", 30)


def test_a_connection_is_made_in_the_caller_s_thread_if_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    made = ClosableConnection()
    attempt = ConnectionAttempt(lambda: cast(FetchConnection, made))
    assert attempt.is_over
    assert attempt.take() is cast(object, made)
