"""A real Kafka broker for tests and demos: one node with its own controller (KRaft), on free loopback ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from flip27_stream.testing.faulty_network.link import Through
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.kafka.node import (
    PLAINTEXT,
    Node,
    PlainListeners,
    new_cluster_id,
    node_properties,
)
from flip27_stream.testing.kafka.secure_listeners import SecureListener, SecureListeners
from flip27_stream.testing.kafka.topics import Topics
from flip27_stream.testing.server import Server

_HEAP = "512m"


class KafkaBroker(Topics, Server[Node]):
    """A context manager that starts a broker, and stops it at the end of the block.

    The broker keeps records of any age, does not create topics automatically, and supports transactions. Its data are
    in a temporary directory that is removed at the end. :meth:`kill` and :meth:`restart` keep the data and the address.
    If the process that started it dies, even by ``kill -9``, the broker ends with it.

    Args:
        properties: Properties that are added to the broker's configuration, or replace properties there.
        listeners: Listeners to open besides :attr:`bootstrap_servers`, which needs no authentication. :attr:`secure`
            has what clients need to connect to them.
        through: Makes a link to each listener, with its name ("PLAINTEXT", "SASL_SSL", ...). The broker advertises the
            address of the link. Use :meth:`FaultyNetwork.link <flip27_stream.testing.FaultyNetwork.link>`. The test
            kit, and clients of :attr:`direct_servers`, bypass the link.

    Raises:
        ConnectorError: The broker did not start. The message ends with the last lines of its log.
    """

    kind = "broker"

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        listeners: Collection[SecureListener] = (),
        through: Through | None = None,
    ) -> None:
        self._extra = dict(properties or {})
        self._listeners = tuple(listeners)
        self._through = through
        self._plain = PlainListeners(0, "127.0.0.1:0", 0)
        self._secure: SecureListeners | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as ``host:port``."""
        return self._plain.address

    @property
    def direct_servers(self) -> str:
        return f"127.0.0.1:{self._plain.direct_port}"

    @property
    def secure(self) -> SecureListeners:
        """The listeners that were requested, with users, passwords and certificates."""
        if self._secure is None:
            raise self._not_started()
        return self._secure

    def _wait_until_known(self, topic: str, partitions: int) -> None:
        """Does nothing: the only node of this broker has created the topic, so it knows the topic."""

    def _start(self, home: Path) -> None:
        self._secure = SecureListeners(self._listeners, home, self._through)
        self._plain = PlainListeners.open(PLAINTEXT, self._through)
        ports = {**self._plain.ports, **self._secure.ports}
        advertised = {**self._plain.advertised, **self._secure.advertised}
        properties = node_properties(1, {1: free_port()}, ports, advertised)
        properties |= {**self._secure.properties(), **self._extra}
        self._process = Node(home, self._plain.direct_port, properties, _HEAP)
        self._process.format(new_cluster_id(), self._secure.scram_users)
        self._process.launch()
        self._process.wait_until_ready()

    def _end(self) -> None:
        if self._process is not None:
            self._process.stop()
        self._secure = None

    def restart(self) -> None:
        """Starts the killed or running broker again on the same data and address. Returns when it answers."""
        node = self._started()
        node.stop()
        node.launch()
        node.wait_until_ready()
