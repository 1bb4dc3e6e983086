"""Fixtures for queries on a real Spark, and for queries in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flip27_stream
from flip27_stream.api import ReadLimits
from flip27_stream.testing import KafkaBroker
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.kafka_queries import KafkaQueries
from tests.spark.support.sources.memory_source import MemoryWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def registered(spark: SparkSession) -> SparkSession:
    """A session of the shared Spark that knows our formats."""
    session = spark.newSession()
    flip27_stream.register(session)
    return session


@pytest.fixture
def queries(registered: SparkSession, broker: KafkaBroker, tmp_path: Path) -> KafkaQueries:
    return KafkaQueries(registered, broker, tmp_path)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., DrivenQuery]:
    """Returns a function that makes a query without Spark over logs in memory. The test drives the query."""

    def query(
        logs: Mapping[str, list[int | None]],
        aligned: bool = True,
        limits: ReadLimits | None = None,
        **options: str,
    ) -> DrivenQuery:
        return DrivenQuery(
            MemoryWorld(dict(logs)), tmp_path / "table" if aligned else None, limits, options=options
        )

    return query
