"""A stream whose sink fails, so that a batch is planned and not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.support.both_sources import Collected
from tests.spark.support.kafka_queries import KafkaQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FailingIn(Collected):
    """A stream that fails in a batch after the rows of the batch were collected, so that the batch is planned and not
    committed.
    """

    def __init__(self, stream: DataFrame, queries: KafkaQueries, number: int) -> None:
        self._number = number
        super().__init__(stream, queries.folder / "c")

    def _keep(self, batch: DataFrame, number: int) -> None:
        super()._keep(batch, number)
        if number == self._number:
            raise RuntimeError("the sink failed")


def until_failed(stream: DataFrame, queries: KafkaQueries, number: int) -> Collected:
    run = FailingIn(stream, queries, number)
    with pytest.raises(StreamingQueryException):
        run.finish()
    return run
