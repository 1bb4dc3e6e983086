"""One Kafka broker process that is its own controller, too: its configuration, its storage, its start and its end."""

from __future__ import annotations

import base64
import os
import socket
import struct
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing import jars
from flip27_stream.testing.child import Child
from flip27_stream.testing.class_archive import ClassArchive
from flip27_stream.testing.faulty_network.link import Through
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.java import java
from flip27_stream.testing.waiting import wait_until

_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0

PLAINTEXT = "PLAINTEXT"

_CHECKPOINT = "bootstrap.checkpoint"
_first_checkpoint: list[bytes] = []
"""What Kafka's tool wrote for the first storage without users of this process: the metadata with which each begins."""
_formatting = threading.Lock()

_DIRECT = "DIRECT"
_PROTOCOLS = {"CONTROLLER": PLAINTEXT, _DIRECT: PLAINTEXT, "MUTUAL_TLS": "SSL"}
_LISTENERS = [*_PROTOCOLS, PLAINTEXT, "SASL_PLAINTEXT", "SSL", "SASL_SSL"]

_LOG4J = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


def node_properties(
    node: int, controllers: Mapping[int, int], listeners: Mapping[str, int], advertised: Mapping[str, str]
) -> dict[str, str]:
    """Returns the configuration of one node, for ``server.properties``.

    The broker keeps records of any age, does not create topics automatically, and supports transactions.

    Args:
        node: The id of the node.
        controllers: The controller ports of all nodes, by their ids.
        listeners: The ports of this node's listeners, by their names.
        advertised: The ``host:port`` that is advertised to clients of each listener.
    """
    nodes = len(controllers)
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controllers[node]}",
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{_PROTOCOLS.get(n, n)}" for n in _LISTENERS),
        "inter.broker.listener.name": _DIRECT if _DIRECT in listeners else PLAINTEXT,
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(nodes),
        "min.insync.replicas": str(min(2, nodes)),
        # Records keep event times of any age.
        "log.retention.ms": "-1",
        "log.message.timestamp.after.max.ms": str(2**63 - 1),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Small, so that the broker restarts fast after kill -9.
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.index.size.max.bytes": "1048576",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "300",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
    }


@dataclass(frozen=True)
class PlainListeners:
    """The listeners of a node that need no authentication.

    Attributes:
        port: The port of the listener for clients.
        address: The advertised ``host:port``, which is that of the link if there is one.
        direct_port: The port for brokers and the test kit, the same as ``port`` if there is no link.
    """

    port: int
    address: str
    direct_port: int

    @staticmethod
    def open(link: str, through: Through | None) -> PlainListeners:
        """Returns listeners on free ports. The link gets the name ``link``."""
        port = free_port()
        address = f"127.0.0.1:{port}"
        if through is None:
            return PlainListeners(port, address, port)
        return PlainListeners(port, through(link, address).address, free_port())

    @property
    def ports(self) -> dict[str, int]:
        """The ports, by the name of the listener."""
        return {PLAINTEXT: self.port} | ({} if self.direct_port == self.port else {_DIRECT: self.direct_port})

    @property
    def advertised(self) -> dict[str, str]:
        """The advertised ``host:port``, by the name of the listener."""
        direct = {} if self.direct_port == self.port else {_DIRECT: f"127.0.0.1:{self.direct_port}"}
        return {PLAINTEXT: self.address} | direct


class Node:
    """A broker process in the directory ``home``, which must exist.

    If this process dies first, even by ``kill -9``, the node is killed and ``scratch`` (by default ``home``) is
    removed. ``class_options`` are options for the JVM in place of those that use the archive of classes.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        properties: Mapping[str, str],
        heap: str,
        scratch: Path | None = None,
        class_options: Sequence[str] | None = None,
    ) -> None:
        self.port = port
        self._home, self._heap, self._scratch = home, heap, scratch or home
        self._class_options = class_options
        self._child: Child | None = None
        self._paused = False
        lines = {"log.dirs": str(home / "data"), **properties}
        self._node_id, self._data = lines["node.id"], lines["log.dirs"]
        self._one_folder = "," not in self._data and not {"log.dir", "metadata.log.dir"} & lines.keys()
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        (home / "log4j2.properties").write_text(_LOG4J)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the node was started and not killed. It can be paused."""
        return self._child is not None

    @property
    def up(self) -> bool:
        """Whether the node is running and not paused."""
        return self.running and not self._paused

    def format(self, cluster_id: str, scram_users: Iterable[str] = ()) -> None:
        """Formats the storage. ``scram_users`` are arguments of ``--add-scram``.

        Kafka's tool takes more than a second of processor time. So a storage without users gets a copy of what the tool
        wrote for the first one of this process.
        """
        users = list(scram_users)
        if users or not self._one_folder:
            self._run_storage_tool(cluster_id, users)
            return
        data = Path(self._data)
        with _formatting:
            if not _first_checkpoint:
                self._run_storage_tool(cluster_id, users)
                _first_checkpoint.append((data / _CHECKPOINT).read_bytes())
                return
        data.mkdir(parents=True, exist_ok=True)
        (data / _CHECKPOINT).write_bytes(_first_checkpoint[0])
        ids = {"cluster.id": cluster_id, "node.id": self._node_id, "directory.id": new_cluster_id()}
        lines = [f"{name}={value}\n" for name, value in {"version": "1", **ids}.items()]
        (data / "meta.properties").write_text("".join(lines))

    def _run_storage_tool(self, cluster_id: str, scram_users: Iterable[str]) -> None:
        # "--cluster-id=ID", since an id can begin with a dash.
        options = [f"--cluster-id={cluster_id}", "--config", str(self._configuration)]
        for user in scram_users:
            options += ["--add-scram", user]
        command = self._java("kafka.tools.StorageTool", "format", *options)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ConnectorError(f"Kafka could not format its storage:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        """Starts the process; see :meth:`wait_until_ready`."""
        command = self._java("kafka.Kafka", str(self._configuration))
        self._paused = False
        self._child = Child(command, log=self._home / "broker.log", scratch=self._scratch)

    def wait_until_ready(self) -> None:
        """Returns when the node answers requests.

        Raises:
            ConnectorError: The process of the node ended.
            UnreachableError: The node did not answer in time.
        """
        child = self._running()

        def ready() -> bool:
            answers = answers_api_versions("127.0.0.1", self.port)
            if not child.running:
                raise ConnectorError(f"The Kafka broker ended while it started:\n{child.tail()}")
            return answers

        try:
            wait_until(ready, "the broker", _START_SECONDS)
        except TimeoutError as error:
            raise UnreachableError(
                f"The Kafka broker did not answer within {_START_SECONDS:g} s:\n{child.tail()}"
            ) from error

    def pause(self) -> None:
        self._running().pause()
        self._paused = True

    def resume(self) -> None:
        self._running().resume()
        self._paused = False

    def kill(self) -> None:
        self._running().kill()
        self._child = None

    def stop(self) -> None:
        """Ends the node with a clean shutdown. Does nothing if it does not run."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)
            self._child = None

    def _running(self) -> Child:
        if self._child is None:
            raise ConnectorError(
                "The broker is not running: enter the context, or restart() it after kill()."
            )
        return self._child

    @property
    def _configuration(self) -> Path:
        return self._home / "server.properties"

    def _java(self, main: str, *arguments: str) -> list[str]:
        fetched = jars.fetch(jars.KAFKA_BROKER)
        classes = ClassArchive.beside(fetched).options if self._class_options is None else self._class_options
        logging = f"-Dlog4j2.configurationFile={self._home / 'log4j2.properties'}"
        classpath = os.pathsep.join(map(str, fetched))
        return [java(), f"-Xmx{self._heap}", *_JVM, *classes, logging, "-cp", classpath, main, *arguments]


def archive_classes() -> None:
    """Makes the archive of the classes that a node loads, unless it exists."""

    def run(class_options: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory(prefix="flip27-broker-") as home:
            plain = PlainListeners.open(PLAINTEXT, None)
            properties = node_properties(1, {1: free_port()}, plain.ports, plain.advertised)
            node = Node(Path(home), plain.port, properties, "512m", class_options=class_options)
            node.format(new_cluster_id())
            node.launch()
            node.wait_until_ready()
            node.stop()

    ClassArchive.beside(jars.fetch(jars.KAFKA_BROKER)).make(run)


def new_cluster_id() -> str:
    """Returns a new id of a cluster or of a folder of data, in Kafka's form: 16 random bytes in Base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def answers_api_versions(host: str, port: int, timeout: float = 1.0) -> bool:
    """Returns whether a broker answers a request. A connection can be made before it answers."""
    api_versions_v0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(api_versions_v0)
            answer = connection.recv(10)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)
