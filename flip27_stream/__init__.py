"""Flink's source architecture for Spark Structured Streaming, with split-level watermark alignment.

Spark takes the greatest event time over all partitions for its watermark, so a partition that lags is dropped as
late, silently. The sources of this package plan every micro-batch to one event-time horizon for all their splits, so
none is::

    import flip27_stream

    flip27_stream.register(spark)
    spark.readStream.format("flip27_kafka").option(...).load()

:mod:`flip27_stream.api` is the model of FLIP-27 (source, split, enumerator, reader), :mod:`flip27_stream.connectors`
implements it, :mod:`flip27_stream.spark` runs it inside Spark, :mod:`watermark_alignment.planner` holds the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from flip27_stream.api import Source

__all__ = ["data_source", "register"]


def register(spark: SparkSession) -> None:
    """Make the formats of this package known to a session: ``flip27_kafka``."""
    from flip27_stream.connectors.kafka import KafkaSourceFactory
    from flip27_stream.spark import data_source as adapter  # here, so that the model works without pyspark

    adapter.register(spark, KafkaSourceFactory())


def data_source(source: Source[Any, Any], name: str) -> type[DataSource]:
    """``source`` as a format named ``name``, to be given to ``spark.dataSource.register``."""
    from flip27_stream.spark import data_source as adapter

    return adapter.data_source(source, name)
