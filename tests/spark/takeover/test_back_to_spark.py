"""The way back: Spark's Kafka source goes on from a checkpoint of this project's, with the code of the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient

from tests.spark.support.both_sources import BUILT_IN, OURS, collect, positions
from tests.spark.support.kafka_queries import HOUR, T0, KafkaQueries, fill
from tests.spark.takeover.support.batch_sink import BatchSink
from tests.spark.takeover.support.counted_records import MakeTopic, each_once
from tests.spark.takeover.support.failing_stream import until_failed
from tests.spark.takeover.support.joins_and_windows import (
    TIMES,
    JoinsAndWindows,
    expected,
    files_beside,
    self_join,
    windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm

PAGE = (Path(__file__).parents[3] / "docs" / "migrate.md").read_text()


def back_to_spark(checkpoint: Path) -> None:
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def back" in block]
    names: dict[str, Any] = {}
    exec(compile(code, "migrate.md", "exec"), names)
    names["back_to_spark"](str(checkpoint))


@pytest.mark.parametrize("query", [self_join, windows, files_beside])
def test_a_query_changes_sources_in_the_middle_of_batches_and_back(
    queries: KafkaQueries, topic: MakeTopic, query: Callable[[JoinsAndWindows, str], DataFrame]
) -> None:
    """A batch of our source is read again by Spark's, the next one of Spark's by ours, and each row comes once."""
    world = JoinsAndWindows(queries, topic(2), topic(1), queries.folder / "json")
    world.folder.mkdir()
    sink = BatchSink(queries.folder / "c")
    world.write(TIMES[0])
    sink.fails_in(query(world, OURS), 2)
    back_to_spark(queries.folder / "c")
    world.write(TIMES[1])
    sink.fails_in(query(world, BUILT_IN), 2)
    world.write(TIMES[2])
    sink.run(query(world, OURS))
    if query is windows:
        world.write([T0 + 24 * HOUR])
        sink.run(query(world, OURS))
    assert sink.run_again == [1, 2]
    rows = Counter({row: n for row, n in sink.rows().items() if row[1] < T0 + 12 * HOUR})
    assert rows == expected(query)


def test_a_batch_with_a_new_partition_is_read_by_the_other_source(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    name = topic(2)
    fill(queries, name, 2, 2)
    read = collect(queries.stream(name), queries.folder / "c")
    with closing(KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)) as admin:
        admin.create_partitions({name: 3})
    fill(queries, name, 3, 3)
    planned = until_failed(queries.stream(name), queries, 1)
    back_to_spark(queries.folder / "c")
    fill(queries, name, 3, 2)
    batches = collect(queries.stream(name, source=BUILT_IN), queries.folder / "c")
    assert positions(batches[:1]) == positions(planned.batches)
    assert positions(read + batches) == each_once({(name, 0): 7, (name, 1): 7, (name, 2): 5})


def test_a_checkpoint_without_a_committed_batch_is_refused(tmp_path: Path) -> None:
    planned = tmp_path / "offsets" / "0"
    planned.parent.mkdir()
    planned.write_text('v1\n{}\n{"source": "Kafka topics t", "splits": {"t-0": [5]}}')
    with pytest.raises(ValueError, match="no batch is committed"):
        back_to_spark(tmp_path)
    assert '"t-0": [5]' in planned.read_text()
