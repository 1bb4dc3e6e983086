"""Several real Kafka brokers, for tests in which leaders die, freeze and move."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flip27_stream.testing.faulty_network.link import Through
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.kafka.node import Node, PlainListeners, new_cluster_id, node_properties
from flip27_stream.testing.kafka.topics import Topics
from flip27_stream.testing.waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

_HEAP = "192m"
_TIME_LIMIT_MS = 2_000


class KafkaCluster(Topics):
    """A context manager like :class:`~flip27_stream.testing.KafkaBroker`, with several nodes. Their ids begin at 1.

    Each node is broker and controller, so more than half of them must be running. By default topics have a replica on
    every node. A leader that is killed or paused is replaced within about four seconds. At the end all nodes are
    killed.

    Args:
        nodes: The number of nodes.
        properties: Properties that are added to the brokers' configuration, or replace properties there.
        through: Makes a link to each node, "node-1" and so on, as for :class:`~flip27_stream.testing.KafkaBroker`.
            Messages between nodes bypass the links.

    Raises:
        ConnectorError: A node did not start. The message ends with the last lines of its log.
    """

    def __init__(
        self, nodes: int = 3, properties: Mapping[str, str] | None = None, *, through: Through | None = None
    ) -> None:
        self._through = through
        self._extra = dict(properties or {})
        self._ids = range(1, nodes + 1)
        self._home: Path | None = None
        self._nodes: dict[int, Node] = {}
        self._plain: dict[int, PlainListeners] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, running or not, as ``host:port`` separated by commas."""
        return ",".join(self.address(node) for node in self._nodes)

    @property
    def direct_servers(self) -> str:
        return ",".join(node.address for node in self._nodes.values())

    @property
    def nodes(self) -> list[int]:
        """The ids of the nodes that are neither killed nor paused."""
        return [number for number, node in self._nodes.items() if node.up]

    def address(self, node: int) -> str:
        """Returns the address of a node for clients, as ``host:port``."""
        return self._plain[node].address

    def pid(self, node: int) -> int:
        """Returns the process id of a running or paused node. A restart changes it."""
        return self._nodes[node].pid

    def __enter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix="flip27-kafka-cluster-"))
        try:
            self._lay_out(self._home)
            cluster_id = new_cluster_id()
            with ThreadPoolExecutor(len(self._nodes)) as pool:
                list(pool.map(lambda node: node.format(cluster_id), self._nodes.values()))
            for node in self._nodes.values():
                node.launch()
            for node in self._nodes.values():
                node.wait_until_ready()
            self._wait_until_members(set(self._nodes))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills all nodes and removes their data. Does nothing if no node was started or all are stopped."""
        for node in self._nodes.values():
            if node.running:
                node.kill()
        self._nodes, self._plain = {}, {}
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def pause(self, node: int) -> None:
        """Freezes a node (SIGSTOP): connections stay open and it does not answer."""
        self._nodes[node].pause()

    def resume(self, node: int) -> None:
        """Resumes a paused node (SIGCONT)."""
        self._nodes[node].resume()

    def kill(self, node: int) -> None:
        """Kills a node without a clean shutdown (SIGKILL), as a power failure does."""
        self._nodes[node].kill()

    def restart(self, node: int) -> None:
        """Starts a node again on the same data and address.

        Returns when it answers and is a member of the cluster again.
        """
        started = self._nodes[node]
        if started.running:
            started.kill()
        started.launch()
        started.wait_until_ready()
        self._wait_until_members({node})

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Returns the node that leads a partition. Waits until a running node leads it."""
        found: list[int] = []

        def led() -> bool:
            found[:] = [self._leaders(self.nodes[0], topic).get(partition, -1)]
            return found[0] in self.nodes

        wait_until(led, f"a leader of {topic}-{partition}")
        return found[0]

    def _lay_out(self, home: Path) -> None:
        controllers = {number: free_port() for number in self._ids}
        for number in self._ids:
            directory = home / f"node-{number}"
            directory.mkdir()
            plain = self._plain[number] = PlainListeners.open(f"node-{number}", self._through)
            properties = node_properties(number, controllers, plain.ports, plain.advertised)
            properties |= self._extra
            self._nodes[number] = Node(directory, plain.direct_port, properties, _HEAP, scratch=home)

    def _wait_until_members(self, wanted: set[int]) -> None:
        def joined() -> bool:
            answer = self._metadata(self.nodes[0])
            return answer is not None and wanted <= {broker.node_id for broker in answer.brokers}

        wait_until(joined, f"nodes {sorted(wanted)} to be members of the cluster")

    def _wait_until_known(self, topic: str, partitions: int) -> None:
        """Waits until each running node knows a leader of each partition of a topic; nodes learn of it one by one."""
        for node in self.nodes:
            wait_until(partial(self._knows, node, topic, partitions), f"node {node} to know topic '{topic}'")

    def _knows(self, node: int, topic: str, partitions: int) -> bool:
        """Returns whether a node knows a leader of each partition, or has been killed or paused meanwhile."""
        if node not in self.nodes:
            return True
        leaders = self._leaders(node, topic)
        return len(leaders) == partitions and min(leaders.values()) >= 0

    def _leaders(self, node: int, topic: str) -> dict[int, int]:
        """Returns the leaders of a topic by partition, as a node knows them: -1 for a partition without a leader."""
        answer = self._metadata(node, topic)
        topics = [] if answer is None else answer.topics
        return {each.partition_index: each.leader_id for known in topics for each in known.partitions}

    def _metadata(self, node: int, *topics: str) -> Any:
        """Returns the cluster metadata from a node, or ``None`` if it did not answer."""
        from kafka.errors import KafkaError

        from flip27_stream.connectors.kafka.kafka_python.blocking_client import BlockingClient

        try:
            with BlockingClient(self._nodes[node].address, _TIME_LIMIT_MS) as client:
                return client.metadata(node, topics)
        except KafkaError:
            return None
