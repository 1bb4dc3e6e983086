"""A driver program that runs queries, records how they end, and starts them again.

``python -m benchmarks.chaos.program FOLDER NAME...``

A query is described in the file ``FOLDER/NAME.json``, which is read whenever the query is started.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

import flip27_stream
from flip27_stream import FileSource, HybridSource, KafkaSource
from flip27_stream.connectors.hybrid import Overlap, SourceSwitchContext
from flip27_stream.testing import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "700m",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_MASTER = "local[2,4]"  # a task has four attempts, as on a cluster
ENDINGS = "{}-endings"
"""The name of the file with the endings of queries, one in each line."""

_LOOK_S, _RETRY_S, _START_S = 0.2, 3.0, 60.0


@dataclass(frozen=True)
class Query:
    """The description of a query, which a driver program reads.

    Attributes:
        name: The name of the query.
        format: The format of its source; "hybrid" is made of ``history`` and ``live``.
        options: The options of its source.
        partition, number: The columns that the sink gets under these names.
        output: The path of the Delta table it writes; the checkpoint lies beside it, under the name ``checkpoint``.
        checkpoint: The name of the checkpoint.
        history: The options of the first source of a hybrid.
        live: The options of the second one.
    """

    name: str
    format: str
    options: dict[str, str]
    partition: str
    number: str
    output: str
    checkpoint: str
    history: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Writes the description atomically: driver programs read the former description or the whole new one."""
        hidden = folder / f".{self.name}.json"
        hidden.write_text(json.dumps(asdict(self)))
        hidden.rename(folder / f"{self.name}.json")

    @staticmethod
    def read(folder: Path, name: str) -> Query:
        return Query(**json.loads((folder / f"{name}.json").read_text()))

    def start(self, spark: SparkSession) -> StreamingQuery:
        if self.format == "hybrid":
            spark.dataSource.register(flip27_stream.data_source(self._hybrid(), name="hybrid"))
        rows = spark.readStream.format(self.format).options(**self.options).load()
        numbers = rows.selectExpr(
            f"CAST({self.partition} AS INT) AS partition", f"CAST({self.number} AS LONG) AS number"
        )
        checkpoint = str(Path(self.output).parent / self.checkpoint)
        writer = numbers.writeStream.format("delta").option("checkpointLocation", checkpoint)
        return writer.queryName(self.name).trigger(processingTime="3 seconds").start(self.output)

    def _hybrid(self) -> HybridSource:
        options = self.live

        def live(switch: SourceSwitchContext) -> KafkaSource:
            return KafkaSource(options | {"startingTimestamp": str(switch.start_time_ms)})

        history = FileSource(self.history, bounded=True)
        return (
            HybridSource.builder(history, event_time="timestamp")
            .add_source(live, overlap=Overlap(ms=OVERLAP_MS))
            .build()
        )


OVERLAP_MS = 120_000


@dataclass(frozen=True)
class Ending:
    """The end of a query.

    Attributes:
        at_ms: The time at which the end was noticed (ms since the epoch).
        query: The name of the query.
        causes: The messages of the error, of its cause, of the cause of that, and so on.
    """

    at_ms: int
    query: str
    causes: Sequence[str]

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def from_line(line: str) -> Ending:
        return Ending(**json.loads(line))


class Supervised:
    """A query that is started again whenever it has ended; a hybrid query also when its description has changed."""

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self._spark, self._folder, self._name = spark, folder, name
        self._running: StreamingQuery | None = None
        self._description: Query | None = None
        self._again_at = self._started_at = 0.0

    @property
    def is_starting(self) -> bool:
        """Whether the query has run no batch yet.

        Only some queries start at a time, since Spark limits the time of a start.
        """
        if (
            self._running is None
            or not self._running.isActive
            or time.monotonic() > self._started_at + _START_S
        ):
            return False
        return self._running.lastProgress is None

    def look(self, may_start: bool) -> None:
        """Records the end of the query if it has ended, and starts it if ``may_start``."""
        now = time.monotonic()
        if self._running is not None and not self._running.isActive:
            self._report(list(_causes(self._running)))
        elif self._running is not None and self._is_replaced():
            self._running.stop()
            self._running = None
        if may_start and self._running is None and now >= self._again_at:
            self._start()

    def _start(self) -> None:
        self._description, self._started_at = Query.read(self._folder, self._name), time.monotonic()
        try:
            self._running = self._description.start(self._spark)
        except (ConnectionError, Py4JNetworkError):
            raise  # the JVM has ended, so this process must end too
        except Exception as error:  # noqa: BLE001
            self._report([str(error)])

    def _is_replaced(self) -> bool:
        """Returns whether a new description replaces the running query, which happens for hybrid queries only."""
        description = Query.read(self._folder, self._name)
        return description.format == "hybrid" and description != self._description

    def _report(self, causes: Sequence[str]) -> None:
        with (self._folder / ENDINGS.format(self._name)).open("a") as endings:
            endings.write(Ending(time.time_ns() // 1_000_000, self._name, causes).to_line())
        self._running, self._again_at = None, time.monotonic() + _RETRY_S


def _causes(query: StreamingQuery) -> Iterator[str]:
    """Returns the messages of the error that a query ended with, and of its causes."""
    failed: Any = query._jsq.exception()
    error = failed.get() if failed.isDefined() else None
    while error is not None:
        yield f"{error.getClass().getName()}: {error.getMessage()}"
        error = error.getCause()


def main(folder: Path, names: Sequence[str]) -> None:
    spark = local_session("flip27-chaos", master=_MASTER, conf=_CONF)
    flip27_stream.register(spark)
    supervised = [Supervised(spark, folder, name) for name in names]
    while True:
        for query in supervised:
            query.look(may_start=not any(each.is_starting for each in supervised))
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
