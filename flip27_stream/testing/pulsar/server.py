"""A real Pulsar server for tests: broker, bookie and metadata in one process (standalone), on free loopback ports.

``python -m flip27_stream.testing.pulsar`` fetches its jars, which takes some minutes the first time. They are stored
where :mod:`flip27_stream.testing.kinesis.node_packages` stores its packages.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing.child import Child
from flip27_stream.testing.class_archive import ClassArchive
from flip27_stream.testing.faulty_network.link import Link, Through
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.java import java
from flip27_stream.testing.pulsar.server_jars import fetch
from flip27_stream.testing.server import Server
from flip27_stream.testing.waiting import wait_until

_START_SECONDS = 90.0
_STOP_SECONDS, _ARCHIVE_SECONDS = 5.0, 120.0
_REQUEST_SECONDS = 30.0
_NAMESPACE = "public/default"
_LINK = "link"  # The name of the listener that clients reach through a link.

_JVM = (
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
)
_OPENED = (
    "java.base/jdk.internal.loader",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
    "java.base/jdk.internal.platform",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.util.zip",
    "java.base/java.lang",
    "java.base/java.io",
    "java.base/sun.nio.ch",
)
_SETTINGS: Mapping[str, str] = {
    "clusterName": "standalone",
    "bindAddress": "127.0.0.1",
    "metadataStoreUrl": "",
    "configurationMetadataStoreUrl": "",
    "bookkeeperMetadataServiceUri": "",
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "allowAutoTopicCreation": "false",
    "defaultNumberOfNamespaceBundles": "1",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
    "loadBalancerEnabled": "false",
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
    "managedLedgerCacheSizeMB": "32",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "numIOThreads": "2",
    "numHttpServerThreads": "4",
    "brokerShutdownTimeoutMs": "2000",
    # Settings of the bookie, which has a port of its own.
    "listeningInterface": "lo",
    "allowLoopback": "true",
    "nettyMaxFrameSizeBytes": "5253120",
    "journalSyncData": "false",
    "journalMaxGroupWaitMSec": "1",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "httpServerEnabled": "false",
}
_LOG4J = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class PulsarServer(Server[Child]):
    """A context manager that starts a standalone server, and stops it at the end of the block.

    ::

        with PulsarServer() as server:
            server.create_topic("clicks", partitions=2)
            server.put("clicks-partition-0", [b"first", b"second"])
            spark.readStream.format("flip27_pulsar").options(**server.options, topic="clicks")

    Topics are kept for ever, and are not created automatically. :meth:`kill` and :meth:`restart` keep the data and the
    addresses. If the process that started it dies, even by ``kill -9``, the server ends with it.

    Args:
        settings: Settings that are added to those of the server, or replace them.
        through: Makes a link, "pulsar", as ``FaultyNetwork.link`` does. Only :attr:`options` lead through it.
        token: The token with which this class authenticates, if ``settings`` ask for authentication.

    Raises:
        ConnectorError: The server did not start. The message ends with the last lines of its log.
    """

    kind = "Pulsar server"
    _class_options: Sequence[str] | None = None
    _stop_s = _STOP_SECONDS

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        through: Through | None = None,
        token: str | None = None,
    ) -> None:
        self._extra = dict(settings or {})
        self._through = through
        self._token = token
        self._credentials = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._link: Link | None = None
        self._port = self._web_port = 0
        self._client: Any = None

    @property
    def address(self) -> str:
        """The address of the binary protocol, as ``host:port``."""
        return f"127.0.0.1:{self._port}"

    @property
    def service_url(self) -> str:
        return f"pulsar://{self.address}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._web_port}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which ``flip27_pulsar`` connects."""
        if self._link is None:
            return {"service.url": self.service_url}
        return {"service.url": f"pulsar://{self._link.address}", "pulsar.client.listenerName": _LINK}

    @property
    def client(self) -> Any:
        """A client of pulsar-client."""
        if self._client is None:
            raise self._not_started()
        return self._client

    def _start(self, home: Path) -> None:
        import pulsar

        self._port, self._web_port = free_port(), free_port()
        self._link = None if self._through is None else self._through("pulsar", self.address)
        self._launch()
        self._client = pulsar.Client(
            self.service_url,
            authentication=None if self._token is None else pulsar.AuthenticationToken(self._token),
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )

    def _end(self) -> None:
        if self._client is not None:
            self._client.shutdown()
            self._client = None
        if self._process is not None:
            self._process.stop(self._stop_s)

    def restart(self) -> None:
        """Starts the killed or running server again on the same data and addresses.

        Returns when it answers.
        """
        self._started().kill()
        self._launch()

    def create_topic(self, name: str, partitions: int | None = 1) -> None:
        """Creates a topic. With ``None`` for ``partitions`` the topic is not partitioned."""
        if partitions is None:
            self.admin("PUT", _path(name))
        else:
            self.admin("PUT", f"{_path(name)}/partitions", partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Raises the number of partitions of a topic to ``partitions``."""
        self.admin("POST", f"{_path(name)}/partitions", partitions)

    def delete_topic(self, name: str, *, partitioned: bool = True) -> None:
        self.admin("DELETE", f"{_path(name)}{'/partitions' if partitioned else ''}?force=true")

    def unload(self, partition: str) -> None:
        """Unloads a partition. Its next records are written to a new ledger."""
        self.admin("PUT", f"{_path(partition)}/unload")

    def truncate(self, partition: str) -> None:
        """Deletes all records of a partition. It is unloaded first, since only closed ledgers are trimmed."""
        self.unload(partition)
        self.admin("DELETE", f"{_path(partition)}/truncate")

    def put(
        self, partition: str, values: list[bytes], *, batch: int = 1, **more: Any
    ) -> list[tuple[int, int, int]]:
        """Appends records to one partition (``TOPIC-partition-N``), or to a topic that is not partitioned.

        Args:
            partition: The partition.
            values: The values of the records.
            batch: The number of records in an entry. Entries of one record are not batches.
            more: Arguments of ``Producer.send_async``, for all records.

        Returns:
            The ledger, the entry and the index in the batch of each record.
        """
        producer = self.client.create_producer(
            f"persistent://{_NAMESPACE}/{partition}",
            batching_enabled=batch > 1,
            batching_max_messages=max(batch, 2),
            batching_max_publish_delay_ms=60_000,
            block_if_queue_full=True,
        )
        ids: list[Any] = [None] * len(values)

        def sent(number: int) -> Any:
            def note(result: Any, message_id: Any) -> None:
                ids[number] = message_id

            return note

        try:
            for number, value in enumerate(values):
                producer.send_async(value, sent(number), **more)
            producer.flush()
        finally:
            producer.close()
        wait_until(
            lambda: all(i is not None for i in ids), f"{len(values)} records to be written to {partition}"
        )
        return [(m.ledger_id(), m.entry_id(), m.batch_index()) for m in ids]

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Sends a request of the admin API below ``/admin/v2`` and returns its answer.

        Raises:
            ConnectorError: The server refused the request.
        """
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"} | self._credentials,
        )
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise ConnectorError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text else None

    def _launch(self) -> None:
        assert self._home is not None
        settings = {
            **_SETTINGS,
            "brokerServicePort": str(self._port),
            "webServicePort": str(self._web_port),
            **self._advertised(),
            **self._extra,
        }
        configuration = self._home / "standalone.conf"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging = self._home / "log4j2.properties"
        logging.write_text(_LOG4J)
        jars = fetch()
        classes = ClassArchive.beside(jars).options if self._class_options is None else self._class_options
        command = [java(), *_JVM, *classes, f"-Dlog4j.configurationFile={logging}"]
        command += [word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
        command += ["-cp", os.pathsep.join(map(str, jars)), "org.apache.pulsar.PulsarStandaloneStarter"]
        command += ["--config", str(configuration), "--no-functions-worker", "--no-stream-storage"]
        command += ["--bookkeeper-port", str(free_port())]
        command += ["--metadata-dir", str(self._home / "metadata")]
        command += ["--bookkeeper-dir", str(self._home / "bookkeeper")]
        self._process = Child(command, log=self._home / "log", scratch=self._home)
        self._wait_until_ready(self._process)

    def _advertised(self) -> dict[str, str]:
        """Returns the settings with the addresses that the server tells its clients."""
        if self._link is None:
            return {"advertisedAddress": "127.0.0.1"}
        listeners = {"direct": self.address, _LINK: self._link.address}
        return {
            "advertisedListeners": ",".join(f"{name}:pulsar://{at}" for name, at in listeners.items()),
            "internalListenerName": "direct",
        }

    def _wait_until_ready(self, child: Child) -> None:
        def ready() -> bool:
            if not child.running:
                raise ConnectorError(f"The Pulsar server ended while it started:\n{child.tail()}")
            try:
                return _NAMESPACE in self.admin("GET", "namespaces/public")
            except (ConnectorError, OSError):
                return False

        try:
            wait_until(ready, "the Pulsar server", _START_SECONDS)
        except TimeoutError as error:
            raise UnreachableError(
                f"The Pulsar server did not answer within {_START_SECONDS:g} s:\n{child.tail()}"
            ) from error


def archive_classes() -> None:
    """Makes the archive of the classes that a server loads, unless it exists."""

    def run(class_options: Sequence[str]) -> None:
        server = PulsarServer()
        server._class_options, server._stop_s = class_options, _ARCHIVE_SECONDS
        with server:
            server.create_topic("topic")
            server.put("topic-partition-0", [b"value"])

    ClassArchive.beside(fetch()).make(run)


def _path(topic: str) -> str:
    return f"persistent/{_NAMESPACE}/{topic}"
