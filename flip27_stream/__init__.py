"""Flink's source architecture for Spark Structured Streaming, with split-level watermark alignment.

Spark computes its watermark from the greatest event time over all partitions, so it silently drops the rows of a
partition that lags. The sources of this package read all their splits up to the same event time, the horizon, in
every micro-batch. So Spark drops no partition::

    import flip27_stream

    flip27_stream.register(spark)
    spark.readStream.format("flip27_kafka").option(...).load()

:mod:`flip27_stream.api` is the model of FLIP-27 (source, split, enumerator, reader), :mod:`flip27_stream.connectors`
implements it, :mod:`flip27_stream.spark` runs it inside Spark, and :mod:`watermark_alignment.planner` chooses the
horizon.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from flip27_stream.api import Source
    from flip27_stream.connectors.files import FileSource
    from flip27_stream.connectors.files.table_location import table_location
    from flip27_stream.connectors.hybrid import HybridSource
    from flip27_stream.connectors.kafka import KafkaSource
    from flip27_stream.connectors.kinesis import KinesisSource
    from flip27_stream.connectors.pulsar import PulsarSource

# delta-rs reads this variable when it is imported, which no module does before this one. Otherwise it would print
# warnings about a store without credentials before the error of this package, which has the remedy.
os.environ.setdefault("RUST_LOG", "error")

__all__ = [
    "FileSource",
    "HybridSource",
    "KafkaSource",
    "KinesisSource",
    "PulsarSource",
    "data_source",
    "register",
    "table_location",
]

_CONNECTORS = {
    "FileSource": "files",
    "HybridSource": "hybrid",
    "KafkaSource": "kafka",
    "KinesisSource": "kinesis",
    "PulsarSource": "pulsar",
    "table_location": "files.table_location",
}


def register(spark: SparkSession) -> None:
    """Registers the formats of this package with a session.

    They are ``flip27_kafka``, ``flip27_files``, ``flip27_kinesis`` and ``flip27_pulsar``. A query that uses one of the
    last two needs the extra ``[kinesis]`` or ``[pulsar]``.

    It also hides the values of the secret options of these formats in ``explain(True)``, for the whole session; see
    :mod:`flip27_stream.spark.session.redaction`.

    Raises:
        ValueError: ``spark`` is no session, or a stopped one.
        UnsupportedSparkError: This Spark has no read limits for Python streaming sources (before 4.2).
    """
    adapter = _adapter()
    from flip27_stream.connectors.files import FileSourceFactory
    from flip27_stream.connectors.kafka import KafkaSourceFactory
    from flip27_stream.connectors.kinesis import KinesisSourceFactory
    from flip27_stream.connectors.pulsar import PulsarSourceFactory
    from flip27_stream.spark.session.redaction import hide_secrets
    from flip27_stream.spark.session.running_session import check_running

    check_running(spark)
    hide_secrets(spark)
    adapter.register(spark, KafkaSourceFactory())
    adapter.register(spark, FileSourceFactory())
    adapter.register(spark, KinesisSourceFactory())
    adapter.register(spark, PulsarSourceFactory())


def data_source(source: Source[Any, Any] | Callable[..., Source[Any, Any]], name: str) -> type[DataSource]:
    """Returns the class of a format, an argument for ``spark.dataSource.register``.

    Args:
        source: A source; or a function that makes one, whose parameters are the options of the format. A parameter
            without a default is required. The value of an option is parsed by the annotation of its parameter: ``str``,
            ``int``, ``float``, ``bool``, a ``Literal`` of texts, or one of these or ``None``.
        name: The name of the format, which ``spark.readStream.format`` takes: letters, digits, ``_``, ``-`` and ``.``,
            and not the name of a format of Spark, or of one that :func:`register` registers.

    Raises:
        ValueError: The name is not allowed, or the source or the function cannot be a format.
        UnsupportedSparkError: This Spark has no read limits for Python streaming sources (before 4.2).
    """
    data_source: type[DataSource] = _adapter().data_source(source, name)
    return data_source


def _adapter() -> Any:
    """Returns the module that makes data sources. It is imported on use, so that the model works without pyspark."""
    from flip27_stream.spark.session.spark_features import check_admission_control

    check_admission_control()
    return import_module("flip27_stream.spark.data_source")


def __getattr__(name: str) -> Any:
    """Imports a source, with the client that it needs, when it is first used."""
    if name not in _CONNECTORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"flip27_stream.connectors.{_CONNECTORS[name]}"), name)
