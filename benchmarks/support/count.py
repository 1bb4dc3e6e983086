"""Counts the rows of a source that is read without Spark."""

from __future__ import annotations

import time
from typing import Any

from flip27_stream.api import Source
from flip27_stream.testing.source_query import SourceQuery


class Count:
    """Counts the rows that a reader emits."""

    def __init__(self) -> None:
        self.rows = 0

    def create_output_for_split(self, split_id: str) -> Count:
        return self

    def release_output_for_split(self, split_id: str) -> None:
        """Does nothing, because the rows of all splits are counted together."""

    def collect(self, records: Any, timestamps: Any = None, positions: Any = None) -> None:
        self.rows += records.num_rows


def read_without_spark(source: Source[Any, Any]) -> tuple[int, float]:
    """Returns the number of rows of a source, and the time (s) of planning and reading them in this process."""
    began, rows = time.perf_counter(), 0
    with SourceQuery(source, available_now=True) as query:
        while (batch := query.next_batch()) is not None:
            for task in query.tasks(*batch):
                output = Count()
                for _ in query.poll(task, output):  # type: ignore[arg-type]
                    pass
                rows += output.rows
            query.offset = batch[1]
    return rows, time.perf_counter() - began
