"""Brokers, and servers in their place, that give answers which no broker should give: no client
hangs, loops or is silent.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client import answer_deadlines, calls
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom, TopicMetadata
from flip27_stream.connectors.kafka.connections import diagnosis
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching import fetcher, fetcher_pool
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import AuthenticationError, ConnectorError, UnreachableError
from tests.connectors.kafka.support import fake_cluster as fakes
from tests.connectors.kafka.support.batch_bytes import some_rows, v2
from tests.connectors.kafka.support.coordinator_answers import committed_offset, coordinator
from tests.connectors.kafka.support.fake_cluster import FakeBroker, FakeCluster, fake_cluster
from tests.connectors.kafka.support.fetch_server import (
    OPTIONS,
    TP,
    OneBrokerClient,
    fetch,
    fetching,
    frame,
    records,
    response,
)
from tests.connectors.kafka.support.kit import read

FIRST = TopicPartition("t", 0)
NO_SECURITY = SecurityOptions()

Change = Callable[[Any], object]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_deadlines, "FULL_S", 60.0)
    monkeypatch.setattr(answer_deadlines, "_GLANCE_S", 60.0)
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 0.3)
    monkeypatch.setattr(diagnosis, "_TIME_LIMIT_S", 0.3)


@contextmanager
def connected(
    cluster: FakeCluster, security: SecurityOptions = NO_SECURITY, timeout_ms: int = 60_000
) -> Iterator[KafkaClient]:
    given = ConnectionOptions(
        cluster.bootstrap_servers,
        first_contact_timeout_ms=timeout_ms,
        api_timeout_ms=timeout_ms,
        security=security,
    )
    with closing(KafkaClient(given)) as client:
        yield client


def change(monkeypatch: pytest.MonkeyPatch, request: str, by: Change) -> None:
    """Changes each response to a kind of request before it is sent."""
    answer = getattr(FakeBroker, f"_{request}")

    def changed(self: FakeBroker, asked: Any) -> Any:
        made = answer(self, asked)
        by(made)
        return made

    monkeypatch.setattr(FakeBroker, f"_{request}", changed)


@contextmanager
def addresses(monkeypatch: pytest.MonkeyPatch, port: int) -> Iterator[None]:
    """Gives each host two addresses, of which the first one never takes a connection."""
    with closing(socket.create_server(("127.0.0.2", 0), backlog=0)) as full:
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", where)
            for where in (full.getsockname(), ("127.0.0.1", port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        try:
            yield
        finally:
            for each in waiting:
                each.close()


def test_a_host_is_reached_although_one_address_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"abc")))

    options = replace(OPTIONS, connection_setup_timeout_ms=3000)
    with fetching(serve, options) as (server, made), addresses(monkeypatch, server.port):
        assert records(fetch(made)) == b"abc"


def test_host_with_an_address_that_takes_connections_and_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has an address that accepts connections and is silent. The next attempt begins with
    the other address.
    """

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"abc")))

    options = replace(OPTIONS, connection_setup_timeout_ms=1500)
    with (
        closing(socket.create_server(("127.0.0.2", 0))) as silent,
        fetching(serve, options) as (server, made),
    ):
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", where)
            for where in (silent.getsockname(), ("127.0.0.1", server.port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        assert fetch(made).fetched is None
        assert records(fetch(made)) == b"abc"


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
def test_name_that_no_host_can_have(host: str) -> None:
    cluster = OneBrokerClient(9, OPTIONS)
    cluster.endpoint = lambda node: (host, 9)  # type: ignore[method-assign]
    with closing(fetcher.Fetcher(cluster)) as made:  # type: ignore[arg-type]
        assert fetch(made).fetched is None
        assert host in str(made.failure)


def test_a_broker_is_found_at_its_new_address() -> None:
    """A connection to the old address of a broker is not used any more, though it is open: another
    broker may be behind it.
    """

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"old")))

    def serve_now(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"new")))

    with fetching(serve) as (_, made), fetching(serve_now) as (now, _):
        assert records(fetch(made)) == b"old"
        made.client.port = now.port  # type: ignore[attr-defined]
        assert records(fetch(made)) == b"new"


def trickle(connection: socket.socket, request: bytes) -> None:
    with suppress(OSError):
        for byte in frame(request, response(v2(some_rows(4)))):
            connection.sendall(bytes([byte]))
            time.sleep(0.05)


def test_a_response_of_single_bytes_is_given_up() -> None:
    """An answer that comes a byte now and then is given up, or a task would wait for days."""
    with fetching(trickle, replace(OPTIONS, request_timeout_ms=300)) as (_, made):
        assert fetch(made).fetched is None
        assert "no answer for 0.3 s" in str(made.failure)


def test_replicas_that_name_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas that name each other are asked with pauses, and given up in the end."""
    asked = itertools.count()

    def serve(connection: socket.socket, request: bytes) -> None:
        next(asked)
        connection.sendall(frame(request, response(b"", preferred_read_replica=1)))

    there = TopicMetadata("", internal=False, leaders={TP.partition: 1})
    with fetching(serve) as (_, made):
        made.client.leaders = lambda partitions: dict.fromkeys(partitions, 1)  # type: ignore[method-assign]
        made.client.forget_leaders = lambda partitions: None  # type: ignore[method-assign]
        made.client.address = lambda node: "broker 1"  # type: ignore[method-assign]
        made.client.topics = lambda *_: {TP.topic: there}  # type: ignore[method-assign]
        made.client.list_offsets = lambda *_, **__: [{}, {}]  # type: ignore[method-assign]
        monkeypatch.setattr(fetcher_pool.FETCHERS, "borrow", lambda _: made)
        given = {
            "kafka.bootstrap.servers": "unused:1",
            "subscribe": "t",
            "kafkaConsumer.pollTimeoutMs": "1000",
        }
        with pytest.raises(ConnectorError, match="sent no records"):
            read(KafkaSource(given, None), KafkaPartitionSplit(*TP, 5, 9))
    assert next(asked) < 100


def test_a_broker_that_refuses_every_version_of_api_versions_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = itertools.count()

    def refuse(answer: Any) -> None:
        next(asked)
        answer.error_code = 35

    change(monkeypatch, "ApiVersionsRequest", refuse)
    with (
        fake_cluster(1) as cluster,
        connected(cluster, timeout_ms=1000) as client,
        pytest.raises(UnreachableError, match="does not send the versions"),
    ):
        client.topics(["t"])
    assert next(asked) < 100


@pytest.mark.parametrize("error", [-1, 7])
def test_whole_fetch_that_a_leader_cannot_answer_now(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """An error of a whole fetch becomes the error of each partition, so that the planner knows it."""
    change(monkeypatch, "FetchRequest", lambda answer: refuse_all(answer, error))
    with fake_cluster(1) as cluster, connected(cluster) as client:
        found = client.fetch({FIRST: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)
        assert {tp: at.error for tp, at in found.items()} == {FIRST: error}


def test_whole_fetch_that_a_leader_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, "FetchRequest", lambda answer: refuse_all(answer, 31))
    with (
        fake_cluster(1) as cluster,
        connected(cluster) as client,
        pytest.raises(ConnectorError, match=r"refused a fetch by broker 1.*ClusterAuthorizationFailed"),
    ):
        client.fetch({FIRST: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)


def refuse_all(answer: Any, error: int) -> None:
    answer.error_code, answer.responses = error, []


@pytest.mark.parametrize("error", [-1, 7, 56, 72])
def test_a_topic_that_a_broker_does_not_know_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Metadata of a topic is asked for again after such an error, as by Java's client. If the error stays, the
    client's error names the topic.
    """
    codes: Iterator[int] = itertools.chain([error, error], itertools.repeat(0))
    change(monkeypatch, "MetadataRequest", lambda answer: spoil(answer, codes))
    with fake_cluster(1) as cluster, connected(cluster) as client:
        assert client.topics(["t"]).keys() == {"t"}
        codes = itertools.repeat(error)
        with pytest.raises(UnreachableError, match=r"No Kafka broker returned metadata of all topics.*'t': "):
            client.topics(["t"], 1000)


def spoil(answer: Any, codes: Iterator[int]) -> None:
    for topic in answer.topics:
        topic.error_code = next(codes)


def test_broker_that_closes_each_connection_after_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response and the end of the connection come together. The response counts."""

    def serve(self: FakeBroker, connection: socket.socket) -> None:
        with closing(connection), suppress(OSError, struct.error):
            kind = ApiVersionsRequest.API_KEY
            while kind == ApiVersionsRequest.API_KEY:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                body = connection.recv(size, socket.MSG_WAITALL)
                (kind,) = struct.unpack_from(">h", body)
                connection.sendall(self._answered(body))

    monkeypatch.setattr(FakeBroker, "_serve", serve)
    with fake_cluster(1) as cluster, connected(cluster) as client:
        both = client.list_offsets({FIRST: LATEST}, {FIRST: EARLIEST}, read_committed=False)
        assert [found.keys() for found in both] == [{FIRST}, {FIRST}]


WITH_SASL = SecurityOptions("SASL_PLAINTEXT", sasl=PasswordCredentials("PLAIN", "user", "hush-hush"))


@pytest.mark.parametrize("request_", ["SaslHandshakeRequest", "SaslAuthenticateRequest"])
@pytest.mark.parametrize("error", [-1, 7])
def test_a_broker_that_cannot_check_credentials_now_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, request_: str, error: int
) -> None:
    """A broker that cannot check credentials now says nothing about the password, so planning and fetching connect
    again, as Java's client does.
    """
    codes: Iterator[int] = itertools.chain([error] * 3, itertools.repeat(0))
    change(monkeypatch, request_, lambda answer: setattr(answer, "error_code", next(codes)))
    with fake_cluster(1) as cluster, connected(cluster, security=WITH_SASL) as client:
        assert client.topics(["t"]).keys() == {"t"}
        codes = iter([error])
        with closing(fetcher.Fetcher(OneBrokerClient(cluster.brokers[0].port, client.options))) as made:  # type: ignore[arg-type]
            assert fetch(made).fetched is None
            assert "could not check the credentials" in str(made.failure)


def test_a_leader_that_speaks_no_sasl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, "ApiVersionsRequest", forget_sasl)
    with fake_cluster(1) as cluster:
        options = ConnectionOptions(cluster.bootstrap_servers, security=WITH_SASL)
        made = fetcher.Fetcher(OneBrokerClient(cluster.brokers[0].port, options))  # type: ignore[arg-type]
        with closing(made), pytest.raises(AuthenticationError, match="supports no SASL"):
            fetch(made)


def forget_sasl(answer: Any) -> None:
    answer.api_keys = [each for each in answer.api_keys if each.api_key not in (17, 36)]


@pytest.mark.parametrize("byte", [b"\xff", b"\0"])
def test_response_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, byte: bytes) -> None:
    """A response that cannot be read closes its connection. The broker is heard over the next
    one in the same round.
    """
    answered = FakeBroker._answered
    spoilt = iter([True])

    def garbage(self: FakeBroker, body: bytes) -> bytes:
        whole = answered(self, body)
        is_offsets = struct.unpack_from(">h", body) == (ListOffsetsRequest.API_KEY,)
        return whole[:8] + byte * (len(whole) - 8) if is_offsets and next(spoilt, False) else whole

    monkeypatch.setattr(FakeBroker, "_answered", garbage)
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 60.0)
    with fake_cluster(1) as cluster, connected(cluster) as client:
        assert client.list_offsets({FIRST: LATEST}, read_committed=False)[0].keys() == {FIRST}


def test_a_web_server_in_place_of_a_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server's answer begins with ``HTTP``, which is no size of a response. The client does
    not read so many bytes.
    """

    def answer(self: FakeBroker, body: bytes) -> bytes:
        return b"HTTP/1.1 400 Bad Request\r\n\r\n"

    monkeypatch.setattr(FakeBroker, "_answered", answer)
    with (
        fake_cluster(1) as cluster,
        connected(cluster, timeout_ms=1000) as client,
        pytest.raises(UnreachableError, match="Invalid frame length: 1213486160"),
    ):
        client.topics(["t"])


def test_a_coordinator_that_joined_the_cluster_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator joined the cluster after the client's first contact, and the client finds its address."""
    monkeypatch.setattr(fakes, "REQUESTS", (*fakes.REQUESTS, FindCoordinatorRequest, OffsetFetchRequest))
    more = {FindCoordinatorRequest: 2, OffsetFetchRequest: 5}
    monkeypatch.setattr(fakes, "VERSIONS", fakes.VERSIONS | more)
    with fake_cluster(1) as cluster, connected(cluster) as client:
        client.topics(["t"])
        new = FakeBroker(cluster, 7, None)
        cluster.brokers.append(new)

        def find(self: FakeBroker, asked: Any) -> Any:
            return coordinator(new)

        def committed(self: FakeBroker, asked: Any) -> Any:
            assert self is new
            return committed_offset(5)

        monkeypatch.setattr(FakeBroker, "_FindCoordinatorRequest", find, raising=False)
        monkeypatch.setattr(FakeBroker, "_OffsetFetchRequest", committed, raising=False)
        assert GroupCoordinator(client, "g").committed_offsets([FIRST]) == {FIRST: 5}
