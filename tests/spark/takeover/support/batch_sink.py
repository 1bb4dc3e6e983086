"""A sink that keeps the rows of each batch, and fails at the batches that a test sets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.support.kafka_queries import AVAILABLE_NOW, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = tuple[Any, ...]


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
