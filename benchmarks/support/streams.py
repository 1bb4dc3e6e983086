"""Streams to compare, and the time that they take to read a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUILTIN = "kafka"
OURS = "flip27_kafka"


def stream(
    environment: Environment, fmt: str, topic: str, schema: str | None = None, **options: str | int
) -> DataFrame:
    """Returns a topic as a stream, from its beginning unless ``options`` say otherwise."""
    reader = environment.spark.readStream.format(fmt)
    if schema is not None:
        reader = reader.schema(schema)
    given = {
        "kafka.bootstrap.servers": environment.broker.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    return reader.options(**given).load()


def drain(
    frame: DataFrame, rows: int, each_batch: Callable[[DataFrame, int], None] | None = None
) -> list[float]:
    """Reads all ``rows`` rows, and returns the time (s) of each micro-batch.

    The rows go into the noop sink, or into ``each_batch``.

    A micro-batch lasts from its plan to its commit (``durationMs.triggerExecution``, from which Spark computes
    ``processedRowsPerSecond``). The start of the query, which is the same for every source, is not in it.
    """
    with temporary_folder() as checkpoint:
        writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer = writer.format("noop") if each_batch is None else writer.foreachBatch(each_batch)
        query = writer.start()
        query.awaitTermination()
        batches = [p for p in query.recentProgress if p.numInputRows]
    read = sum(p.numInputRows for p in batches)
    if read != rows:
        raise RuntimeError(f"read {read} of {rows} rows")
    return [p.durationMs["triggerExecution"] / 1000 for p in batches]
