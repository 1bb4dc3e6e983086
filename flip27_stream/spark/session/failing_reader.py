"""A stream reader that replaces a reader that could not be created, and raises the error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from flip27_stream.errors import Flip27Error


class FailingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that raises ``error`` in every call. Spark would hide an error of ``DataSource.streamReader`` itself.

    Args:
        error: The error with which the reader could not be created.
    """

    def __init__(self, error: Flip27Error) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error
