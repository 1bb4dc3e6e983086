"""Queries of one format that are started at the same time share a map of environment variables in the JVM. None of
them adds a variable to it, since Spark does so without a lock (fact 34). And a driver without temporary files.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import flip27_stream
from examples.log_folder import LogFolder
from flip27_stream.spark.source_spec import Driver

ROOT = Path(__file__).parents[3]


WITHOUT_TEMPORARY_FILES = """
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class Session:
    conf = {}
    sparkContext = type("Context", (), {"defaultParallelism": 3})


from flip27_stream.spark.data_source import driver_of

print(driver_of(Session()))
"""


def variables(spark: SparkSession, name: str) -> set[str]:
    """Returns the names of the variables that the queries of a format share."""
    state: Any = spark._jsparkSession.sessionState()
    shared = state.dataSourceManager().lookupDataSource(name).dataSourceCls().envVars()
    return {str(key) for key in shared.keySet()}


def test_a_driver_that_can_write_no_temporary_files_registers_formats() -> None:
    """A container can have a file system that is only read. A source needs no temporary files, unless it has a table of
    a catalog or takes over a first batch.
    """
    command = [sys.executable, "-c", WITHOUT_TEMPORARY_FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{Driver(parallelism=3)}\n", "")


def test_a_query_adds_no_variable_to_those_that_queries_share(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text("1 text\n")
    spark.dataSource.register(
        flip27_stream.data_source(LogFolder(str(tmp_path / "logs")), name="shared_logs")
    )
    before = variables(spark, "shared_logs")
    stream = spark.readStream.format("shared_logs").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert variables(spark, "shared_logs") == before
