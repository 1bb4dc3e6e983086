"""Kinesis emulators for tests: kinesis-local, and kinesalite, which is faster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.child import Child
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.kinesis import node_packages
from flip27_stream.testing.server import Server
from flip27_stream.testing.waiting import wait_until

EMULATORS = ("kinesis-local", "kinesalite")

_READY_S = 30.0
_MOST_RECORDS = 100
"""The greatest number of records of one PutRecords call. The emulators are slow with more."""
_HASH_KEYS = 2**128


class KinesisServer(Server[Child]):
    """A context manager that starts an emulator on a free loopback port, and stops it at the end of the block.

    ::

        with KinesisServer() as server:
            server.create_stream("clicks", shards=2)
            server.put("clicks", [(0, b"first"), (1, b"second")])          # shard number and data
            spark.readStream.format("flip27_kinesis").options(**server.options, streamName="clicks")

    With ``keeps_data`` (kinesis-local only), :meth:`kill` and :meth:`restart` keep the data. If the process that
    started it dies, even by ``kill -9``, the emulator ends with it.

    Args:
        emulator: The emulator: ``kinesis-local``, or ``kinesalite``, which is faster and has no UpdateShardCount.
        keeps_data: Whether data are written to a temporary directory, from which a restarted emulator reads them.

    Raises:
        ConnectorError: Node.js is missing, or the emulator did not start. The message ends with the last lines of its
            log.
    """

    kind = "emulator"

    def __init__(self, emulator: str = "kinesis-local", *, keeps_data: bool = False) -> None:
        if emulator not in EMULATORS:
            raise ValueError(f"emulator must be one of {', '.join(EMULATORS)}, not {emulator!r}")
        self._emulator = emulator
        self._keeps_data = keeps_data
        self._port = 0
        self._client: Any = None

    @property
    def address(self) -> str:
        """The address of the emulator, as ``host:port``."""
        return f"127.0.0.1:{self._port}"

    @property
    def endpoint(self) -> str:
        """The URL for clients."""
        return f"http://{self.address}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which ``flip27_kinesis`` connects."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "awsAccessKey": "test",
            "awsSecretKey": "test",
        }

    @property
    def client(self) -> Any:
        """A boto3 client."""
        if self._client is None:
            raise self._not_started()
        return self._client

    def _start(self, home: Path) -> None:
        import boto3
        from botocore.config import Config

        self._port = free_port()
        self._client = boto3.client(
            "kinesis",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"max_attempts": 3}),
        )
        self._launch()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
        if self._client is not None:
            self._client.close()
            self._client = None

    def restart(self) -> None:
        """Starts the emulator again on the same address, with its data if it keeps them."""
        self._started().kill()
        self._launch()

    def create_stream(self, name: str, shards: int = 1) -> None:
        """Creates a stream. Returns when it is active."""
        self.client.create_stream(StreamName=name, ShardCount=shards)
        self.wait_until_active(name)

    def delete_stream(self, name: str) -> None:
        """Deletes a stream. Returns when the emulator no longer has it, and the second of the deletion is over.

        Sequence numbers begin with the second in which their shard was created. The service takes longer to delete a
        stream, so its numbers never meet those of a new stream of the same name; the emulator's could.
        """
        second = int(time.time())
        self.client.delete_stream(StreamName=name)

        def is_gone() -> bool:
            # A listing has some of the streams only.
            try:
                self.client.describe_stream_summary(StreamName=name)
            except self.client.exceptions.ResourceNotFoundException:
                return True
            return False

        wait_until(is_gone, f"stream {name} to be deleted")
        wait_until(lambda: int(time.time()) > second, "the next second")

    def put(
        self, stream: str, records: Iterable[tuple[int, bytes]], key: str = "key"
    ) -> list[tuple[str, str]]:
        """Appends pairs of shard number and data to the open shards, which are numbered by their hash keys.

        Returns:
            The shard id and the sequence number of each record.

        Raises:
            ConnectorError: The server refused records.
        """
        open_shards = self.open_shards(stream)
        entries = [
            {"Data": data, "PartitionKey": key, "ExplicitHashKey": _middle(open_shards[number])}
            for number, data in records
        ]
        written: list[tuple[str, str]] = []
        for first in range(0, len(entries), _MOST_RECORDS):
            part = entries[first : first + _MOST_RECORDS]
            answer = self.client.put_records(StreamName=stream, Records=part)
            if answer["FailedRecordCount"]:
                raise ConnectorError(f"{answer['FailedRecordCount']} records of {stream} were refused.")
            written += [(r["ShardId"], r["SequenceNumber"]) for r in answer["Records"]]
        return written

    def open_shards(self, stream: str) -> list[Mapping[str, Any]]:
        """Returns the shards that take records, in the order of their hash keys."""
        shards = self.client.list_shards(StreamName=stream)["Shards"]
        parents = {s.get(name) for s in shards for name in ("ParentShardId", "AdjacentParentShardId")}
        leaves = [s for s in shards if s["ShardId"] not in parents]
        return sorted(leaves, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))

    def split(self, stream: str, number: int) -> None:
        """Splits an open shard in the middle. Returns when the stream is active again."""
        shard = self.open_shards(stream)[number]
        self.client.split_shard(
            StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=_middle(shard)
        )
        self.wait_until_active(stream)

    def merge(self, stream: str, number: int) -> None:
        """Merges an open shard with the next one. Returns when the stream is active again."""
        one, other = self.open_shards(stream)[number : number + 2]
        self.client.merge_shards(
            StreamName=stream, ShardToMerge=one["ShardId"], AdjacentShardToMerge=other["ShardId"]
        )
        self.wait_until_active(stream)

    def wait_until_active(self, stream: str) -> None:
        """Waits until the status of the stream is ``ACTIVE``, so that no change of it is in progress."""

        def is_active() -> bool:
            summary = self.client.describe_stream_summary(StreamName=stream)
            return bool(summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE")

        wait_until(is_active, f"stream {stream} to be active")

    def _launch(self) -> None:
        program = node_packages.node()
        if program is None:
            raise ConnectorError("Node.js is not installed, and the Kinesis emulators run in it.")
        assert self._home is not None
        modules = node_packages.fetch()
        script = Path(__file__).with_name("kinesis_server.js")
        settings = self._settings(modules)
        command = ["env", *(f"{name}={value}" for name, value in settings.items())]
        command += [program, str(script), str(modules), self._emulator, str(self._port)]
        self._process = Child(command, log=self._home / "log", scratch=self._home)
        self._wait_until_ready(self._process)

    def _settings(self, modules: Path) -> dict[str, str]:
        steps = ["CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT"]
        steps += ["REGISTER_STREAM_CONSUMER", "DEREGISTER_STREAM_CONSUMER"]
        settings = {
            **{f"{step}_DURATION": "20ms" for step in steps},
            "KINESIS_MOCK_PLAIN_PORT": str(self._port),
            "KINESIS_MOCK_TLS_PORT": str(free_port()),
            "KINESIS_MOCK_CERT_PATH": str(modules / "kinesis-local" / "server.json"),
            "SHARD_LIMIT": "2000",
            "LOG_LEVEL": "ERROR",
        }
        if self._keeps_data:
            settings |= {
                "SHOULD_PERSIST_DATA": "true",
                "PERSIST_PATH": str(self._home),
                "PERSIST_INTERVAL": "200ms",
            }
        return settings

    def _wait_until_ready(self, child: Child) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.client.list_streams()
                return
            except Exception as error:
                if not child.running or time.monotonic() > deadline:
                    raise ConnectorError(
                        f"{self._emulator} did not start at {self.endpoint}: {error}\n{child.tail()}"
                    ) from error
            time.sleep(0.05)


def _middle(shard: Mapping[str, Any]) -> str:
    keys = shard["HashKeyRange"]
    return str((int(keys["StartingHashKey"]) + min(int(keys["EndingHashKey"]), _HASH_KEYS - 1)) // 2)


def skip_reason() -> str | None:
    """Returns the reason why tests with an emulator cannot run on this machine; ``None`` if they can."""
    if node_packages.node() is None:
        return "Node.js is not installed, and the Kinesis emulators run in it"
    if not node_packages.is_fetched():
        return "the Kinesis emulators are missing; 'make servers' fetches them, or prints the reason why it cannot"
    return None
