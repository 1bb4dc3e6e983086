"""Fetches over sockets: brokers that are slow, silent or cut off, and servers that are no
brokers. A fake server answers.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
import threading
from array import array
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchResponse as TheirResponse

from flip27_stream.connectors.kafka.client.protocol import FETCH_BY_TOPIC_ID, FetchedPartition, FetchFrom
from flip27_stream.connectors.kafka.fetching.fetch_responses import (
    LEAST_VERSION,
    FetchResponse,
    read_fetch_response,
)
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher
from flip27_stream.connectors.kafka.fetching.fetcher_pool import FetcherPool
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError
from flip27_stream.testing import wait_until
from tests.connectors.kafka.support.fetch_server import (
    OPTIONS,
    TOPIC_ID,
    TP,
    OneBrokerClient,
    fetch,
    fetching,
    frame,
    records,
    response,
)
from tests.support.module_time import replace_time

ASKED = {TP: FetchFrom(5, 100, TOPIC_ID)}


def test_a_response_that_comes_byte_by_byte_is_read() -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        for byte in frame(request, response(b"abc")):
            connection.sendall(bytes([byte]))

    with fetching(serve) as (server, fetcher):
        assert [records(fetch(fetcher)) for _ in range(3)] == [b"abc"] * 3
        assert len(server.connections) == 1


def test_large_and_small_responses_share_a_connection() -> None:
    """Answers of any size are read in turn. The memory of a large one is not kept; that of
    ordinary ones is used again.
    """
    sizes = iter((10, 3_000_000, 7, 50_000_000, 1_000))

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"%d" % (size := next(sizes)) + b"x" * size)))

    with fetching(serve) as (_, fetcher):
        for size in (10, 3_000_000, 7, 50_000_000, 1_000):
            found = records(fetch(fetcher))
            assert len(found) == size + len(str(size))
            assert found.startswith(b"%dx" % size)
        assert len(fetcher._open[1]._kept) < 4_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ignore SO_RCVLOWAT when they poll")
def test_a_wait_for_a_large_response_ends_when_a_large_part_has_come() -> None:
    """A small part does not wake the task. It is taken at the end of a wait, so a slow broker is not a silent one."""
    size, goes_on = 2_000_000, threading.Semaphore(0)

    def serve(connection: socket.socket, request: bytes) -> None:
        answer = frame(request, response(b"x" * size))
        for begin, end in ((0, 100_000), (100_000, 110_000), (110_000, 1_200_000), (1_200_000, len(answer))):
            goes_on.acquire()
            connection.sendall(answer[begin:end])

    with fetching(serve) as (_, fetcher):

        def part_is_taken() -> bool:
            assert fetcher.next_answer(0.05) is None
            return fetcher.partitions_receiving() == {TP}

        fetcher.send(1, ASKED, read_committed=False, max_bytes=size)
        for _ in range(2):
            goes_on.release()
            wait_until(part_is_taken, "a small part", 60)
        connection = fetcher._in_flight[1].connection
        assert connection.received > 100_000
        assert not connection._wait_readable(0)
        goes_on.release()
        assert connection._wait_readable(60)
        goes_on.release()
        while (answer := fetcher.next_answer(10)) is None:
            pass
        assert len(records(answer)) == size
        assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the rule for acknowledgements is that of Linux")
@pytest.mark.parametrize("size", [10, 700_000])
def test_the_system_receives_and_acknowledges_a_response_while_the_task_decodes(size: int) -> None:
    """Linux delays acknowledgements unless fewer bytes than SO_RCVLOWAT wait, and brokers wait for them.

    The task does not wait for so many bytes afterwards: a wait for an answer that has come would last an hour.
    """

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, response(b"x" * size)))

    with fetching(serve) as (_, fetcher):
        records(fetch(fetcher))
        fetcher.send(1, ASKED, read_committed=False, max_bytes=1_000_000)
        own = fetcher._in_flight[1].connection._socket
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) >= 1_000_000
        wait_until(lambda: _waiting(own) > size, "the response", 60)
        answer = fetcher.next_answer(3600)
        assert answer is not None
        assert len(records(answer)) == size
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def _waiting(connection: socket.socket) -> int:
    """Returns the number of received bytes that wait in the receive buffer of a socket."""
    count = array("i", [0])
    fcntl.ioctl(connection.fileno(), termios.FIONREAD, count)
    return count[0]


def test_a_broker_that_always_has_an_answer_does_not_keep_others_from_being_heard() -> None:
    """The first broker has answered before each call; the second one answers once, after its fetch was tried."""
    goes_on = threading.Event()

    def serve(connection: socket.socket, request: bytes) -> None:
        if connection in server.connections[1:]:
            goes_on.wait(60)
        connection.sendall(frame(request, response(b"abc")))

    def send_to_first() -> None:
        fetcher.send(1, {TP: FetchFrom(5, 100, TOPIC_ID)}, read_committed=False, max_bytes=100)
        if 1 in fetcher._in_flight:
            own = fetcher._in_flight[1].connection._socket
            wait_until(lambda: _waiting(own) > 0, "an answer of the first broker", 60)

    second = TopicPartition("t", 4)
    with fetching(serve) as (server, fetcher):
        fetch(fetcher)
        fetcher.send(2, {second: FetchFrom(5, 100, TOPIC_ID)}, read_committed=False, max_bytes=100)
        wait_until(lambda: fetcher.next_answer(0.01) is None and 2 in fetcher._in_flight, "a try", 60)
        other = fetcher._in_flight[2].connection._socket
        goes_on.set()
        wait_until(lambda: _waiting(other) > 0, "the answer of the second broker", 60)
        asked = list[tuple[TopicPartition, ...]]()
        while (second,) not in asked and len(asked) < 20:
            send_to_first()
            while (answer := fetcher.next_answer(10)) is None:
                pass
            asked.append(tuple(answer.partitions))
        assert asked[-1] == (second,), asked


def test_a_slow_broker_is_received_from_while_another_one_is_fast() -> None:
    """Otherwise the slow one would be taken for silent, whose parts are small."""
    size, slow = 2_000_000, list[socket.socket]()
    goes_on = threading.Event()

    def serve(connection: socket.socket, request: bytes) -> None:
        if not slow:
            slow.append(connection)
        if connection is not slow[0]:
            connection.sendall(frame(request, response(b"fast")))
            return
        answer = frame(request, response(b"x" * size))
        connection.sendall(answer[:100_000])
        goes_on.wait(60)
        connection.sendall(answer[100_000:110_000])

    with fetching(serve) as (_, fetcher):
        fetcher.send(2, ASKED, read_committed=False, max_bytes=size)
        wait_until(lambda: fetcher.next_answer(0.05) is None and fetcher.partitions_receiving(), "a part", 60)
        connection = fetcher._in_flight[2].connection
        received = connection.received
        goes_on.set()

        def has_grown() -> bool:
            fetcher.send(1, ASKED, read_committed=False, max_bytes=size)
            while fetcher.next_answer(10) is None:
                pass
            return connection.received > received

        wait_until(has_grown, "the next part of the slow broker", 60)


@pytest.mark.parametrize(("rack", "sent"), [("east-1", b"\0\6east-1"), ("", b"\0\0")])
def test_kr06_each_fetch_has_the_rack_of_the_client(rack: str, sent: bytes) -> None:
    """KR-06, KIP-392: each fetch ends with the rack of the client, which is empty by default."""
    asked: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(frame(request, response(b"abc")))

    with fetching(serve, replace(OPTIONS, client_rack=rack)) as (_, fetcher):
        assert records(fetch(fetcher)) == b"abc"
    assert asked[0].endswith(sent)


def test_a_silent_broker_is_given_up() -> None:
    """A half-open connection has no answer, or only the beginning of one. The fetch is given up."""
    quick = replace(OPTIONS, request_timeout_ms=200)
    for part in (0, 6, 20):

        def serve(connection: socket.socket, request: bytes, part: int = part) -> None:
            connection.sendall(frame(request, response(b"abc"))[:part])

        with fetching(serve, quick) as (server, fetcher):
            assert fetch(fetcher).fetched is None
            assert str(fetcher.failure) == "no answer for 0.2 s"
            assert server.connections


def test_a_response_under_way_is_told_from_silence() -> None:
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
            grown = fetcher.partitions_receiving() == {TP}
        assert fetcher.next_answer(0.02) is None
        assert fetcher.partitions_receiving() == set()
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
        (lambda whole: struct.pack(">i", 2**31 - 1) + whole[4:], "a response of 2147483647 bytes; at most 1"),
        (lambda whole: struct.pack(">i", 12) + whole[4:16], "unpack_from requires a buffer"),
        (lambda whole: struct.pack(">i", 3) + whole[4:], "does not speak Kafka's protocol"),
    ],
)
def test_a_broken_response_ends_its_connection(spoil: Callable[[bytes], bytes], failure: str) -> None:
    """A broken answer ends its connection, and the next fetch goes over another one."""
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


def test_an_unreachable_broker_is_a_failure_of_the_fetch() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with closing(Fetcher(OneBrokerClient(port, OPTIONS))) as fetcher:  # type: ignore[arg-type]
        assert fetch(fetcher).fetched is None
        assert isinstance(fetcher.failure, ConnectionRefusedError)


def test_a_response_to_a_former_task_is_not_given_to_the_next_one() -> None:
    """A task may end with a fetch under way. Its connection is not used for the next task."""
    with fetching(lambda connection, request: connection.sendall(frame(request, response(b"abc")))) as (
        server,
        fetcher,
    ):
        fetcher.send(1, {TP: FetchFrom(5, 1)}, read_committed=False, max_bytes=1)
        fetcher.give_up()
        assert not fetcher.partitions_in_flight()
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 2


@pytest.mark.parametrize("version", range(LEAST_VERSION, FETCH_BY_TOPIC_ID + 1))
def test_messages_of_kafka_python_are_read(version: int) -> None:
    """Answers that kafka-python writes are read in every version. An answer that is cut off anywhere is an error."""
    kind = TheirResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
    aborted = [kind(producer_id=5, first_offset=6), kind(producer_id=7, first_offset=2**40)]
    body = response(b"some records", version, 3, aborted_transactions=aborted, preferred_read_replica=4)
    replica = 4 if version >= 11 else -1
    expected = FetchResponse({TP: FetchedPartition(3, b"some records", [(5, 6), (7, 2**40)], replica)})
    assert read_fetch_response(memoryview(body), version, ASKED) == expected
    for size in range(len(body)):
        with pytest.raises(struct.error):
            read_fetch_response(memoryview(body)[:size], version, ASKED)
    nothing = response(None, version, aborted_transactions=None, throttle_ms=70)
    # Brokers of old versions waited before they answered.
    expected = FetchResponse({TP: FetchedPartition(0, b"", [], -1)}, 70 if version >= 8 else 0)
    assert read_fetch_response(memoryview(nothing), version, ASKED) == expected


@pytest.mark.parametrize("size", [-1, -100, -(2**15)])
def test_a_topic_name_of_negative_length_is_refused(size: int) -> None:
    """A name with a negative length never makes the reader of a response go back."""
    body = bytearray(response(b"abc"))
    at = body.index(b"\0\1t")
    struct.pack_into(">h", body, at, size)
    struct.pack_into(">i", body, at - 4, 2**31 - 1)
    with pytest.raises(struct.error):
        read_fetch_response(memoryview(body), 11, ASKED)


def test_a_topic_name_that_is_not_utf8_is_refused() -> None:
    body = response(b"abc").replace(b"\0\1t", b"\0\1\xff")
    with pytest.raises(struct.error, match="not UTF-8"):
        read_fetch_response(memoryview(body), 11, ASKED)


@pytest.mark.parametrize(("version", "name", "none"), [(11, b"\0\1t", b"\xff\xff"), (12, b"\2t", b"\0")])
def test_a_topic_without_a_name_is_refused(version: int, name: bytes, none: bytes) -> None:
    body = response(b"abc", version).replace(name, none)
    with pytest.raises(struct.error, match="-1 further bytes"):
        read_fetch_response(memoryview(body), version, ASKED)


def test_a_topic_that_was_not_requested_is_refused() -> None:
    body = response(b"abc", 13, topic_id="00000000-0000-0000-0000-000000000007")
    with pytest.raises(struct.error, match="0007 was not asked for"):
        read_fetch_response(memoryview(body), 13, ASKED)


def test_the_error_of_a_whole_response_is_raised() -> None:
    body = response(b"", refusal=29)
    with pytest.raises(ConnectorError, match="refused a fetch: TopicAuthorizationFailed"):
        read_fetch_response(memoryview(body), 11, ASKED)
    with pytest.raises(OSError, match="refused the fetch: KafkaStorageError"):
        read_fetch_response(memoryview(response(b"", refusal=56)), 11, ASKED)


def test_the_pool_closes_connections_that_were_idle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool lends the fetcher that came back last. Fetchers that are idle for more than five minutes are
    closed, without a thread.
    """
    now = 1000.0
    replace_time(monkeypatch, "flip27_stream.connectors.kafka.fetching.fetcher_pool", monotonic=lambda: now)
    monkeypatch.setattr(
        "flip27_stream.connectors.kafka.fetching.fetcher_pool.KafkaClient",
        lambda options: OneBrokerClient(1, options),
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
