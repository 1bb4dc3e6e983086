"""A Python data source that records every call of Spark, to find out how Spark behaves."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tests.support.checkpoint_logs import logged_batches, logged_offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Offset = dict[str, Any]
Rows = Callable[[int, int], pa.RecordBatch]


@dataclass(frozen=True)
class CallOfSpark:
    """One call of Spark: the method, the process in which it ran, and its arguments."""

    method: str
    pid: int
    arguments: dict[str, Any]


def every_number(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, end), pa.int64())})


def up_to_limit(probe: Probe, start: Offset, limit: ReadLimit) -> Offset:
    """Returns the end of at most ``limit`` available numbers, or ``start`` itself if there are no more."""
    most = limit.max_rows if isinstance(limit, ReadMaxRows) else probe.available
    end = min(start["n"] + most, probe.available)
    return {"n": end} if end > start["n"] else start


@dataclass
class Probe:
    """The behaviour of a source of numbers, and the folder for recorded calls.

    The source and the test can be in different processes.

    The source has the numbers from 0 up to ``available``, which a test can change at any time.
    """

    folder: Path
    schema: str = "n bigint"
    next_offset: Callable[[Probe, Offset, ReadLimit], Offset] = up_to_limit
    rows: Rows = every_number
    fails_in: str | None = None
    exit_on_sigterm: bool = False
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name = f"probe_{self.folder.name}"
        self.make_available(0)

    @property
    def available(self) -> int:
        return int((self.folder / "available").read_text())

    def make_available(self, count: int) -> None:
        written = self.folder / "available.new"
        written.write_text(str(count))
        written.rename(self.folder / "available")

    def log(self, method: str, **arguments: Any) -> None:
        line = json.dumps({"method": method, "pid": os.getpid(), "arguments": arguments})
        with (self.folder / "calls").open("a") as calls:
            calls.write(line + "\n")
        if method == self.fails_in and not (self.folder / "repaired").exists():
            raise ValueError(f"failure made in {method}")

    def repair(self) -> None:
        (self.folder / "repaired").touch()

    def forget_calls(self) -> None:
        (self.folder / "calls").unlink(missing_ok=True)

    def calls(self, *methods: str) -> list[CallOfSpark]:
        """Returns the calls so far, in order, of some methods or of all."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        calls = [CallOfSpark(**json.loads(line)) for line in lines]
        return [call for call in calls if not methods or call.method in methods]

    def methods(self, *methods: str) -> list[str]:
        return [call.method for call in self.calls(*methods)]

    def load(self, spark: SparkSession, **options: str) -> DataFrame:
        """Registers the source and loads it as a stream."""
        spark.dataSource.register(type(f"Probe_{self.name}", (ProbeSource,), {"probe": self}))
        return spark.readStream.format(self.name).options(**options).load()

    def start(self, stream: DataFrame, **trigger: Any) -> StreamingQuery:
        """Runs the stream without output, with the checkpoint of this probe."""
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def logged(self, kind: str) -> list[int]:
        """Returns the batches in the offset log (``offsets``) or the commit log (``commits``)."""
        return logged_batches(self.checkpoint, kind)

    def has_logged(self, kind: str, query: StreamingQuery) -> bool:
        """Returns whether a batch is in that log. Raises the query's error."""
        if (error := query.exception()) is not None:
            raise error
        return bool(self.logged(kind))

    def logged_offset(self, batch: int) -> Offset:
        """Returns the offset of the source in the offset log."""
        return logged_offset(self.checkpoint, batch)


class ProbeSource(DataSource):
    probe: Probe

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.probe.log("__init__", options=dict(options))

    @classmethod
    def name(cls) -> str:
        return cls.probe.name

    def schema(self) -> str:
        self.probe.log("schema")
        return self.probe.schema

    def streamReader(self, schema: StructType) -> ProbeReader:
        self.probe.log("streamReader", schema=schema.simpleString())
        return ProbeReader(self.probe)


class ProbeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._planned = False

    def initialOffset(self) -> Offset:
        self._probe.log("initialOffset")
        return {"n": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(7)

    def prepareForTriggerAvailableNow(self) -> None:
        self._probe.log("prepareForTriggerAvailableNow")

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        if not self._planned and self._probe.exit_on_sigterm:
            signal.signal(signal.SIGTERM, self._on_sigterm)
        self._planned = True
        self._probe.log("latestOffset", start=start, limit=type(limit).__name__)
        return self._probe.next_offset(self._probe, start, limit)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._probe.log("partitions", start=start, end=end)
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._probe.log("read", range=list(partition.value), planned=self._planned)
        yield self._probe.rows(*partition.value)

    def commit(self, end: Offset) -> None:
        self._probe.log("commit", end=end)

    def stop(self) -> None:
        if self._probe.exit_on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._probe.log("stop")

    def _on_sigterm(self, signum: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._probe.log("SIGTERM")
        raise SystemExit(0)
