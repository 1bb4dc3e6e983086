"""What the tests on a real Spark share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flip27_stream
from flip27_stream.testing import KafkaBroker
from tests.spark.kafka_queries import KafkaQueries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def registered(spark: SparkSession) -> SparkSession:
    """The shared session, with our formats."""
    flip27_stream.register(spark)
    return spark


@pytest.fixture
def queries(registered: SparkSession, broker: KafkaBroker, tmp_path: Path) -> KafkaQueries:
    return KafkaQueries(registered, broker, tmp_path)
