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
    """A session of the shared Spark that knows our formats, and whose small data need one shuffle partition."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    flip27_stream.register(session)
    return session


@pytest.fixture
def queries(registered: SparkSession, broker: KafkaBroker, tmp_path: Path) -> KafkaQueries:
    return KafkaQueries(registered, broker, tmp_path)
