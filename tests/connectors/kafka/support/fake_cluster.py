"""A cluster of fake brokers for ApiVersions, Metadata, SASL, and requests about logs. Tests can cause faults.

Each broker serves a connection in a thread, one request after the other, as Kafka does.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from flip27_stream.connectors.kafka.split import TopicPartition

REQUESTS = (
    ApiVersionsRequest,
    MetadataRequest,
    ListOffsetsRequest,
    FetchRequest,
    OffsetForLeaderEpochRequest,
    SaslHandshakeRequest,
    SaslAuthenticateRequest,
)
VERSIONS = {
    ApiVersionsRequest: 2,
    MetadataRequest: 9,
    ListOffsetsRequest: 7,
    FetchRequest: 11,
    OffsetForLeaderEpochRequest: 3,
    SaslHandshakeRequest: 1,
    SaslAuthenticateRequest: 1,
}


class FakeBroker:
    """A fake broker.

    Attributes:
        delay_s: How long it takes to answer each request, also requests that open a connection.
        throttle_ms: The throttle time in its answers about offsets.
        fetch_throttle_ms: The throttle time in its answers to fetches.
        silent_about: Names of requests that it never answers.
        too_early: The number of requests that came while the client should have waited.
        refuses: Whether every password is wrong.
        refused_tokens: The tokens of OAUTHBEARER that it refuses.
        session_ms: How long a session lasts after an authentication, in ms; 0 for no limit (KIP-368).
        versions: The greatest version of each request that it speaks.
        requests: The number of requests that it took, by name.
        connections: The number of connections that it accepted.
        host: The name by which the brokers advertise it.
    """

    def __init__(self, cluster: FakeCluster, node: int, certificate: Path | None) -> None:
        self.node, self.cluster = node, cluster
        self.delay_s, self.throttle_ms, self.too_early = 0.0, 0, 0
        self.fetch_throttle_ms = 0
        self.silent_about: set[str] = set()
        self.refuses = False
        self.refused_tokens: set[str] = set()
        self.session_ms = 0
        self.versions = dict(VERSIONS)
        self.requests: Counter[str] = Counter()
        self.connections = 0
        self.host = "127.0.0.1"
        self._certificate = certificate
        self._running = threading.Event()
        self._running.set()
        self._hanging = False
        self._stranded: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._quiet_until = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def freeze(self) -> None:
        """Accepts connections and requests and answers nothing, like a stopped process, until :meth:`resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def hang(self, hanging: bool = True) -> None:
        """Accepts connections from now on, and never sends anything on them."""
        self._hanging = hanging

    def strand(self) -> None:
        """Lets nothing pass over the present connections, without notice to either side. New connections work."""
        self._stranded |= self._open

    def untrusted(self, certificate: Path) -> None:
        self._certificate = certificate

    def cut(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def down(self) -> None:
        """Refuses connections from now on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def up(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept)

    def close(self) -> None:
        self.down()
        self.resume()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _start(self, run: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            if self._hanging:
                self._stranded.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        talking = connection
        with suppress(OSError, struct.error):
            if self._certificate is not None and connection not in self._stranded:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self._certificate)
                self._running.wait()
                talking = context.wrap_socket(connection, server_side=True)
                self._open.add(talking)
            while True:
                (size,) = struct.unpack(">i", _received(talking, 4))
                body = _received(talking, size)
                self._running.wait()
                threading.Event().wait(self.delay_s)
                if connection in self._stranded or talking in self._stranded:
                    continue
                if answer := self._answered(body):
                    talking.sendall(answer)
        for each in {connection, talking}:
            self._open.discard(each)
            each.close()

    def _answered(self, body: bytes) -> bytes:
        key, version, correlation = struct.unpack(">hhi", body[:8])
        kind = next(each for each in REQUESTS if key == each.API_KEY)
        self.requests[kind.name] += 1
        if kind.name in self.silent_about:
            return b""
        self.too_early += time.monotonic() < self._quiet_until
        known = version <= self.versions[kind]
        if not known and kind is not ApiVersionsRequest:
            raise OSError("a broker closes the connection where it does not know a version")
        request = kind.decode(body, version=version, header=True)
        answer = getattr(self, f"_{kind.name}")(request)
        if not known:
            answer.error_code = 35
        answer.API_VERSION = version if known else 0
        answer.with_header(correlation_id=correlation)
        return bytes(answer.encode(header=True, framed=True))

    def _ApiVersionsRequest(self, request: Any) -> Any:
        entry = ApiVersionsResponse.ApiVersion
        keys = [entry(api_key=k.API_KEY, min_version=0, max_version=v) for k, v in self.versions.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _SaslHandshakeRequest(self, request: Any) -> Any:
        return SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN", "OAUTHBEARER"])

    def _SaslAuthenticateRequest(self, request: Any) -> Any:
        sent = request.auth_bytes
        error, why, answer = 0, None, b""
        if self.refuses or sent == b"\x01":  # the end of an exchange with a token that was refused
            error, why = 58, "Authentication failed: Invalid username or password"
        elif any(f"Bearer {token}\x01".encode() in sent for token in self.refused_tokens):
            answer = b'{"status":"invalid_token"}'
        return SaslAuthenticateResponse(
            error_code=error, error_message=why, auth_bytes=answer, session_lifetime_ms=self.session_ms
        )

    def _MetadataRequest(self, request: Any) -> Any:
        cluster = self.cluster
        names = None if request.topics is None else {topic.name for topic in request.topics}
        topic = MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition
        found: dict[str, list[Any]] = {}
        for tp, leader in cluster.leaders.items():
            if names is None or tp.topic in names:
                found.setdefault(tp.topic, []).append(
                    partition(
                        error_code=0 if leader >= 0 else 5,
                        partition_index=tp.partition,
                        leader_id=leader,
                        leader_epoch=0,
                        replica_nodes=[],
                        isr_nodes=[],
                        offline_replicas=[],
                    )
                )
        missing = (names or set()) - found.keys()
        topics = [topic(error_code=0, name=n, is_internal=False, partitions=p) for n, p in found.items()]
        topics += [topic(error_code=3, name=n, is_internal=False, partitions=[]) for n in missing]
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[broker(node_id=b.node, host=b.host, port=b.port, rack=None) for b in cluster.brokers],
            cluster_id="fake",
            controller_id=1,
            topics=topics,
        )

    def _ListOffsetsRequest(self, request: Any) -> Any:
        self._throttle()
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for asked in request.topics:
            partitions = []
            for p in asked.partitions:
                tp = TopicPartition(asked.name, p.partition_index)
                error = self.cluster.error(self.node, tp, p.timestamp)
                offset = -1 if error else self.cluster.offset(tp, p.timestamp)
                partitions.append(
                    topic.ListOffsetsPartitionResponse(
                        partition_index=tp.partition,
                        error_code=error,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=self.cluster.epoch,
                    )
                )
            topics.append(topic(name=asked.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=self.throttle_ms, topics=topics)

    def _OffsetForLeaderEpochRequest(self, request: Any) -> Any:
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for asked in request.topics:
            partitions = []
            for p in asked.partitions:
                tp = TopicPartition(asked.topic, p.partition)
                error = self.cluster.error(self.node, tp, None)
                end = -1 if error or p.leader_epoch < 0 else self.cluster.kept
                partitions.append(
                    topic.EpochEndOffset(
                        error_code=error, partition=tp.partition, leader_epoch=p.leader_epoch, end_offset=end
                    )
                )
            topics.append(topic(topic=asked.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def _FetchRequest(self, request: Any) -> Any:
        topic = FetchResponse.FetchableTopicResponse
        topics = [
            topic(
                topic=asked.topic,
                partitions=[
                    topic.PartitionData(
                        partition_index=p.partition,
                        error_code=self.cluster.error(
                            self.node, TopicPartition(asked.topic, p.partition), None
                        ),
                        high_watermark=0,
                        last_stable_offset=0,
                        log_start_offset=0,
                        aborted_transactions=[],
                        preferred_read_replica=-1,
                        records=b"",
                    )
                    for p in asked.partitions
                ],
            )
            for asked in request.topics
        ]
        return FetchResponse(
            throttle_time_ms=self.fetch_throttle_ms, error_code=0, session_id=0, responses=topics
        )

    def _throttle(self) -> None:
        self._quiet_until = time.monotonic() + self.throttle_ms / 1000


class FakeCluster:
    """Brokers 1, 2, ... that lead the partitions of topic ``t`` in turn.

    Attributes:
        leaders: The leader of each partition; -1 if it has no leader.
        ends: The end offset of each log. All begin at 0.
        errors: The error codes that brokers return for a partition, or for (partition, timestamp), instead of an
            offset. Each code is used once.
        epoch: The epoch of the leader of each partition.
        kept: The end of the records of former leaders in each log; -1 if no leader can say it.
    """

    def __init__(self, brokers: int, partitions: int, certificate: Path | None = None) -> None:
        self.leaders = {TopicPartition("t", n): n % brokers + 1 for n in range(partitions)}
        self.ends = dict.fromkeys(self.leaders, 100)
        self.epoch, self.kept = 0, 100
        self.errors: dict[TopicPartition | tuple[TopicPartition, int], Iterator[int]] = {}
        self.brokers: list[FakeBroker] = []
        for n in range(brokers):
            self.brokers.append(FakeBroker(self, n + 1, certificate))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def requests(self, name: str) -> int:
        return sum(broker.requests[name] for broker in self.brokers)

    def offset(self, tp: TopicPartition, timestamp: int) -> int:
        return 0 if timestamp == -2 else self.ends[tp] if timestamp == -1 else 50

    def error(self, node: int, tp: TopicPartition, timestamp: int | None) -> int:
        if self.leaders.get(tp) != node:
            return 6
        scripted = self.errors.get(tp) or (
            self.errors.get((tp, timestamp)) if timestamp is not None else None
        )
        return 0 if scripted is None else next(scripted, 0)


@contextmanager
def fake_cluster(
    brokers: int = 3, partitions: int | None = None, certificate: Path | None = None
) -> Iterator[FakeCluster]:
    cluster = FakeCluster(brokers, brokers if partitions is None else partitions, certificate)
    try:
        yield cluster
    finally:
        for broker in cluster.brokers:
            broker.close()


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError("the client closed the connection")
        data += piece
    return data
