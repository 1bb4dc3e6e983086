"""A query that is started a second time on a real Spark while it runs, by mistake, with the same checkpoint."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from flip27_stream.testing import wait_until
from tests.spark.support.kafka_queries import CONTINUOUS, TIME_LIMIT_S, KafkaQueries, fill
from tests.support.checkpoint_logs import logged_batches

pytestmark = pytest.mark.jvm

SLOW = 2


def of_another_spark(checkpoint: Path) -> Path:
    """Returns a checkpoint with the logs of ``checkpoint``, for a query that another Spark would run.

    One Spark stops a query when it starts another one with the same id, so the new query has its own.
    """
    other = checkpoint.with_name("other-checkpoint")
    other.mkdir()
    for log in ("offsets", "commits"):
        (other / log).symlink_to(checkpoint / log)
    (other / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return other


def test_a_query_that_is_started_twice_goes_on_once(
    queries: KafkaQueries, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The second query runs again the batch that the first one runs. It cannot log that it has done so, and ends. The
    first one goes on, also while the second one runs that batch.
    """
    name, replays, goes_on = topic(partitions=1), threading.Event(), threading.Event()
    fill(queries, name, 1, 100)
    options = {**queries.aligned("1 hour"), "maxOffsetsPerTrigger": "1"}

    def start(checkpoint: Path, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        writer = queries.stream(name, options).writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(checkpoint)).trigger(**CONTINUOUS).start()

    def take_slowly(_: DataFrame, batch: int) -> None:
        assert batch != SLOW or replays.wait(TIME_LIMIT_S)

    def replay(_: DataFrame, batch: int) -> None:
        replays.set()
        assert batch == SLOW
        assert goes_on.wait(TIME_LIMIT_S)

    checkpoint = tmp_path / "checkpoint"
    first = start(checkpoint, take_slowly)
    try:
        wait_until(lambda: SLOW in logged_batches(checkpoint, "offsets"), "the slow batch", TIME_LIMIT_S)
        second = start(of_another_spark(checkpoint), replay)
        try:
            wait_until(
                lambda: not first.isActive or SLOW + 3 in logged_batches(checkpoint, "commits"),
                "more batches",
                TIME_LIMIT_S,
            )
            goes_on.set()
            wait_until(lambda: not second.isActive, "the end of the second query", TIME_LIMIT_S)
        finally:
            goes_on.set()
            second.stop()
        assert "CONCURRENT_STREAM_LOG_UPDATE" in str(second.exception())
        assert first.exception() is None
        assert first.isActive
    finally:
        replays.set()
        first.stop()
