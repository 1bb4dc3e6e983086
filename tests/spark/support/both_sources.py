"""Runs the same query with Spark's built-in Kafka source and with this project's, and compares the results."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.errors import OptionError, message_of
from tests.spark.support.kafka_queries import AVAILABLE_NOW, KafkaQueries, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BUILT_IN, OURS = "kafka", "flip27_kafka"

both_formats = pytest.mark.parametrize("source", [BUILT_IN, OURS])
"""Runs a test once with each source. With Spark's own source the test shows that Spark behaves so."""

FAILURES = (PySparkException, Py4JError)
"""The Python exceptions that a failing query raises."""

_REASONS = {
    "an option names other partitions than are read": r"Specified: .*Assigned: ",
    "options name different partitions": r"name the same partitions|have the same topic-partitions",
    "no record at or after a time": r"No offset matched from request",
    "reading begins after its end": r"is (after|greater than) the (ending|resolved end|end) offset",
    "a batch read begins at the latest or ends at the earliest offset": r"can't be (latest|earliest) for batch",
    "minPartitions is 0": r"'minPartitions': '0'|minPartitions must be positive",
    "records were lost": r"DataLossError|Some data may have been lost",
}
"""The reasons for which a read fails, with patterns of the messages of both sources."""

_ROW_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]

Batches = list[pa.Table]

T = TypeVar("T")


class Collected:
    """Runs a stream and keeps the rows of each batch, in the order of topic, partition and offset."""

    def __init__(
        self, stream: DataFrame, checkpoint: Path, trigger: Mapping[str, Any] = AVAILABLE_NOW
    ) -> None:
        self.batches: Batches = []
        writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(**trigger)
        self.query: StreamingQuery = writer.foreachBatch(self._keep).start()

    def finish(self) -> Batches:
        """Waits for the end of a query that ends by itself, and returns its batches. Raises the query's error."""
        finish(self.query)
        return self.batches

    def positions(self) -> Counter[tuple[str, int, int]]:
        return positions(self.batches)

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches.append(batch.toArrow().sort_by(_ROW_ORDER))


def collect(stream: DataFrame, checkpoint: Path, trigger: Mapping[str, Any] = AVAILABLE_NOW) -> Batches:
    """Returns the batches of a query that ends by itself."""
    return Collected(stream, checkpoint, trigger).finish()


def positions(batches: Iterable[pa.Table]) -> Counter[tuple[str, int, int]]:
    """Returns how often each record (topic, partition, offset) occurs."""
    found: Counter[tuple[str, int, int]] = Counter()
    for batch in batches:
        found.update(
            zip(*(batch[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        )
    return found


def rows_by_partition(batches: Iterable[pa.Table]) -> list[dict[int, int]]:
    """Returns for each batch the number of rows by partition."""
    return [dict(sorted(Counter(batch["partition"].to_pylist()).items())) for batch in batches]


def sizes(batches: Iterable[pa.Table]) -> list[int]:
    """Returns the number of rows of each batch that is not empty."""
    return [len(batch) for batch in batches if len(batch)]


def rows(frame: DataFrame) -> pa.Table:
    """Returns the rows of a batch query, in the order of topic, partition and offset."""
    return frame.toArrow().sort_by(_ROW_ORDER)


def failure(run: Callable[[], object]) -> str:
    """Returns the error message of a query that fails, at ``load()`` or later."""
    with pytest.raises(FAILURES) as error:
        run()
    return str(error.value)


def refusal(queries: KafkaQueries, source: str, options: Mapping[str, str], *, bounded: bool = False) -> str:
    """Returns the error message for options that are not allowed, in a stream or a batch query.

    This project's options are only parsed here. Other tests check that messages reach the user, which takes a process
    each.
    """
    options = {"kafka.bootstrap.servers": queries.broker.bootstrap_servers, **options}
    if source == OURS:
        with pytest.raises(OptionError, match=r"\w") as error:
            parse_kafka_options(options, bounded=bounded)
        return str(error.value)
    reader = queries.spark.read if bounded else queries.spark.readStream
    return failure(lambda: reader.format(source).options(**options).load().toArrow())


def outcome(run: Callable[[], T]) -> T | Exception:
    """Returns the result of ``run``, or the error that Spark raised."""
    try:
        return run()
    except FAILURES as error:
        return error


def assert_same_outcome(
    spark: SparkSession, ours: Batches | Exception, theirs: Batches | Exception, about: object
) -> None:
    """Checks that rows, columns and batch boundaries of both sources are the same, or that both sources failed for the
    same reason.
    """
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        reasons = [_reason(result) for result in (ours, theirs)]
        assert reasons[0] == reasons[1], f"{about}\nours: {_brief(ours)}\ntheirs: {_brief(theirs)}"
        return
    per_batch = [len(batch) for batch in ours], [len(batch) for batch in theirs]
    assert per_batch[0] == per_batch[1], f"{about}: rows per batch, ours and theirs"
    if ours:
        assert_df_equality(spark.createDataFrame(_numbered(ours)), spark.createDataFrame(_numbered(theirs)))


def _reason(result: Batches | Exception) -> str | None:
    """Returns the reason of a failure: one of :data:`_REASONS`, or else the message. ``None`` if nothing failed."""
    if not isinstance(result, Exception):
        return None
    said = message_of(result)
    return next((reason for reason, pattern in _REASONS.items() if re.search(pattern, said)), said)


def _numbered(batches: Sequence[pa.Table]) -> pa.Table:
    """Returns all rows, with the number of their batch."""
    numbers = [number for number, batch in enumerate(batches) for _ in range(len(batch))]
    return pa.concat_tables(batches).append_column("batch", pa.array(numbers, pa.int64()))


def _brief(result: Batches | Exception) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {str(result)[:1500]}"
    return f"rows per batch: {[len(batch) for batch in result]}"


def new_checkpoint(folder: Path) -> Path:
    return folder / f"checkpoint-{uuid.uuid4().hex}"
