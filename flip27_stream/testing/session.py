"""A local Spark with Delta, for tests, demo and benchmarks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flip27_stream.testing import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's launcher always adds this module, and nothing but the module's absence silences the line.
_LAUNCH_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"


def local_session(
    app_name: str,
    *,
    master: str = "local[2]",
    kafka_source: bool = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session that reads and writes Delta, listens on the loopback only and logs errors only.

    ``kafka_source`` adds Spark's built-in Kafka source, for comparison. ``conf`` is added last. Jars and the
    settings of the JVM hold for the first session of a process.
    """
    # Workers run the interpreter that this is, not the first python3 of the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().appName(app_name).master(master)
    for key, value in {**_settings(kafka_source), **(conf or {})}.items():
        builder = builder.config(key, value)
    with _without_launch_noise():
        return builder.getOrCreate()


def _settings(kafka_source: bool) -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties")
    sets = [jars.DELTA, jars.KAFKA_SOURCE] if kafka_source else [jars.DELTA]
    return {
        "spark.jars": ",".join(str(jar) for jar_set in sets for jar in jars.fetch(jar_set)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "2",
    }


@contextmanager
def _without_launch_noise() -> Iterator[None]:
    """Filter what a JVM started meanwhile says on standard error: all but the launch noise is passed on."""
    source, sink = os.pipe()
    ours = os.dup(2)
    os.dup2(sink, 2)
    os.close(sink)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        threading.Thread(target=_pass_on, args=(source,), name="jvm-stderr", daemon=True).start()


def _pass_on(source: int) -> None:
    with open(source, "rb") as lines:
        for line in lines:
            if line.rstrip() != _LAUNCH_NOISE:
                os.write(2, line)
