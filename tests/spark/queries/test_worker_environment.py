"""Queries of one format that are started at the same time share a map of environment variables in the JVM. None of
them adds a variable to it, since Spark does so without a lock (fact 34).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import flip27_stream
from examples.log_folder import LogFolder


def variables(spark: SparkSession, name: str) -> set[str]:
    """Returns the names of the variables that the queries of a format share."""
    state: Any = spark._jsparkSession.sessionState()
    shared = state.dataSourceManager().lookupDataSource(name).dataSourceCls().envVars()
    return {str(key) for key in shared.keySet()}


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
