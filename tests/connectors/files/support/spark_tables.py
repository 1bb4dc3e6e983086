"""Delta tables that Spark writes, read by Spark and by the file source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.connectors.files.support.delta_tables import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


class SparkTable:
    """A Delta table that Spark writes. In statements ``{t}`` is its name."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self.path = path

    def __call__(self, *statements: str) -> None:
        for statement in statements:
            self._spark.sql(statement.replace("{t}", f"delta.`{self.path}`"))

    def rows(self) -> Rows:
        """Returns the rows that Spark reads."""
        read = self._spark.read.format("delta").load(str(self.path))
        found: pa.Table = read.toArrow()
        return in_order(found.to_pylist())

    def read(self, **options: str) -> Rows:
        """Returns the rows that the file source reads: a snapshot in batches of 7 rows, with a restart after
        every second batch.
        """
        reading = query(self.path, maxRowsPerTrigger="7", **options)
        count = 0
        while reading.step() is not None:
            count += 1
            if count % 2 == 0:
                reading.restart()
        return in_order(reading.rows)

    def agrees(self, **options: str) -> None:
        assert self.read(**options) == self.rows()


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def at(n: str = "id") -> str:
    """Returns an expression for the time of row ``n``. Each row is a second after its predecessor."""
    return f"timestamp_seconds(1700000000 + {n})"


def small(spark: SparkSession) -> SparkSession:
    """Returns a new session for small tables: one partition for shuffles, and one file for each statement.

    It evaluates expressions without compiled code, whose compilation takes a third of the time of a statement.
    """
    session = spark.newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.leafNodeDefaultParallelism": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
    }.items():
        session.conf.set(name, value)
    return session
