"""The job: rows by window and partition, from Kafka into a Delta table. The same for both sources."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flip27_stream.demo.backlog import DELAY, MINUTE, WINDOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

BUILT_IN, ALIGNED = "kafka", "flip27_kafka"
GROUP = "demo"
MAX_DRIFT = 5 * MINUTE

_POLL_S = 0.2

Positions = Mapping[int, int]
"""By partition, the offset to read next."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch that read rows.

    Attributes:
        rows: how many.
        positions: where it ended.
        state_rows: rows in the state store afterwards.
        recorded_at: when it began (ms).
    """

    rows: int
    positions: Positions
    state_rows: int
    recorded_at: int


@dataclass
class Run:
    """One source's run of the job, as far as it has come."""

    format: str
    batches: Sequence[Batch] = ()
    started: float | None = None
    seconds: float = 0.0
    finished: bool = False
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(batch.rows for batch in self.batches)

    @property
    def positions(self) -> Positions:
        return self.batches[-1].positions if self.batches else {}

    @property
    def peak_state_rows(self) -> int:
        return max((batch.state_rows for batch in self.batches), default=0)

    def follow(self, query: StreamingQuery) -> bool:
        """Take in what the query has done since; true once it has ended.

        Raises:
            StreamingQueryException: it failed.
        """
        self.started = self.started or time.monotonic()
        time.sleep(_POLL_S)
        self.finished = not query.isActive
        if self.finished:
            query.awaitTermination()
        self.seconds = time.monotonic() - self.started
        self.batches = [_batch(progress) for progress in query.recentProgress if progress.numInputRows]
        return self.finished


@dataclass(frozen=True)
class WindowedCount:
    """The job's parameters; ``directory`` is where its tables and checkpoints go."""

    bootstrap_servers: str
    topic: str
    rows_per_batch: int
    directory: Path

    @property
    def watermarks(self) -> str:
        """The split-watermark table."""
        return str(self.directory / "split_watermarks")

    def start(self, spark: SparkSession, source: str) -> StreamingQuery:
        """Start the query with one of the two sources; it ends when all that was written has been read."""
        from pyspark.sql.functions import window

        records = spark.readStream.format(source).options(**self._options(source)).load()
        counts = (
            records.withWatermark("timestamp", f"{DELAY} milliseconds")
            .groupBy(window("timestamp", f"{WINDOW} milliseconds"), "partition")
            .count()
        )
        return (
            counts.writeStream.format("delta")
            .outputMode("append")
            .option("checkpointLocation", str(self.directory / "checkpoints" / source))
            .trigger(availableNow=True)
            .start(self._result(source))
        )

    def counts(self, spark: SparkSession, source: str) -> Counter[tuple[int, int]]:
        """What the query counted: rows by partition and start of the window (ms)."""
        result = spark.read.format("delta").load(self._result(source))
        rows = result.selectExpr("partition", "unix_millis(window.start) AS start", "count").collect()
        counted: Counter[tuple[int, int]] = Counter()
        for row in rows:
            counted[row["partition"], row["start"]] += row["count"]
        return counted

    def _result(self, source: str) -> str:
        return str(self.directory / "counts" / source)

    def _options(self, source: str) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.rows_per_batch),
        }
        if source == ALIGNED:
            options |= {
                "scan.watermark.alignment.group": GROUP,
                "scan.watermark.alignment.max-drift": f"{MAX_DRIFT} ms",
                "scan.watermark.alignment.table": self.watermarks,
                "scan.source.id": ALIGNED,
            }
        return options


def _batch(progress: StreamingQueryProgress) -> Batch:
    began = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00"))
    return Batch(
        rows=progress.numInputRows,
        positions=_positions(json.loads(progress.sources[0].endOffset)),
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        recorded_at=int(began.timestamp() * 1000),
    )


def _positions(offset: dict[str, Any]) -> Positions:
    """From the offset of either source: ``{topic: {partition: position}}``, or an offset document of ours."""
    if "splits" in offset:
        return {int(split.rpartition("-")[2]): state[0] for split, state in offset["splits"].items()}
    (positions,) = offset.values()
    return {int(partition): position for partition, position in positions.items()}
