"""Queries with joins, state and several sources over two topics and a folder, and the rows that they are to have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr, window

from tests.spark.support.both_sources import BUILT_IN, OURS
from tests.spark.support.kafka_queries import SECOND, T0, KafkaQueries
from tests.spark.takeover.support.batch_sink import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EIGHT = {"maxOffsetsPerTrigger": "8"}
TIMES = [range(T0 + n * 80 * SECOND, T0 + (n + 1) * 80 * SECOND, 10 * SECOND) for n in range(3)]
"""The event times of the records that come before the run with Spark's source, and before each of our runs."""
RIGHT_EACH = 20 * SECOND
"""Only each second record of the left topic has one of the right topic."""


@dataclass(frozen=True)
class JoinsAndWindows:
    """Two topics, and a folder with JSON files."""

    queries: KafkaQueries
    left: str
    right: str
    folder: Path

    def write(self, times: Iterable[int]) -> None:
        """Writes a record for each time to both partitions of the left topic, and what belongs to it elsewhere."""
        left = [(p, time, None, b"left") for p in range(2) for time in times]
        self.queries.broker.write(self.left, left)
        right = [time for time in times if time % RIGHT_EACH == 0]
        self.queries.broker.write(self.right, [(0, time, None, b"right") for time in right])
        lines = "".join(json.dumps({"t": time}) + "\n" for time in right)
        (self.folder / f"{next(iter(times))}.json").write_text(lines)

    def stream(self, topic: str, source: str, **options: str) -> DataFrame:
        return self.queries.stream(topic, EIGHT | options, source)


def self_join(world: JoinsAndWindows, source: str) -> DataFrame:
    """Joins one DataFrame with itself: Spark makes two sources of it."""
    one = world.stream(world.left, source).selectExpr("partition", "unix_millis(timestamp) t", "offset")
    same = expr("a.partition = b.partition and a.t = b.t and a.offset = b.offset")
    return one.alias("a").join(one.alias("b"), same).select("a.partition", "b.t")


def windows(world: JoinsAndWindows, source: str) -> DataFrame:
    """Counts of windows. The query is aligned from the swap on."""
    aligned = world.queries.aligned("1 minute") if source == OURS else {}
    rows = world.stream(world.left, source, **aligned).withWatermark("timestamp", "2 minutes")
    counts = rows.groupBy(window("timestamp", "30 seconds"), "partition").count()
    return counts.selectExpr("partition", "unix_millis(window.start)", "count")


def outer_join(world: JoinsAndWindows, source: str) -> DataFrame:
    left = world.stream(world.left, source).withWatermark("timestamp", "1 minute")
    right = world.stream(world.right, source).withWatermark("timestamp", "1 minute").select("timestamp")
    joined = left.alias("l").join(right.alias("r"), expr("l.timestamp = r.timestamp"), "leftOuter")
    return joined.selectExpr("partition", "unix_millis(l.timestamp)", "r.timestamp is not null")


def files_beside(world: JoinsAndWindows, source: str) -> DataFrame:
    """Files of Spark's file source come first in the offset log. One of two Kafka sources is changed."""
    reader = world.queries.spark.readStream.schema("t long").option("maxFilesPerTrigger", "1")
    files = reader.json(str(world.folder)).selectExpr("-1 partition", "t")
    left = world.stream(world.left, source).selectExpr("partition", "unix_millis(timestamp)")
    right = world.stream(world.right, BUILT_IN).selectExpr("-2 partition", "unix_millis(timestamp)")
    return files.union(left).union(right)


def expected(query: Callable[..., DataFrame]) -> Counter[Row]:
    times = [time for some in TIMES for time in some]
    left, right = [(p, t) for p in range(2) for t in times], [t for t in times if t % RIGHT_EACH == 0]
    if query is windows:
        return Counter((*key, n) for key, n in Counter((p, t - t % (30 * SECOND)) for p, t in left).items())
    if query is outer_join:
        return Counter((p, t, t % RIGHT_EACH == 0) for p, t in left)
    if query is files_beside:
        return Counter([*left, *((beside, t) for beside in (-1, -2) for t in right)])
    return Counter(left)
