"""A local Spark session with Delta, for tests, demos and benchmarks."""

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

# The JVM logs this line at each launch, because Spark's launcher always adds this module.
_LAUNCH_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def local_session(
    app_name: str,
    *,
    master: str = "local[2]",
    kafka_source: bool = False,
    delta: bool | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns a Spark session that can read and write Delta, listens on the loopback only, and logs errors only.

    Jars and settings of the JVM apply only to the first session of a process.

    Args:
        app_name: The name of the application.
        master: Spark's master.
        kafka_source: Whether to add Spark's built-in Kafka source, for comparison.
        delta: Whether to add Delta; by default if Delta has a release for the installed Spark.
        conf: Settings that override all others.

    Raises:
        ConnectorError: ``delta`` is set, and Delta has no release for the installed Spark; or jars are not available.
    """
    if delta is None:
        delta = jars.has_delta()
    elif delta:
        jars.check_delta()
    # Workers use this Python interpreter, not the first python3 in PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().appName(app_name).master(master)
    for key, value in {**_settings(kafka_source, delta), **(conf or {})}.items():
        builder = builder.config(key, value)
    with _without_launch_noise():
        return builder.getOrCreate()


def _settings(kafka_source: bool, delta: bool) -> dict[str, str]:
    # Spark divides the options of the JVM at spaces, which a URI does not have.
    logging = Path(__file__).resolve().with_name("log4j2.properties").as_uri()
    sets = [jars.DELTA] * delta + [jars.KAFKA_SOURCE] * kafka_source
    return {
        "spark.jars": ",".join(str(jar) for jar_set in sets for jar in jars.fetch(jar_set)),
        **(_DELTA if delta else {}),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }


@contextmanager
def _without_launch_noise() -> Iterator[None]:
    """Filters the standard error of a JVM that is started within the block. Only the launch noise is dropped."""
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
