"""Tests of the local Spark session of tests, demos and benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from flip27_stream.testing import KafkaBroker, write_bulk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def test_delta_is_written_and_read_by_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = f"{tmp_path}/source", f"{tmp_path}/sink"
    spark.range(100).write.format("delta").save(source)
    writer = spark.readStream.format("delta").load(source).writeStream.format("delta")
    query = (
        writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start(sink)
    )
    assert query.awaitTermination(120)
    assert spark.read.format("delta").load(sink).count() == 100


def test_the_built_in_kafka_source_reads_the_broker(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    write_bulk(broker.bootstrap_servers, name, 0, np.arange(1_000), b"x")
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    assert reader.option("subscribe", name).load().count() == 1_000


def test_workers_run_this_interpreter(spark: SparkSession) -> None:
    def interpreter(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.parallelize([0]).map(interpreter).collect() == [sys.executable]
