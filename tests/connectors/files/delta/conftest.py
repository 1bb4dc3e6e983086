"""A Spark session and a table, for tests of Delta tables that Spark writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.connectors.files.support.spark_tables import SparkTable, small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with settings for small tables."""
    return small(spark)


@pytest.fixture
def table(session: SparkSession, tmp_path: Path) -> SparkTable:
    return SparkTable(session, tmp_path / "a table")
