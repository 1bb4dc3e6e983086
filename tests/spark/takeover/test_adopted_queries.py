"""Queries with joins, state and several sources, continued from a checkpoint of Spark's Kafka source.

Spark's source plans a batch that fails in the sink, ours runs that batch again and fails in the next, and ours goes on.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import expr, window

from tests.spark.support.both_sources import BUILT_IN, OURS
from tests.spark.support.kafka_queries import AVAILABLE_NOW, HOUR, SECOND, T0, KafkaQueries, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flip27_stream.testing import KafkaBroker

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

Row = tuple[Any, ...]
MakeTopic = Callable[..., str]
EIGHT = {"maxOffsetsPerTrigger": "8"}
TIMES = [range(T0 + n * 80 * SECOND, T0 + (n + 1) * 80 * SECOND, 10 * SECOND) for n in range(3)]
"""The event times of the records that come before the run with Spark's source, and before each of our runs."""
RIGHT_EACH = 20 * SECOND
"""Only each second record of the left topic has one of the right topic."""


class BatchSink:
    """Keeps the rows of each batch by its number, so that a batch that runs again takes the place of the first run."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._rows: dict[int, Counter[Row]] = {}
        self._calls_left = 0
        self.run_again: list[int] = []

    def fails_in(self, stream: DataFrame, call: int) -> None:
        """Runs a stream whose sink fails after it has kept the rows of a batch, the ``call``-th of this run."""
        with pytest.raises(StreamingQueryException, match="the sink failed"):
            self.run(stream, call)

    def run(self, stream: DataFrame, calls: int = 1000) -> None:
        self._calls_left = calls
        writer = stream.writeStream.option("checkpointLocation", str(self._checkpoint)).trigger(
            **AVAILABLE_NOW
        )
        finish(writer.foreachBatch(self._keep).start())

    def rows(self, first: int = 0) -> Counter[Row]:
        """Returns how often each row came, in the batches from ``first`` on."""
        return sum((rows for number, rows in self._rows.items() if number >= first), Counter())

    def _keep(self, batch: DataFrame, number: int) -> None:
        rows = Counter(tuple(row) for row in batch.collect())
        if number in self._rows:
            self.run_again.append(number)
            assert rows == self._rows[number], f"batch {number} has other rows than in its first run"
        self._rows[number] = rows
        self._calls_left -= 1
        if not self._calls_left:
            raise RuntimeError("the sink failed")


@dataclass(frozen=True)
class World:
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


def self_join(world: World, source: str) -> DataFrame:
    """Joins one DataFrame with itself: Spark makes two sources of it."""
    one = world.stream(world.left, source).selectExpr("partition", "unix_millis(timestamp) t", "offset")
    same = expr("a.partition = b.partition and a.t = b.t and a.offset = b.offset")
    return one.alias("a").join(one.alias("b"), same).select("a.partition", "b.t")


def windows(world: World, source: str) -> DataFrame:
    """Counts of windows. The query is aligned from the swap on."""
    aligned = world.queries.aligned("1 minute") if source == OURS else {}
    rows = world.stream(world.left, source, **aligned).withWatermark("timestamp", "2 minutes")
    counts = rows.groupBy(window("timestamp", "30 seconds"), "partition").count()
    return counts.selectExpr("partition", "unix_millis(window.start)", "count")


def outer_join(world: World, source: str) -> DataFrame:
    left = world.stream(world.left, source).withWatermark("timestamp", "1 minute")
    right = world.stream(world.right, source).withWatermark("timestamp", "1 minute").select("timestamp")
    joined = left.alias("l").join(right.alias("r"), expr("l.timestamp = r.timestamp"), "leftOuter")
    return joined.selectExpr("partition", "unix_millis(l.timestamp)", "r.timestamp is not null")


def files_beside(world: World, source: str) -> DataFrame:
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


@pytest.mark.parametrize("query", [self_join, windows, outer_join, files_beside])
def test_an_adopted_query_has_each_row_once(
    queries: KafkaQueries, topic: MakeTopic, query: Callable[[World, str], DataFrame]
) -> None:
    world = World(queries, topic(2), topic(1), queries.folder / "json")
    world.folder.mkdir()
    sink = BatchSink(queries.folder / "c")
    world.write(TIMES[0])
    sink.fails_in(query(world, BUILT_IN), 2)
    world.write(TIMES[1])
    sink.fails_in(query(world, OURS), 2)
    world.write(TIMES[2])
    sink.run(query(world, OURS))
    if query in (windows, outer_join):
        closing = T0 + 24 * HOUR
        world.write([closing])
        sink.run(query(world, OURS))
    assert sink.run_again == [1, 2]
    rows = Counter({row: n for row, n in sink.rows().items() if row[1] < T0 + 12 * HOUR})
    assert rows == expected(query)


OLD = Path(__file__).with_name("checkpoints_of_spark")


@pytest.fixture(scope="module")
def clicks(broker: KafkaBroker) -> Iterator[str]:
    """The topic of the stored checkpoints, as it was when they were made, and duplicates and news after that."""
    broker.create_topic("clicks", 2)
    values = [f"{n}" for n in (*range(6), *range(8))]
    broker.write("clicks", [(p, T0, None, f"{p}:{n}".encode()) for p in range(2) for n in values])
    yield "clicks"
    broker.delete_topic("clicks")


@pytest.mark.parametrize("version", sorted(path.name for path in OLD.iterdir()))
def test_a_checkpoint_of_an_older_spark_is_adopted(queries: KafkaQueries, clicks: str, version: str) -> None:
    """``dropDuplicates``: two values of each partition are in the state, two were planned and not committed."""
    checkpoint = queries.folder / "c"
    shutil.copytree(OLD / version, checkpoint)
    stream = queries.stream(clicks, EIGHT).withWatermark("timestamp", "1 hour")
    sink = BatchSink(checkpoint)
    sink.run(stream.selectExpr("cast(value as string) v", "timestamp").dropDuplicates(["v"]).select("v"))
    assert sink.rows() - sink.rows(2) == Counter((f"{p}:{n}",) for p in range(2) for n in (2, 3))
    assert sink.rows(2) == Counter((f"{p}:{n}",) for p in range(2) for n in (4, 5, 6, 7))
