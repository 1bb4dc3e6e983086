"""A fake broker with answers to fetches that the test sets, over real sockets."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetcher import Answer, Fetcher
from flip27_stream.connectors.kafka.split import TopicPartition

TP = TopicPartition("t", 3)
TOPIC_ID = "6f1c7f0e-8f5c-4a8e-9d0b-0123456789ab"
OPTIONS = ConnectionOptions("unused:1", request_timeout_ms=10_000)
SPOKEN = {ApiVersionsRequest.API_KEY: (0, 4), FetchRequest.API_KEY: (4, 11)}
"""The supported versions, by kind of request."""

Serve = Callable[[socket.socket, bytes], None]


def response(
    records: bytes | None,
    version: int = 11,
    error: int = 0,
    *,
    throttle_ms: int = 0,
    refusal: int = 0,
    topic_id: str = TOPIC_ID,
    **partition: Any,
) -> bytes:
    """Returns the body of a response about one partition, encoded by kafka-python, with the tags of its header."""
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
        throttle_time_ms=throttle_ms,
        error_code=refusal,
        session_id=0,
        responses=[topic(topic=TP.topic, topic_id=topic_id, partitions=[data])],
    )
    return b"\0" * (version >= 12) + bytes(answer.encode(version=version))


def versions(spoken: Mapping[int, tuple[int, int]], version: int, error: int = 0) -> bytes:
    """Returns the body of a response to ApiVersions. Errors have version 0."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=least, max_version=most)
        for key, (least, most) in spoken.items()
    ]
    return bytes(ApiVersionsResponse(error_code=error, api_keys=keys).encode(version=0 if error else version))


def frame(request: bytes, body: bytes) -> bytes:
    """Returns a response with the request's correlation id and its size."""
    return struct.pack(">i", 4 + len(body)) + request[4:8] + body


class OneBrokerClient:
    """Replaces KafkaClient: a cluster with one broker, the server."""

    def __init__(self, port: int, options: ConnectionOptions) -> None:
        self.port, self.options, self.closed = port, options, False

    def endpoint(self, node: int) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def close(self) -> None:
        self.closed = True


class FetchServer:
    """Passes each request (without its size) to ``serve``, and counts connections. It answers ApiVersions itself.

    Attributes:
        spoken: The supported versions.
        asked: The version of each fetch.
    """

    def __init__(self, serve: Serve, spoken: Mapping[int, tuple[int, int]] = SPOKEN) -> None:
        self.spoken = spoken
        self.asked: list[int] = []
        self.connections: list[socket.socket] = []
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                self._answer(connection, connection.recv(size, socket.MSG_WAITALL))

    def _answer(self, connection: socket.socket, request: bytes) -> None:
        kind, version = struct.unpack_from(">hh", request)
        if kind == ApiVersionsRequest.API_KEY and kind in self.spoken:
            error = 0 if version <= self.spoken[kind][1] else 35
            connection.sendall(frame(request, versions(self.spoken, version, error)))
            return
        if kind == FetchRequest.API_KEY:
            self.asked.append(version)
        self._serve(connection, request)

    def close(self) -> None:
        for open_socket in (self._listener, *self.connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def fetching(
    serve: Serve,
    options: ConnectionOptions = OPTIONS,
    spoken: Mapping[int, tuple[int, int]] = SPOKEN,
) -> Iterator[tuple[FetchServer, Fetcher]]:
    with closing(FetchServer(serve, spoken)) as server:
        fetcher = Fetcher(OneBrokerClient(server.port, options))  # type: ignore[arg-type]
        with closing(fetcher):
            yield server, fetcher


def fetch(fetcher: Fetcher, topic_id: str = "") -> Answer:
    fetcher.send(1, {TP: FetchFrom(5, 1 << 20, topic_id)}, read_committed=False, max_bytes=1 << 20)
    assert fetcher.partitions_in_flight() == {TP}
    while (answer := fetcher.next_answer(0.05)) is None:
        pass
    assert fetcher.partitions_in_flight() == set()
    return answer


def records(answer: Answer) -> bytes:
    assert answer.fetched is not None
    return bytes(answer.fetched[TP].records)
