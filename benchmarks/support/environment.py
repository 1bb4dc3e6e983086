"""The environment of benchmarks: one Spark, one broker and their topics, each created at its first use."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

import flip27_stream
from benchmarks.support.backlog import WrittenTopic
from flip27_stream.testing import KafkaBroker, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

_CACHE = "spark.kafka.consumer.cache.capacity"


def _size(default: int, meaning: str) -> int:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmarks, which are the options of their commands."""

    records: int = _size(
        2_000_000, "records in backlogs of small records, from which the number of large ones follows"
    )
    pairs: int = _size(5, "rounds in which the contenders take turns")
    warm_up: int = _size(3, "rounds before those that count")
    batches: int = _size(8, "small batches for each round and contender")
    many: int = _size(200, 'partitions where a benchmark says "many partitions"')
    splits: int = _size(10_000, "splits of the plan that needs no broker")
    files: int = _size(100_000, "files of the plan of a folder")
    year_files: int = _size(10_000, "files in which a year of history lies")
    shapes: int = _size(18, "shapes of the read benchmark, in the order of its table")


class Environment:
    """A context manager that stops everything that it started, and nothing that it was given."""

    def __init__(
        self, sizes: Sizes, spark: SparkSession | None = None, broker: KafkaBroker | None = None
    ) -> None:
        self.sizes = sizes
        self._given = spark, broker
        self._open = ExitStack()
        self._written: dict[WrittenTopic, int] = {}
        self._topics = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @cached_property
    def spark(self) -> SparkSession:
        """A Spark session with ``local[2]``, the built-in Kafka source and ours.

        The built-in source keeps 64 consumers by default; with more partitions than that it makes new ones in every
        batch. Here it keeps all.
        """
        spark = self._given[0]
        if spark is None:
            spark = local_session("benchmarks", kafka_source=True, conf={_CACHE: str(2 * self.sizes.many)})
            self._open.callback(spark.stop)
            flip27_stream.register(spark)
        return spark

    @cached_property
    def broker(self) -> KafkaBroker:
        return self._given[1] or self._open.enter_context(KafkaBroker())

    def value_bytes(self, backlog: WrittenTopic) -> int:
        """Returns the size (bytes) of all values of a backlog, which it creates if necessary."""
        if backlog not in self._written:
            self._written[backlog] = backlog.write(self.broker)
        return self._written[backlog]

    def empty_topic(self, partitions: int) -> str:
        """Returns the name of a new topic."""
        self._topics += 1
        name = f"benchmark-{self._topics}"
        self.broker.create_topic(name, partitions)
        return name
