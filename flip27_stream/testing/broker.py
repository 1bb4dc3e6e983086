"""A real Kafka broker for tests and demos: one node, its own controller (KRaft), on free loopback ports."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.testing import jars
from flip27_stream.testing.child import Child, free_port
from flip27_stream.testing.java import java
from flip27_stream.testing.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaAdminClient
    from typing_extensions import Self

Record = (
    tuple[int, int, bytes | None, bytes | None]
    | tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
)
"""Partition, timestamp in milliseconds since the epoch, key, value, and headers if there are any."""

_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0

_LOG4J = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


class KafkaBroker:
    """A context manager that starts a broker and stops it again, whatever happens inside.

    The broker keeps records of any age, creates no topic by itself and knows transactions. Its data live in
    a temporary directory that is removed at the end; :meth:`kill` and :meth:`restart` keep them, and the
    address. If the process that started it dies, by ``kill -9`` too, the broker goes with it.

    ``properties`` are added to the broker's configuration, or replace what is there.

    Raises:
        ConnectorError: it did not start; the message ends with the last lines of its log.
    """

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._extra = dict(properties or {})
        self._port = 0
        self._home: Path | None = None
        self._child: Child | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the running (or paused) broker; another one after a restart."""
        return self._running().pid

    def __enter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix="flip27-kafka-"))
        try:
            self._port, controller_port = free_port(), free_port()
            self._write_configuration(controller_port)
            self._format()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the broker and remove its data; does nothing where it was not started or is stopped."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)
            self._child = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open and nobody answers."""
        self._running().pause()

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._running().resume()

    def kill(self) -> None:
        """End the broker without a chance to tidy up (SIGKILL), as a power cut would."""
        self._running().kill()
        self._child = None

    def restart(self) -> None:
        """Start again on the same data and address, killed or running; returns when the broker answers."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)
            self._child = None
        self._start()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; returns when each of its partitions has a leader."""
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
        with self._admin() as admin:
            admin.create_topics({name: options}, wait_for_metadata=True)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when the broker no longer lists it."""
        with self._admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), f"topic '{name}' to be deleted")

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """Append records, each to the partition it names; returns when the broker has them all.

        For hundreds of thousands use :func:`flip27_stream.testing.write_bulk`.
        """
        from kafka import KafkaProducer

        with closing(KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5)) as producer:
            sent = [
                producer.send(
                    topic,
                    partition=partition,
                    timestamp_ms=timestamp,
                    key=key,
                    value=value,
                    headers=list(headers[0]) if headers else None,
                )
                for partition, timestamp, key, value, *headers in records
            ]
            producer.flush()
            for future in sent:
                future.get(timeout=30)

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        from kafka import KafkaAdminClient

        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)) as admin:
            yield admin

    def _running(self) -> Child:
        if self._child is None:
            raise ConnectorError(
                "The broker is not running: enter the context, or restart() it after kill()."
            )
        return self._child

    def _write_configuration(self, controller_port: int) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self._file("data")),
            "auto.create.topics.enable": "false",
            # Records with the event times of last year stay.
            "log.retention.ms": "-1",
            "log.message.timestamp.after.max.ms": str(2**63 - 1),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Small, and quick to come back after kill -9.
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.index.size.max.bytes": "1048576",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "300",
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.fetch.timeout.ms": "1000",
            **self._extra,
        }
        self._file("server.properties").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        self._file("log4j2.properties").write_text(_LOG4J)

    def _file(self, name: str) -> Path:
        if self._home is None:
            raise ConnectorError("The broker was not started, or has been stopped: enter the context.")
        return self._home / name

    def _java(self, main: str, *arguments: str) -> list[str]:
        classpath = os.pathsep.join(str(jar) for jar in jars.fetch(jars.KAFKA_BROKER))
        logging = f"-Dlog4j2.configurationFile={self._file('log4j2.properties')}"
        return [java(), *_JVM, logging, "-cp", classpath, main, *arguments]

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        configuration = str(self._file("server.properties"))
        # "--cluster-id=ID" because an id may begin with a dash.
        command = self._java(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", configuration
        )
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ConnectorError(f"Kafka could not format its storage:\n{done.stdout}{done.stderr}")

    def _start(self) -> None:
        command = self._java("kafka.Kafka", str(self._file("server.properties")))
        log = self._file("broker.log")
        child = self._child = Child(command, log=log, scratch=log.parent)

        def ready() -> bool:
            answers = answers_api_versions("127.0.0.1", self._port)
            if not child.running:
                raise ConnectorError(f"The Kafka broker ended while it started:\n{child.tail()}")
            return answers

        try:
            wait_until(ready, "the broker", _START_SECONDS)
        except TimeoutError as error:
            raise UnreachableError(
                f"The Kafka broker did not answer within {_START_SECONDS:g} s:\n{child.tail()}"
            ) from error


def answers_api_versions(host: str, port: int, timeout: float = 1.0) -> bool:
    """Whether a broker answers there: a connection alone is made before it does."""
    api_versions_v0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(api_versions_v0)
            answer = connection.recv(10)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)
