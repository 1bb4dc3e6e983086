"""Measures the speed of ``flip27_kafka`` beside an upper bound: a source that only yields prepared Arrow batches.

This source yields what our readers emit for the same topic: the same numbers of tasks, of batches in each task and of
rows in each batch, with the same schema and real rows. Each batch is a part of one real batch. ``python -m
benchmarks.ceiling``
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from benchmarks.support.backlog import WrittenTopic
from benchmarks.support.command import run
from benchmarks.support.constant_source import constant_source
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result, at_least
from benchmarks.support.streams import OURS, drain, stream
from benchmarks.support.turns import pairs, speeds
from flip27_stream.connectors.kafka import KafkaSourceFactory
from flip27_stream.spark.data_source import data_source


@dataclass(frozen=True)
class Emitted:
    """The batches that a reader emits: the numbers of rows of the batches of each task, and the largest batch."""

    rows: Sequence[Sequence[int]]
    largest: pa.RecordBatch


def measure(environment: Environment) -> Iterator[Result]:
    backlog = WrittenTopic(environment.sizes.records)
    size = environment.value_bytes(backlog)
    reading = emitted(topic_reader(environment, backlog.topic))
    with temporary_folder() as folder:
        environment.spark.dataSource.register(constant_source(reading.largest, reading.rows, Path(folder)))

        def ceiling() -> float:
            return sum(drain(environment.spark.readStream.format("constant").load(), backlog.records))

        def ours() -> float:
            return sum(drain(stream(environment, OURS, backlog.topic), backlog.records))

        seconds = pairs(ceiling, ours, environment.sizes.pairs, environment.sizes.warm_up)
    yield speeds(
        "share of the ceiling (constant batches)", backlog.records, size, seconds, at_least(65), percent=True
    )


def topic_reader(environment: Environment, topic: str) -> DataSourceReader:
    """Returns our reader of a topic, as Spark gets it for a batch read."""
    options = {"kafka.bootstrap.servers": environment.broker.bootstrap_servers, "subscribe": topic}
    source = data_source(KafkaSourceFactory(), spark=environment.spark)(
        {**options, "startingOffsets": "earliest"}
    )
    return source.reader(_struct(source.schema()))


def emitted(reader: DataSourceReader) -> Emitted:
    """Runs a reader in this process as Spark runs it in workers, and returns what it emits."""
    rows: list[list[int]] = []
    largest: pa.RecordBatch | None = None
    for partition in reader.partitions():
        rows.append([])
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            rows[-1].append(batch.num_rows)
            if largest is None or batch.num_rows > largest.num_rows:
                largest = batch
    assert largest is not None
    return Emitted(rows, largest)


def _struct(schema: StructType | str) -> StructType:
    assert isinstance(schema, StructType)
    return schema


if __name__ == "__main__":
    run([measure])
