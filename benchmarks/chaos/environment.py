"""The environment of the driver programs: brokers, store, network, topics, files, tables, and their writers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from benchmarks.chaos import history
from benchmarks.chaos.expected_rows import ExpectedRows
from benchmarks.chaos.files import ParquetFolder, Table
from benchmarks.chaos.program import Query
from benchmarks.chaos.store import BUCKET, Store
from benchmarks.soak.driver import DriverProgram
from benchmarks.soak.load import DISORDER_MS, Load
from flip27_stream.testing import FaultyNetwork, KafkaCluster
from watermark_alignment.table.maintenance import ROW_RETENTION
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from typing_extensions import Self

CLICKS, VIEWS, FILES, TABLE, HYBRID = "clicks", "views", "files", "table", "hybrid"
GROUP = CLICKS, VIEWS
"""The names of the queries that are aligned with each other."""

DRIVERS: Mapping[str, Sequence[str]] = {"left": [CLICKS, FILES], "right": [VIEWS, TABLE, HYBRID]}
"""The names of the queries of each driver program."""

LINKS = "node-1", "node-2", "node-3", "store"
PARTITIONS = 3
MAX_DRIFT_MS = 15_000

_IDLE_TIMEOUT_S = 45  # a partition without a leader for a while is not idle
_LONG_SILENCE_S = 55.0, 70.0
_SOURCE_TIMEOUT = "15 minutes"  # a killed query is back sooner, even on a busy machine, and counts until then
_RETENTION = "interval 2 minutes"
_TICK_S, _WRITE_S = 0.2, 2.0
_SHORT_TIMEOUTS = {"timeout": "5s", "connect_timeout": "2s"}  # delta-rs waits 30 s for a store by default
_KAFKA = {
    "kafka.request.timeout.ms": "4000",
    "kafka.default.api.timeout.ms": "10000",
    "kafka.socket.connection.setup.timeout.ms": "2000",
    "maxOffsetsPerTrigger": "3000",
}


class ChaosEnvironment:
    """A context manager that runs the servers and writers, and stops them at its end.

    ``folder`` gets all data and logs. ``drivers`` are the names of the queries of each driver program.
    """

    def __init__(self, folder: Path, seed: int, drivers: Mapping[str, Sequence[str]] = DRIVERS) -> None:
        self.folder, self._queries = folder, drivers
        self._running = {name for names in drivers.values() for name in names}
        self.network, self.store = FaultyNetwork(), Store(folder)
        self.cluster = KafkaCluster(3, through=self.network.link)
        self._writes_files = True
        self._open, self._seed = ExitStack(), seed
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._hybrid = 0
        self._former_tables: dict[int, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self.network)
            opening.enter_context(self.cluster)
            opening.enter_context(self.store)
            self.network.link("store", self.store.address)
            for topic in GROUP:
                self.cluster.create_topic(topic, PARTITIONS)
            self.split_watermarks = self._split_watermark_table("split_watermarks")
            self._split_watermark_table("others")
            self.files, self.table = ParquetFolder(self.folder / "files"), Table(self.store)
            self._load = Load(self.cluster.direct_servers, GROUP, PARTITIONS, self._seed, _LONG_SILENCE_S)
            opening.enter_context(self._load)
            self.drivers = {name: self._driver(queries) for name, queries in self._queries.items()}
            for driver in self.drivers.values():
                opening.callback(driver.kill)
            for query in (*(self._topic_query(topic) for topic in GROUP), self._files_query()):
                query.write(self.folder)
            self._table_query().write(self.folder)
            self._begin_hybrid()
            feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
            feeder.start()
            opening.callback(feeder.join)
            opening.callback(self._over.set)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def check(self) -> None:
        """Raises the error of a writer of topics, files or tables, if there was one."""
        if self._error is not None:
            raise self._error

    def together(self) -> int:
        """Writes a record of one time into every partition, so that alignment holds back no earlier record.

        Returns:
            The time (ms).
        """
        with self._lock:
            return self._load.together()

    def write_files(self, go_on: bool) -> None:
        """Sets whether more rows are written to the files and the Delta table from now on."""
        with self._lock:
            self._writes_files = go_on

    def expected_rows(self) -> list[ExpectedRows]:
        """Returns the rows that have been written by now, for each query of a driver program."""
        servers, topic = self.cluster.direct_servers, self._orders
        kafka = {name: history.ends(servers, name, PARTITIONS) for name in GROUP}
        tables = {**self._former_tables, self.table.number: self.table.written}
        written = [
            *(ExpectedRows(name, self.folder / name, counts) for name, counts in kafka.items()),
            ExpectedRows(FILES, self.folder / "files-out", {0: self.files.written}),
            ExpectedRows(TABLE, self.folder / TABLE, tables),
            ExpectedRows(HYBRID, self.folder / topic, history.ends(servers, topic, history.PARTITIONS)),
        ]
        return [each for each in written if each.query in self._running]

    def remake_table(self) -> None:
        self._former_tables[self.table.number] = self.table.written
        self.table.remake()
        self._table_query().write(self.folder)

    def remake_hybrid(self) -> None:
        with self._lock:
            self._load.remove(self._orders)
        self._hybrid += 1
        self._begin_hybrid()

    @property
    def _orders(self) -> str:
        return f"orders-{self._hybrid}"

    def _driver(self, queries: Sequence[str]) -> DriverProgram:
        arguments = ["-m", "benchmarks.chaos.program", str(self.folder), *queries]
        return DriverProgram(arguments, self.folder / f"{'-'.join(queries)}.log", self.folder)

    def _split_watermark_table(self, name: str) -> SplitWatermarkTable:
        """Returns the split-watermark table, by an address that no fault of the network affects."""
        table = SplitWatermarkTable(f"s3://{BUCKET}/{name}", self.store.options())
        properties = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration", ROW_RETENTION)
        table.delta.alter.set_table_properties(
            dict.fromkeys(properties, _RETENTION),
            raise_if_not_exists=False,  # the last property belongs to this project and not to Delta
        )
        return table

    def _aligned(self, name: str, group: str, table: str) -> dict[str, str]:
        prefix = "scan.watermark.alignment.table.option."
        storage = self.store.options(self.network.links["store"].address)
        return {
            "scan.source.id": name,
            "scan.watermark.alignment.group": group,
            "scan.watermark.alignment.max-drift": f"{MAX_DRIFT_MS} ms",
            "scan.watermark.alignment.table": f"s3://{BUCKET}/{table}",
            "scan.watermark.alignment.source-timeout": _SOURCE_TIMEOUT,
            "scan.watermark.max-out-of-orderness": f"{DISORDER_MS} ms",
            "scan.watermark.idle-timeout": f"{_IDLE_TIMEOUT_S} s",
            **{prefix + key: value for key, value in (storage | _SHORT_TIMEOUTS).items()},
        }

    def _topic_query(self, topic: str) -> Query:
        options = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **_KAFKA,
            **self._aligned(topic, "chaos", "split_watermarks"),
        }
        output = str(self.folder / topic)
        return Query(topic, "flip27_kafka", options, "partition", "offset", output, f"{topic}-checkpoint")

    def _files_query(self) -> Query:
        options = {"path": str(self.files.path), **self._aligned(FILES, FILES, "others")}
        output = str(self.folder / "files-out")
        return Query(FILES, "flip27_files", options, "partition", "number", output, "files-checkpoint")

    def _table_query(self) -> Query:
        storage = self.store.options(self.network.links["store"].address)
        options = {
            "path": self.table.uri,
            "files.format": "delta",
            "ignoreDeletes": "true",
            **{f"files.storage.option.{key}": value for key, value in storage.items()},
        }
        output, checkpoint = str(self.folder / TABLE), f"table-{self.table.number}-checkpoint"
        return Query(TABLE, "flip27_files", options, "partition", "number", output, checkpoint)

    def _begin_hybrid(self) -> None:
        topic = self._orders
        table = self.folder / f"{topic}-history"
        history.begin(self.cluster, topic, table)
        with self._lock:
            self._load.add(topic, history.PARTITIONS)
        live = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsetsByTimestampStrategy": "latest",
            **_KAFKA,
        }
        Query(
            HYBRID,
            "hybrid",
            self._aligned(topic, HYBRID, "others"),
            "partition",
            "offset",
            str(self.folder / topic),
            f"{topic}-checkpoint",
            history={"path": str(table), "files.format": "delta", "maxFilesPerTrigger": "2"},
            live=live,
        ).write(self.folder)

    def _write_rows(self) -> None:
        """Writes rows to the files and to the table, each only if a query reads it."""
        if FILES in self._running:
            self.files.write()
        if TABLE in self._running:
            self.table.append()

    def _feed(self) -> None:
        """Writes records, files and rows at their times. It runs in a thread of its own."""
        write_at = 0.0
        try:
            while not self._over.wait(_TICK_S):
                with self._lock:
                    self._load.go_on()
                    if self._writes_files and time.monotonic() >= write_at:
                        write_at = time.monotonic() + _WRITE_S
                        self._write_rows()
        except BaseException as error:  # noqa: BLE001
            self._error = error
