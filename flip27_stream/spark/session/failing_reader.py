"""A stream reader that says why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from flip27_stream.errors import Flip27Error


class FailingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises when it is asked for an offset: an error of ``DataSource.streamReader`` itself is buried by Spark."""

    def __init__(self, refusal: Flip27Error) -> None:
        self._refusal = refusal

    def initialOffset(self) -> dict[str, Any]:
        raise self._refusal

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        raise self._refusal

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._refusal

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._refusal

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._refusal
