"""Helpers for queries over Kafka topics, their checkpoints and their output."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from flip27_stream.testing import KafkaBroker, KafkaRecord, wait_until
from tests.support.checkpoint_logs import logged_batches, logged_offset
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

T0 = 1_700_000_000_000 - 1_700_000_000_000 % 3_600_000
"""An event time (ms): the start of an hour in November 2023."""

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000

CONTINUOUS: Mapping[str, Any] = {"processingTime": "0 seconds"}
AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}
ONCE: Mapping[str, Any] = {"once": True}

# A slow machine that runs other tests needs two minutes to start a driver program with two queries.
TIME_LIMIT_S = 300.0


def records(partition: int, times: Iterable[int], size: int = 0) -> list[KafkaRecord]:
    """Returns one record for each event time. Values have partition and number, so all records differ."""
    return [(partition, time, None, f"{partition}:{i}".encode().ljust(size)) for i, time in enumerate(times)]


def write_times(broker: KafkaBroker, topic: str, times: Mapping[int, Iterable[int]]) -> None:
    """Writes one record for each event time of each partition."""
    broker.write(topic, [record for partition, each in times.items() for record in records(partition, each)])


def fill(queries: KafkaQueries, topic: str, partitions: int, each: int) -> None:
    """Appends ``each`` records to each partition, all of the same time."""
    queries.broker.write(topic, [r for p in range(partitions) for r in records(p, [T0] * each)])


@dataclass(frozen=True)
class Output:
    """A table that a query writes, and the query's checkpoint.

    The table is a folder of Parquet files, of which Spark's sink keeps a log, or a Delta table. Both sinks write each
    batch once. The first takes a sixth of the processor time.
    """

    table: Path
    checkpoint: Path

    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows, read without Spark, or an empty list while the table does not exist."""
        rows: list[dict[str, Any]] = _dataset(self.table).to_table().to_pylist() if self.commits() else []
        return rows

    def commits(self) -> list[Path]:
        """Returns the files of the log of the table, in their order."""
        delta = self.table.glob("_delta_log/*.json")
        return sorted([*delta, *self.table.glob("_spark_metadata/[0-9]*")], key=lambda file: int(file.stem))

    def count(self) -> int:
        """Returns the number of rows. A test may ask often: the table is read once for each of its versions."""
        commits = self.commits()
        return _count(self.table, (commits[-1].name, commits[-1].stat().st_mtime_ns)) if commits else 0

    def positions(self) -> Counter[tuple[str, int, int]]:
        """Returns how often each record (topic, partition, offset) occurs."""
        return Counter((row["topic"], row["partition"], row["offset"]) for row in self.rows())

    def logged(self, kind: str) -> list[int]:
        """Returns the batches in the offset log (``offsets``) or the commit log (``commits``)."""
        return logged_batches(self.checkpoint, kind)

    def has_uncommitted_batch(self) -> bool:
        return self.logged("offsets")[-1] not in self.logged("commits")

    def offset(self, batch: int) -> dict[str, Any]:
        """Returns the offset of the only source, or of the first one, in the offset log."""
        return logged_offset(self.checkpoint, batch)

    def offsets(self) -> list[dict[str, Any]]:
        return [self.offset(batch) for batch in self.logged("offsets")]

    def rewrite_last_offset(self, document: Mapping[str, Any] | str) -> None:
        """Replaces the offset of the only source in the last entry of the offset log."""
        path = self.checkpoint / "offsets" / str(self.logged("offsets")[-1])
        text = document if isinstance(document, str) else json.dumps(document)
        path.write_text("\n".join([*path.read_text().splitlines()[:2], text]))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@dataclass(frozen=True)
class KafkaQueries:
    """The queries of one test, with their broker and a folder for tables and checkpoints."""

    spark: SparkSession
    broker: KafkaBroker
    folder: Path

    @property
    def split_watermarks(self) -> Path:
        return self.folder / "split_watermarks"

    def split_watermark_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = SplitWatermarkTable(str(self.split_watermarks), {}).rows().to_pylist()
        return rows

    def aligned(self, max_drift: str = "10 s", **options: str) -> dict[str, str]:
        """Returns the options of alignment.

        Further options are named by their last word, such as ``idle_timeout="1 s"``.
        """
        return {
            "scan.watermark.alignment.group": "group",
            "scan.watermark.alignment.max-drift": max_drift,
            "scan.watermark.alignment.table": str(self.split_watermarks),
        } | {f"scan.watermark.{name.replace('_', '-')}": value for name, value in options.items()}

    def kafka(self, topic: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
        """Returns options that read one topic from its beginning, unless ``options`` says otherwise."""
        strategy = {} if {"assign", "subscribePattern"} & set(options or {}) else {"subscribe": topic}
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "startingOffsets": "earliest",
            **strategy,
            **(options or {}),
        }

    def stream(
        self, topic: str, options: Mapping[str, str] | None = None, source: str = "flip27_kafka"
    ) -> DataFrame:
        return self.spark.readStream.format(source).options(**self.kafka(topic, options)).load()

    def batch(
        self, topic: str, options: Mapping[str, str] | None = None, source: str = "flip27_kafka"
    ) -> DataFrame:
        return self.spark.read.format(source).options(**self.kafka(topic, options)).load()

    def output(self, name: str = "out") -> Output:
        return Output(self.folder / name, self.folder / f"{name}-checkpoint")

    def start(
        self, stream: DataFrame, name: str = "out", trigger: Mapping[str, Any] = CONTINUOUS
    ) -> StreamingQuery:
        """Starts a stream that writes Parquet files to the table with that name."""
        output = self.output(name)
        writer = stream.writeStream.option("checkpointLocation", str(output.checkpoint)).trigger(**trigger)
        return start_files(self.spark, writer, str(output.table))

    def run(self, stream: DataFrame, name: str = "out", trigger: Mapping[str, Any] = AVAILABLE_NOW) -> Output:
        """Runs a stream until it has read all existing records."""
        query = self.start(stream, name, trigger)
        finish(query)
        return self.output(name)

    def run_continuously(self, stream: DataFrame, rows: int, name: str = "out") -> Output:
        """Runs a stream until ``rows`` rows are in its table, then stops it."""
        query, output = self.start(stream, name), self.output(name)
        try:
            wait_until(lambda: arrived(query, output, rows), f"{rows} rows in {name}", TIME_LIMIT_S)
        finally:
            query.stop()
        return output


def start_files(spark: SparkSession, writer: DataStreamWriter, table: str) -> StreamingQuery:
    """Starts a query of ``spark`` that appends Parquet files to the folder ``table``, of which Spark keeps a log.

    Times are written with their zone, as in a Delta table, and not in Spark's default type, which has none.
    """
    setting = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(setting, "TIMESTAMP_MICROS")
    try:
        return writer.format("parquet").start(table)
    finally:
        spark.conf.unset(setting)


def committed_files(table: Path) -> set[str]:
    """Returns the files in the log of Spark's file sink. A killed task leaves further files."""
    logs = {int(file.stem): file for file in table.glob("_spark_metadata/[0-9]*")}
    compacted = max((n for n, file in logs.items() if file.suffix), default=-1)  # has all entries before it
    lines = (line for n, file in logs.items() if n >= compacted for line in file.read_text().splitlines()[1:])
    return {str(table / json.loads(line)["path"].rpartition("/")[2]) for line in lines}


def _dataset(table: Path) -> ds.Dataset:
    if (table / "_spark_metadata").exists():
        return ds.dataset(sorted(committed_files(table)), format="parquet")
    return DeltaTable(str(table)).to_pyarrow_dataset()


@functools.lru_cache(maxsize=8)
def _count(table: Path, version: tuple[str, int]) -> int:
    """Returns the number of rows of a table in its newest version, given by the name and the time of its file."""
    return int(_dataset(table).count_rows())


def arrived(query: StreamingQuery, output: Output, rows: int) -> bool:
    """Whether ``rows`` rows are in the table. Raises the query's error."""
    if (error := query.exception()) is not None:
        raise error
    return output.count() >= rows


def finish(query: StreamingQuery, time_limit_s: float = TIME_LIMIT_S) -> None:
    """Waits for a query that ends by itself."""
    try:
        if not query.awaitTermination(int(time_limit_s)):
            raise TimeoutError(f"The query did not end within {time_limit_s:g} s: {query.status}")
    finally:
        query.stop()
