"""A Python source that does as little as possible: it has its Arrow batch ready, and yields parts of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType


def constant_source(batch: pa.RecordBatch, rows: Sequence[Sequence[int]], folder: Path) -> type[DataSource]:
    """Returns the data source ``constant``, which has a task for each entry of ``rows``.

    A task yields one batch for each number in its entry: that many rows of ``batch``.

    ``folder`` is where workers find the batch.
    """
    path = folder / "batch.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    columns = from_arrow_schema(batch.schema)

    class ConstantSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "constant"

        def schema(self) -> StructType:
            return columns

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return ConstantReader(str(path), rows)

    return ConstantSource


class ConstantPartition(InputPartition):
    """The number of rows of each batch of one task."""

    def __init__(self, rows: Sequence[int]) -> None:
        super().__init__(tuple(rows))


class ConstantReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of one micro-batch."""

    def __init__(self, path: str, rows: Sequence[Sequence[int]]) -> None:
        self._path = path
        self._rows = rows

    def initialOffset(self) -> dict[str, Any]:
        return {"batches": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Does nothing, because the data never grow."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batches": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [ConstantPartition(rows) for rows in self._rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._path)
        for rows in partition.value:
            yield batch.slice(0, rows)


@lru_cache(maxsize=1)
def _batch(path: str) -> pa.RecordBatch:
    """Returns the batch, which stays in memory as long as the worker runs."""
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).get_batch(0)
