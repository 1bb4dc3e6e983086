"""This project's formats in a session of another kind.

``python -m tests.spark.support.programs.other_session MASTER FOLDER SERVERS TOPIC``

If the master begins with ``remote:``, a Spark Connect server is started, and the session uses it. The result is written
to ``FOLDER/result``. The folder has ``logs``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flip27_stream
from examples.log_folder import LogFolder
from flip27_stream.testing import local_session
from watermark_alignment import StatusListener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REMOTE = "remote:"
LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def session(master: str) -> SparkSession:
    if not master.startswith(REMOTE):
        return local_session("other-session", master=master)
    os.environ["SPARK_TESTING"] = "1"  # makes the server choose a free port
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(master.removeprefix(REMOTE))
    for key, value in LOOPBACK.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows_of(spark: SparkSession, stream: DataFrame, folder: Path) -> int:
    """Returns how many rows a query writes that reads ``stream`` to its end."""
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
    return spark.read.parquet(str(folder / "rows")).count()


def main(master: str, folder: str, servers: str, topic: str) -> None:
    path = Path(folder)
    kafka = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    table = str(path / "split_watermarks")
    alignment = {
        "scan.watermark.alignment.group": "other",
        "scan.watermark.alignment.max-drift": "5 minutes",
        "scan.watermark.alignment.table": table,
    }
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("watermark_alignment").addHandler(handler)
    logging.getLogger("watermark_alignment").setLevel(logging.INFO)

    spark = session(master)
    flip27_stream.register(spark)
    flip27_stream.register(spark)  # like a notebook's cell that is run again
    spark.dataSource.register(flip27_stream.data_source(LogFolder(str(path / "logs")), name="log_folder"))
    listener = StatusListener(table)
    spark.streams.addListener(listener)
    stream = spark.readStream.format("flip27_kafka").options(**kafka, **alignment).load()
    result: dict[str, Any] = {"flip27_kafka": rows_of(spark, stream, path / "kafka")}
    spark.streams.removeListener(listener)
    result["lines"] = lines
    batches = {"flip27_files": {"path": str(path / "logs"), "files.format": "text"}, "log_folder": {}}
    for name, options in batches.items():
        result[name] = spark.read.format(name).options(**options).load().count()
    (path / "result").write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
