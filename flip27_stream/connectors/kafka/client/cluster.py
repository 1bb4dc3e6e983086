"""The brokers and leaders of one cluster: the first contact, and metadata from the first broker that answers."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable
from typing import Any

from flip27_stream.connectors.kafka.client.backoff import Backoff
from flip27_stream.connectors.kafka.client.first_answer import FirstAnswer
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata, topics_in, unsure_topics
from flip27_stream.connectors.kafka.connections.broker_connections import BrokerConnections
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.connections.diagnosis import diagnose
from flip27_stream.connectors.kafka.kafka_python.messages import MetadataRequest, bootstrap_addresses
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError, UnreachableError

_LEAST_BACKOFF_MS = 10
_DOUBT_S = 1.0


class Cluster:
    """The metadata of a cluster, and the connections to its brokers. Not thread-safe.

    The first request makes the first contact with the cluster.

    Attributes:
        options: The options of the connections.
        cluster_id: The id of the cluster that answered last; empty if brokers do not send it.
        retry: The backoff of requests for metadata because a leader is unknown or was wrong.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.cluster_id = ""
        self.retry = Backoff(max(options.retry_backoff_ms, _LEAST_BACKOFF_MS) / 1000)
        self._connections: BrokerConnections | None = None
        self._servers: dict[int, tuple[str, int]] = {}  # The bootstrap servers.
        self._brokers: dict[int, tuple[str, int]] = {}  # The brokers in the last metadata response.
        self._leaders: dict[TopicPartition, int] = {}
        self._forgotten: set[TopicPartition] = set()
        self._known_at: dict[str, float] = {}
        self._unsure: dict[str, str] = {}  # The retriable errors in the last response, by topic.
        # The addresses of all known brokers, also of those that have left the cluster.
        self._addresses: dict[int, str] = {}

    @property
    def connections(self) -> BrokerConnections:
        """The connections to the brokers of the cluster.

        Raises:
            UnreachableError: The first contact failed.
            AuthenticationError: A bootstrap server refuses this client, or its certificate is not trusted.
        """
        if self._connections is None:
            made = BrokerConnections(self.options)
            try:
                self._bootstrap(made)
            except BaseException:
                made.close()
                raise
            self._connections = made
        return self._connections

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def topics(self, names: Collection[str] | None, within_ms: int | None = None) -> dict[str, TopicMetadata]:
        """Returns the topics that exist, by name. Arguments and errors are those of :meth:`KafkaClient.topics`."""
        connections = self.connections
        within_ms = within_ms or self.options.api_timeout_ms
        found = self._ask(names, within_ms / 1000)
        if found is None:
            error = self._unreachable(connections, within_ms)
            self.close()  # The next call bootstraps again, because all known addresses may be outdated.
            raise error
        return found

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the known leaders, by partition.

        Requests metadata of unknown leaders first, unless it was just requested.
        """
        wanted = list(partitions)
        leaders = self._known_leaders(wanted)
        now = time.monotonic()
        oldest = now - self.options.metadata_max_age_ms / 1000
        unknown = {tp.topic for tp in wanted if tp not in leaders} if len(leaders) < len(wanted) else set()
        topics = {tp.topic for tp in wanted}
        doubtful = {topic for topic in topics if self._known_at.get(topic, -math.inf) < oldest}
        if (unknown or doubtful) and self.retry.is_due(now):
            self.retry.tried(now)
            if unknown:
                self.topics(unknown | doubtful)
            else:
                self._ask(doubtful, _DOUBT_S)
            return self._known_leaders(wanted)
        return leaders

    def leader(self, tp: TopicPartition) -> int | None:
        """Returns the leader of a partition; ``None`` if it is not known."""
        leader = self._leaders.get(tp, -1)
        return None if leader < 0 or tp in self._forgotten else leader

    def mark_leader_outdated(self, tp: TopicPartition) -> None:
        """Marks the leader of a partition as outdated. It is used until metadata has been requested again."""
        self._known_at.pop(tp.topic, None)

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Marks the leaders of these partitions as unknown, so that metadata is requested before the next request."""
        self._forgotten.update(partitions)

    def endpoint(self, node: int) -> tuple[str, int] | None:
        """Returns host and port of a broker; ``None`` if the broker is not known."""
        return None if self._connections is None else self._connections.address(node)

    def address(self, node: int) -> str:
        """Returns the address of a broker for error messages, also of a broker that has left the cluster."""
        return f"broker {node} at {self._addresses[node]}" if node in self._addresses else f"broker {node}"

    def why_silent(self, tp: TopicPartition) -> str:
        """Returns the reason why no answer about a partition came, for messages."""
        leader = self._leaders.get(tp, -1)
        if leader < 0:
            return "it has no leader"
        failure = None if self._connections is None else self._connections.failure(leader)
        return f"its leader, {self.address(leader)}, did not answer{f' ({failure})' if failure else ''}"

    def _known_leaders(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        known, forgotten = self._leaders, self._forgotten
        leaders = {tp: leader for tp in wanted if (leader := known.get(tp, -1)) >= 0}
        return {tp: leader for tp, leader in leaders.items() if tp not in forgotten} if forgotten else leaders

    def _ask(self, names: Collection[str] | None, seconds: float) -> dict[str, TopicMetadata] | None:
        """Returns the topics by name; ``None`` if no broker answered within ``seconds``."""
        connections = self.connections
        question = FirstAnswer(connections, lambda: _metadata_request(names), self._is_news)
        response = question.get(seconds)
        if response is None:
            return None
        self._note_brokers(connections, response)
        self.cluster_id = response.cluster_id or ""
        found = topics_in(response)
        now = time.monotonic()
        for name, topic in found.items():
            self._known_at[name] = now
            leaders = {TopicPartition(name, n): leader for n, leader in topic.leaders.items()}
            self._leaders |= leaders
            self._forgotten -= leaders.keys()
        return found

    def _bootstrap(self, connections: BrokerConnections) -> None:
        """Makes the first contact.

        If all servers fail, the reason is diagnosed at once, so that a wrong password is reported early.
        """
        canonical = self.options.dns_lookup == "resolve_canonical_bootstrap_servers_only"
        addresses = bootstrap_addresses(self.options.bootstrap_servers, canonical=canonical)
        self._servers = {-1 - n: address for n, address in enumerate(addresses)}
        connections.know(self._servers)
        diagnosed: list[bool] = []

        def ask_why() -> None:
            diagnosed.append(True)
            if (reason := self._diagnosis(connections)) is not None:
                raise reason

        time_limit_ms = self.options.first_contact_timeout_ms
        question = FirstAnswer(
            connections, lambda: _metadata_request([]), lambda _, found: bool(found.brokers)
        )
        response = question.get(time_limit_ms / 1000, ask_why)
        if response is None:
            raise self._unreachable(connections, time_limit_ms, ask_why=not diagnosed)
        connections.know(_brokers(response))
        self._note_brokers(connections, response)

    def _is_news(self, node: int, response: Any) -> bool:
        """Returns whether a metadata response can be used.

        A bootstrap server is asked only because the known brokers do not answer. So its response is refused if it has
        the same brokers.
        """
        found, self._unsure = _brokers(response), unsure_topics(response)
        return bool(found) and not self._unsure and (node >= 0 or found != self._brokers)

    def _note_brokers(self, connections: BrokerConnections, response: Any) -> None:
        self._brokers = _brokers(response)
        self._addresses |= {node: f"{host}:{port}" for node, (host, port) in self._brokers.items()}
        connections.know(self._servers | self._brokers)

    def _unreachable(
        self, connections: BrokerConnections, tried_ms: int, *, ask_why: bool = True
    ) -> ConnectorError:
        if ask_why and (reason := self._diagnosis(connections)) is not None:
            return reason
        if self._unsure:
            errors = ", ".join(f"'{name}': {error}" for name, error in sorted(self._unsure.items()))
            return UnreachableError(
                f"No Kafka broker returned metadata of all topics within {tried_ms / 1000:g} s ({errors}). Check that "
                f"the brokers at {self.options.bootstrap_servers} run without errors."
            )
        failures = [connections.failure(node) for node in connections.nodes()]
        cause = next((failure for failure in failures if failure is not None), None)
        named = ", ".join(self.address(node) for node in sorted(self._addresses))
        return UnreachableError(
            f"No Kafka broker answered at {self.options.bootstrap_servers} within {tried_ms / 1000:g} s"
            f"{f' ({cause})' if cause else ''}. {f'The cluster named {named}. ' if named else ''}"
            "Check option 'kafka.bootstrap.servers', that the brokers run, and that "
            "they advertise addresses this machine can reach."
        )

    def _diagnosis(self, connections: BrokerConnections) -> ConnectorError | None:
        """Returns the error in the options that made servers close or ignore connections; ``None`` without one."""
        odd = (
            connections.was_reached
            if self.options.security.ssl is not None
            else connections.closed_last_connection
        )
        addresses = [connections.address(node) for node in connections.nodes() if odd(node)]
        return diagnose(self.options, [f"{host}:{port}" for host, port in filter(None, addresses)])


def _brokers(response: Any) -> dict[int, tuple[str, int]]:
    """Returns host and port of each broker in a MetadataResponse, by id."""
    return {int(broker.node_id): (str(broker.host), int(broker.port)) for broker in response.brokers or ()}


def _metadata_request(names: Collection[str] | None) -> Any:
    topic = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic(name=name) for name in sorted(names)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)
