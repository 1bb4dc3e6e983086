"""Makes the archive of the classes that a Spark driver loads.

``python -m tests.spark.support.programs.archived_classes``

It runs what most tests run: a stream of files with a count, and a Delta table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flip27_stream
from flip27_stream.testing import local_session
from tests.spark.support.processes import class_archive, quick_start, spark_home


def run_queries(folder: Path) -> None:
    spark = local_session("flip27-classes", kafka_source=True)
    flip27_stream.register(spark)
    files, table = str(folder / "files"), str(folder / "table")
    spark.range(100).selectExpr("id", "timestamp_seconds(id) AS time").write.parquet(files)
    rows = spark.readStream.format("flip27_files").schema("id BIGINT, time TIMESTAMP").load(files)
    counts = rows.withWatermark("time", "1 second").groupBy("id").count().writeStream.format("delta")
    counts = counts.outputMode("complete").option("checkpointLocation", str(folder / "checkpoint"))
    counts.trigger(availableNow=True).start(table).awaitTermination()
    assert spark.read.format("delta").load(table).join(rows.sparkSession.range(100), "id").count() == 100
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    # The JVM ends after its standard input, and writes the archive then.
    gateway.proc.stdin.close()
    gateway.proc.wait()


def run_in_a_new_driver(class_options: Sequence[str]) -> None:
    environment = {**os.environ, **quick_start(), "SPARK_SUBMIT_OPTS": " ".join(class_options)}
    with tempfile.TemporaryDirectory(dir=spark_home()) as folder:
        subprocess.run([sys.executable, "-m", __spec__.name, folder], env=environment, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_queries(Path(sys.argv[1]))
    else:
        class_archive().make(run_in_a_new_driver)
