"""Queries with joins, state and several sources, continued from a checkpoint of Spark's Kafka source.

Spark's source plans a batch that fails in the sink, ours runs that batch again and fails in the next, and ours goes on.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.support.both_sources import BUILT_IN, OURS
from tests.spark.support.kafka_queries import HOUR, T0, KafkaQueries
from tests.spark.takeover.support.batch_sink import BatchSink
from tests.spark.takeover.support.counted_records import MakeTopic
from tests.spark.takeover.support.joins_and_windows import (
    EIGHT,
    TIMES,
    JoinsAndWindows,
    expected,
    files_beside,
    outer_join,
    self_join,
    windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flip27_stream.testing import KafkaBroker

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("query", [self_join, windows, outer_join, files_beside])
def test_an_adopted_query_has_each_row_once(
    queries: KafkaQueries, topic: MakeTopic, query: Callable[[JoinsAndWindows, str], DataFrame]
) -> None:
    world = JoinsAndWindows(queries, topic(2), topic(1), queries.folder / "json")
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
