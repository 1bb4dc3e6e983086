"""Fetches over sockets: brokers that are slow, silent, cut off or no brokers at all, by a server made for it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from flip27_stream.connectors.kafka.client_pool import FetcherPool
from flip27_stream.connectors.kafka.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetch_responses import VERSIONS, read_fetch_response
from flip27_stream.connectors.kafka.fetcher import Answer, Fetcher
from flip27_stream.connectors.kafka.protocol import Fetched, FetchFrom
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError
from tests.module_time import replace_time

TP = TopicPartition("t", 3)
OPTIONS = ConnectionOptions("unused:1", request_timeout_ms=10_000)

Serve = Callable[[socket.socket, bytes], None]


def response(records: bytes | None, version: int = 11, error: int = 0, **partition: Any) -> bytes:
    """The body of a response about one partition, by kafka-python."""
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData(
        partition_index=TP.partition,
        error_code=error,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=7,
        records=records,
        **{"aborted_transactions": [], "preferred_read_replica": -1, **partition},
    )
    answer = FetchResponse(
        throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic=TP.topic, partitions=[data])]
    )
    return bytes(answer.encode(version=version))


def frame(request: bytes, body: bytes) -> bytes:
    """With the request's correlation id."""
    return struct.pack(">i", 4 + len(body)) + request[4:8] + body


class Cluster:
    """In the place of KafkaClient: one broker, the server."""

    def __init__(self, port: int, options: ConnectionOptions) -> None:
        self.port, self.options, self.closed = port, options, False

    def version_of(self, request: Any, at_most: int) -> int:
        return at_most

    def endpoint(self, node: int) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def close(self) -> None:
        self.closed = True


class Server:
    """Gives each request (without its size) to ``serve``; counts connections."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                with suppress(OSError, struct.error):
                    while True:
                        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                        self._serve(connection, connection.recv(size, socket.MSG_WAITALL))

    def close(self) -> None:
        for open_socket in (self._listener, *self.connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        self._thread.join()


@contextmanager
def fetching(serve: Serve, options: ConnectionOptions = OPTIONS) -> Iterator[tuple[Server, Fetcher]]:
    with closing(Server(serve)) as server:
        fetcher = Fetcher(Cluster(server.port, options))  # type: ignore[arg-type]
        with closing(fetcher):
            yield server, fetcher


def fetch(fetcher: Fetcher) -> Answer:
    fetcher.send(1, {TP: FetchFrom(5, 1 << 20)}, read_committed=False, max_bytes=1 << 20)
    assert fetcher.partitions_in_flight() == {TP}
    while (answer := fetcher.next_answer(0.05)) is None:
        pass
    assert fetcher.partitions_in_flight() == set()
    return answer


def records(answer: Answer) -> bytes:
    assert answer.fetched is not None
    return bytes(answer.fetched[TP].records)


def test_answer_that_comes_byte_by_byte() -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        for byte in frame(request, response(b"abc")):
            connection.sendall(bytes([byte]))

    with fetching(serve) as (server, fetcher):
        assert [records(fetch(fetcher)) for _ in range(3)] == [b"abc"] * 3
        assert len(server.connections) == 1


def test_large_answers_and_small_ones_in_turn() -> None:
    """A message of any size is read; its room is not kept, that of ordinary answers is used again."""
    sizes = iter((10, 3_000_000, 7, 50_000_000, 1_000))

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"%d" % (size := next(sizes)) + b"x" * size)))

    with fetching(serve) as (_, fetcher):
        for size in (10, 3_000_000, 7, 50_000_000, 1_000):
            found = records(fetch(fetcher))
            assert len(found) == size + len(str(size))
            assert found.startswith(b"%dx" % size)
        assert len(fetcher._open[1]._kept) < 4_000_000


@pytest.mark.parametrize(("rack", "sent"), [("east-1", b"\0\6east-1"), ("", b"\0\0")])
def test_kr06_rack_of_the_client(rack: str, sent: bytes) -> None:
    """KR-06, KIP-392: brokers are told, at the end of each fetch; nothing by default."""
    asked: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(frame(request, response(b"abc")))

    with fetching(serve, replace(OPTIONS, client_rack=rack)) as (_, fetcher):
        assert records(fetch(fetcher)) == b"abc"
    assert asked[0].endswith(sent)


def test_silent_broker_is_given_up() -> None:
    """A half-open connection: nothing comes, or the beginning of an answer and then nothing more."""
    quick = replace(OPTIONS, request_timeout_ms=200)
    for part in (0, 6, 20):

        def serve(connection: socket.socket, request: bytes, part: int = part) -> None:
            connection.sendall(frame(request, response(b"abc"))[:part])

        with fetching(serve, quick) as (server, fetcher):
            assert fetch(fetcher).fetched is None
            assert str(fetcher.failure) == "no answer for 0.2 s"
            assert server.connections


def test_answer_under_way_is_told_from_silence() -> None:
    gate = threading.Event()

    def serve(connection: socket.socket, request: bytes) -> None:
        whole = frame(request, response(b"abc"))
        connection.sendall(whole[:20])
        gate.wait(10)
        connection.sendall(whole[20:])

    with fetching(serve) as (_, fetcher):
        fetcher.send(1, {TP: FetchFrom(5, 1)}, read_committed=False, max_bytes=1)
        grown = False
        while not grown:
            assert fetcher.next_answer(0.02) is None
            grown = fetcher.partitions_under_way() == {TP}
        assert fetcher.next_answer(0.02) is None
        assert fetcher.partitions_under_way() == set()
        gate.set()
        answer = fetcher.next_answer(10)
        assert answer is not None
        assert records(answer) == b"abc"


@pytest.mark.parametrize(
    ("spoil", "failure"),
    [
        (lambda whole: whole[:20], "the broker closed the connection"),
        (lambda whole: b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (lambda whole: struct.pack(">i", 2**31 - 1) + b"\xff" * 4, "answers another request"),
        (lambda whole: struct.pack(">i", 12) + whole[4:16], "unpack_from requires a buffer"),
        (lambda whole: struct.pack(">i", 3) + whole[4:], "does not speak Kafka's protocol"),
    ],
)
def test_broken_answers(spoil: Callable[[bytes], bytes], failure: str) -> None:
    """The connection is dropped, and the next fetch goes over another one."""
    spoilt: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        whole = frame(request, response(b"abc"))
        if spoilt:
            connection.sendall(whole)
            return
        spoilt.append(spoil(whole))
        connection.sendall(spoilt[0])
        connection.shutdown(socket.SHUT_RDWR)

    with fetching(serve) as (server, fetcher):
        assert fetch(fetcher).fetched is None
        assert failure in str(fetcher.failure)
        assert records(fetch(fetcher)) == b"abc"
        assert fetcher.failure is None
        assert len(server.connections) == 2


def test_connection_that_died_while_idle_is_made_again() -> None:
    with fetching(lambda connection, request: connection.sendall(frame(request, response(b"abc")))) as (
        server,
        fetcher,
    ):
        fetch(fetcher)
        server.connections[0].shutdown(socket.SHUT_RDWR)
        while fetcher._open[1].is_usable:
            pass
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 2


def test_broker_that_is_not_there() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with closing(Fetcher(Cluster(port, OPTIONS))) as fetcher:  # type: ignore[arg-type]
        assert fetch(fetcher).fetched is None
        assert isinstance(fetcher.failure, ConnectionRefusedError)


def test_what_was_asked_before_is_not_answered_to_the_next_task() -> None:
    """A task may end with a fetch under way: its connection is not used again."""
    with fetching(lambda connection, request: connection.sendall(frame(request, response(b"abc")))) as (
        server,
        fetcher,
    ):
        fetcher.send(1, {TP: FetchFrom(5, 1)}, read_committed=False, max_bytes=1)
        fetcher.give_up()
        assert not fetcher.partitions_in_flight()
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 2


@pytest.mark.parametrize("version", range(VERSIONS[0], VERSIONS[1] + 1))
def test_reads_what_kafka_python_writes(version: int) -> None:
    """Every version, whole and cut off anywhere."""
    kind = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
    aborted = [kind(producer_id=5, first_offset=6), kind(producer_id=7, first_offset=2**40)]
    body = response(b"some records", version, 3, aborted_transactions=aborted, preferred_read_replica=4)
    replica = 4 if version >= 11 else -1
    expected = Fetched(3, b"some records", [(5, 6), (7, 2**40)], replica)
    assert read_fetch_response(memoryview(body), version) == {TP: expected}
    for size in range(len(body)):
        with pytest.raises(struct.error):
            read_fetch_response(memoryview(body)[:size], version)
    nothing = read_fetch_response(memoryview(response(None, version, aborted_transactions=None)), version)
    assert nothing == {TP: Fetched(0, b"", [], -1)}


def test_refusal_of_a_whole_request() -> None:
    body = FetchResponse(throttle_time_ms=0, error_code=29, session_id=0, responses=[]).encode(version=11)
    with pytest.raises(ConnectorError, match="refused a fetch: TopicAuthorizationFailed"):
        read_fetch_response(memoryview(body), 11)


def test_pool_closes_what_nobody_used_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one given back is borrowed first; those idle for more than five minutes are closed, without a thread."""
    now = 1000.0
    replace_time(monkeypatch, "flip27_stream.connectors.kafka.client_pool", monotonic=lambda: now)
    monkeypatch.setattr(
        "flip27_stream.connectors.kafka.client_pool.KafkaClient", lambda options: Cluster(1, options)
    )
    pool = FetcherPool()
    first, second = pool.borrow(OPTIONS), pool.borrow(OPTIONS)
    assert first is not second
    pool.give_back(first)
    now += 200
    pool.give_back(second)
    assert pool.borrow(OPTIONS) is second
    pool.give_back(second)
    now += 150
    other = pool.borrow(replace(OPTIONS, client_id="other"))
    assert [fetcher.client.closed for fetcher in (first, second, other)] == [True, False, False]  # type: ignore[attr-defined]
    assert pool.borrow(OPTIONS) is second
