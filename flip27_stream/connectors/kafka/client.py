"""A Kafka client of raw requests: metadata, ListOffsets and Fetch, one request per leader, to all leaders at once."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from flip27_stream.connectors.kafka.connection_log import CONNECTION_LOG
from flip27_stream.connectors.kafka.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.diagnosis import diagnose
from flip27_stream.connectors.kafka.protocol import (
    MAX_TIMESTAMP,
    Fetched,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
    fetch_request,
    fetched_partitions,
    list_offsets_request,
    partition_offsets,
    refused,
    retriable,
    topics_in,
)
from flip27_stream.connectors.kafka.split import LATEST, TopicPartition
from flip27_stream.errors import ConnectorError, UnreachableError

__all__ = ["ConnectionOptions", "KafkaClient"]

_LEADER_PATIENCE_S = 5.0
_SILENT_LEADER_PATIENCE_S = 0.25
_GLANCE_MS = 100
_LAST_WORDS_S = (
    1.0  # beyond the time given, for kafka-python to say what is wrong; it lets a TLS handshake take for ever
)
_METADATA_TRY_S = 3.0
_LARGEST_FRAME = 2**31 - 1
_KIP_734 = 7


class KafkaClient:
    """Connections to one cluster. Safe to use from several threads, one request round at a time.

    The cluster is contacted with the first request. Records of kafka-python's own log at WARNING and above are kept for
    error messages, see :mod:`~flip27_stream.connectors.kafka.connection_log`.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._lock = threading.RLock()
        self._net: Any = None
        self._leaders: dict[TopicPartition, int] = {}
        self._silent: set[int] = set()
        self.cluster_id = ""
        """Of the cluster that answered last; empty where brokers do not tell."""
        self._addresses: dict[int, str] = {}  # of brokers, also of those that have left

    @property
    def options(self) -> ConnectionOptions:
        return self._options

    def close(self) -> None:
        """Close the connections, unless another thread is using them just now and does not stop within a second."""
        if self._lock.acquire(timeout=1):
            try:
                if self._net is not None:
                    self._net.close()
                    self._net = None
            finally:
                self._lock.release()

    def topics(
        self, names: Collection[str] | None = None, within_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """The topics of that name that exist, or all topics.

        Raises:
            UnreachableError: no broker answered within that time, by default ``api_timeout_ms``.
            ConnectorError: the cluster refused.
        """
        with self._lock:
            response = self._any_broker(names, within_ms or self._options.api_timeout_ms)
            self._net.cluster.update_metadata(response)
            self.cluster_id = response.cluster_id or ""
            self._note_addresses()
            found = topics_in(response)
            for name, topic in found.items():
                self._leaders.update({TopicPartition(name, n): leader for n, leader in topic.leaders.items()})
            return found

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        """Offsets by timestamp (ms), :data:`EARLIEST`, :data:`LATEST` or :data:`MAX_TIMESTAMP`; one answer per round.

        All rounds go out together. What a leader did not answer in time is left out.

        Raises:
            UnreachableError: the first contact with the cluster failed.
            ConnectorError: a broker refused.
        """
        answers: list[dict[TopicPartition, OffsetAndTimestamp]] = [{} for _ in rounds]
        with self._lock:
            self._connect()
            # Brokers before 3.0 do not know how to find the greatest timestamp.
            known = self._net.api_version(ListOffsetsRequest, max_version=_KIP_734) == _KIP_734
            unknown = None if known else MAX_TIMESTAMP
            pending = {
                (i, tp): at for i, wanted in enumerate(rounds) for tp, at in wanted.items() if at != unknown
            }
            deadline = time.monotonic() + _LEADER_PATIENCE_S
            while pending:
                requests = []
                for (leader, i), keys in self._by_leader(pending).items():
                    wanted = {tp: pending[i, tp] for tp in keys}
                    requests.append((leader, list_offsets_request(wanted, read_committed), i))
                for i, response in self._exchange(requests, deadline):
                    for tp, error, answer in partition_offsets(response):
                        if not error:
                            answers[i][tp] = answer
                            del pending[i, tp]
                        elif not retriable(error):
                            raise refused(f"ListOffsets of {tp}", error)
                if not pending or time.monotonic() >= deadline:
                    break
                pending = self._still_existing(pending)
        return answers

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """As one round of :meth:`list_offsets`, but of all these partitions; -1 where no record is as asked for.

        Raises:
            UnreachableError: not all leaders answered within ``api_timeout_ms``.
            ConnectorError: a broker refused.
        """
        offsets: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._options.api_timeout_ms / 1000
        while missing := wanted.keys() - offsets.keys():
            (found,) = self.list_offsets({tp: wanted[tp] for tp in missing}, read_committed=read_committed)
            offsets.update({tp: at.offset for tp, at in found.items()})
            if not found and time.monotonic() > deadline:
                raise UnreachableError(
                    f"The leader of {min(missing)} did not answer within {self._options.api_timeout_ms / 1000:g} s."
                )
        return offsets

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """Where all these partitions end now; errors as :meth:`offsets`."""
        return self.offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, Fetched]:
        """Records, in one round. Partitions come first in the order given; what no leader answered in time is left out.

        Raises:
            UnreachableError: the first contact with the cluster failed.
        """
        with self._lock:
            requests = []
            for (leader, _), tps in self._by_leader({(0, tp): 0 for tp in wanted}).items():
                request = fetch_request(
                    {tp: wanted[tp] for tp in tps},
                    read_committed=read_committed,
                    max_bytes=max_bytes,
                    max_wait_ms=self._options.fetch_max_wait_ms,
                )
                requests.append((leader, request, 0))
            answers: dict[TopicPartition, Fetched] = {}
            patience_s = _LEADER_PATIENCE_S + self._options.fetch_max_wait_ms / 1000
            for _, response in self._exchange(requests, time.monotonic() + patience_s):
                answers.update(fetched_partitions(response, wanted))
            self.forget_leaders(tp for tp in wanted if tp not in answers or retriable(answers[tp].error))
            return answers

    # What follows is for callers that keep requests in flight themselves; one thread at a time.

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader of each partition, as far as known after asking for those that were not."""
        wanted = list(partitions)
        unknown = {tp.topic for tp in wanted if self._leaders.get(tp, -1) < 0}
        if unknown:
            self.topics(unknown)
        return {tp: leader for tp in wanted if (leader := self._leaders.get(tp, -1)) >= 0}

    def any_node(self) -> int | None:
        """A broker that can be asked now; ``None`` where none can."""
        self._connect()
        node = self._net.least_loaded_node()
        return None if node is None else int(node)

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask again before the next request about these partitions."""
        for tp in partitions:
            self._leaders.pop(tp, None)

    def send(self, node: int, request: Any) -> Any:
        """A future (of kafka-python) of the response."""
        self._connect()
        try:
            return self._net.send(node, request)
        except kafka_errors.KafkaError as error:
            return Future().failure(error)

    def wait(self, seconds: float, future: Any = None) -> None:
        """Let requests and responses flow until ``future`` is done, but no longer than so many seconds."""
        self._net.poll(timeout_ms=max(0, round(seconds * 1000)), future=future)

    def endpoint(self, node: int) -> tuple[str, int] | None:
        """Host and port of a broker; ``None`` if it is not known (any more)."""
        broker = self._net.cluster.broker_metadata(node) if self._net is not None else None
        return None if broker is None else (broker.host, broker.port)

    def address(self, node: int) -> str:
        """A broker's address, for messages; the last one known of a broker that has left the cluster."""
        return f"broker {node} at {self._addresses[node]}" if node in self._addresses else f"broker {node}"

    def version_of(self, request: Any, at_most: int) -> int:
        """The greatest version of a kind of request (of kafka-python) that the brokers speak.

        Raises:
            UnreachableError: the first contact with the cluster failed.
            IncompatibleBrokerVersion: they speak none.
        """
        self._connect()
        return int(self._net.api_version(request, max_version=at_most))

    def _connect(self) -> None:
        if self._net is not None:
            return
        options = self._options
        config = {
            **options.client_config(),
            "receive_message_max_bytes": _LARGEST_FRAME,
            "max_in_flight_requests_per_connection": 100,
            "slow_task_threshold_secs": 0,
        }
        loop = NetworkSelector(**config)
        manager = KafkaConnectionManager(loop, **config)
        net = KafkaNetClient(loop, manager)
        try:
            self._bootstrap(net, manager)
        except BaseException:
            net.close()
            raise
        self._net = net
        self._note_addresses()

    def _note_addresses(self) -> None:
        self._addresses |= {b.node_id: f"{b.host}:{b.port}" for b in self._net.cluster.brokers()}

    def _bootstrap(self, net: Any, manager: Any) -> None:
        """Make the first contact. A broker that hangs up is asked why, so that nobody waits for a wrong password."""
        began, patience = time.time(), self._options.first_contact_timeout_ms
        contact, diagnosed = manager.bootstrap_async(patience), False
        deadline = time.monotonic() + patience / 1000 + _LAST_WORDS_S
        while not contact.is_done and time.monotonic() < deadline:
            net.poll(timeout_ms=_GLANCE_MS, future=contact)
            if not diagnosed and not contact.is_done and CONNECTION_LOG.hung_up_since(began):
                diagnosed = True
                if (reason := diagnose(self._options)) is not None:
                    raise reason
        if not contact.succeeded():
            raise self._unreachable(patience, began, ask_why=not diagnosed) from contact.exception

    def _unreachable(self, tried_ms: int, since: float, *, ask_why: bool = True) -> ConnectorError:
        cause = CONNECTION_LOG.cause_since(since)
        silent = cause is None and self._options.security.ssl is not None
        unclear = silent or CONNECTION_LOG.hung_up_since(since)
        if ask_why and unclear and (reason := diagnose(self._options)) is not None:
            return reason
        named = ", ".join(self.address(node) for node in sorted(self._addresses))
        return UnreachableError(
            f"No Kafka broker answered at {self._options.bootstrap_servers} within {tried_ms / 1000:g} s"
            f"{f' ({cause})' if cause else ''}. {f'The cluster named {named}. ' if named else ''}"
            "Check option 'kafka.bootstrap.servers', that the brokers run, and that "
            "they advertise addresses this machine can reach."
        )

    def _any_broker(self, names: Collection[str] | None, within_ms: int) -> Any:
        self._connect()
        began, deadline = time.time(), time.monotonic() + within_ms / 1000
        silent = set(self._silent)
        while time.monotonic() < deadline:
            node = self._node_besides(silent)
            if node is not None:
                topics = (
                    None
                    if names is None
                    else [MetadataRequest.MetadataRequestTopic(name=n) for n in sorted(names)]
                )
                request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
                future = self.send(node, request)
                self.wait(min(_METADATA_TRY_S, deadline - time.monotonic()), future)
                if future.succeeded():
                    return future.value
                silent.add(node)
            self.wait(max(self._options.retry_backoff_ms, 10) / 1000)
        self.close()  # the next call bootstraps again: all addresses known may be outdated
        raise self._unreachable(within_ms, began)

    def _node_besides(self, silent: set[int]) -> int | None:
        """A broker that can be asked now, one that was not silent as long as there is any."""
        node = self.any_node()
        if node not in silent:
            return node
        others = sorted(b.node_id for b in self._net.cluster.brokers() if b.node_id not in silent)
        if not others:
            silent.clear()
        return others[0] if others else node

    def _by_leader(
        self, pending: Mapping[tuple[int, TopicPartition], int]
    ) -> dict[tuple[int, int], list[TopicPartition]]:
        leaders = self.leaders({tp for _, tp in pending})
        groups: dict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
        for i, tp in pending:
            if tp in leaders:
                groups[leaders[tp], i].append(tp)
        return groups

    def _still_existing(
        self, pending: dict[tuple[int, TopicPartition], int]
    ) -> dict[tuple[int, TopicPartition], int]:
        """What is worth asking again, after fresh metadata."""
        self.wait(max(self._options.retry_backoff_ms, 10) / 1000)
        topics = self.topics({tp.topic for _, tp in pending})
        return {
            (i, tp): at
            for (i, tp), at in pending.items()
            if tp.topic in topics and tp.partition in topics[tp.topic].leaders
        }

    def _exchange(self, requests: list[tuple[int, Any, int]], deadline: float) -> Iterable[tuple[int, Any]]:
        """Send everything, then wait; yields the tag and response of what was answered.

        A leader that was silent the last time is given less time, so that it does not slow every plan down.
        """
        in_flight = [(node, self.send(node, request), tag) for node, request, tag in requests]
        began = time.monotonic()
        for node, future, tag in in_flight:
            until = min(deadline, began + _SILENT_LEADER_PATIENCE_S) if node in self._silent else deadline
            self.wait(until - time.monotonic(), future)
            if future.succeeded():
                self._silent.discard(node)
                yield tag, future.value
            elif not future.is_done:
                self._silent.add(node)
