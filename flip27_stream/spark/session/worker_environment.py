"""The environment variables of a Python source's processes, which all queries of a format share in the JVM."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_SET_BY_SPARK = {
    "SPARK_LOCAL_DIRS": "/tmp",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""The variables that ``PythonStreamingSourceRunner.init`` sets, with values of the right kind, which Spark replaces."""


def complete_environment(spark: SparkSession | None) -> None:
    """Gives the variables that Spark sets at the start of a streaming query a value before a format is registered.

    Spark puts these variables, without a lock, into the one ``HashMap`` of the format. Two queries that are started at
    the same time can damage the map when both add a variable: then each later task of the format fails with
    ``OptionalDataException``. A variable that the map already has is only replaced, which is safe (fact 34). Spark
    replaces the values before a process sees them.

    Args:
        spark: The session of the format. Nothing is done for a session of Spark Connect, whose map is in the server.
    """
    if spark is None:
        return
    try:
        environment = spark.sparkContext.environment
    except PySparkException:
        return
    for name, value in _SET_BY_SPARK.items():
        environment.setdefault(name, value)
