"""Coordinators outside Spark, so that the cost of planning is measured without Spark."""

from __future__ import annotations

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from watermark_alignment.options import AlignmentOptions


def kafka_coordinator(bootstrap_servers: str, topic: str, table: str | None) -> SourceCoordinator:
    """Returns a coordinator that plans a topic from its beginning.

    It is aligned if it gets a path for the split-watermark table.
    """
    return SourceCoordinator(kafka_spec(bootstrap_servers, topic, table))


def kafka_spec(bootstrap_servers: str, topic: str, table: str | None) -> SourceSpec:
    """Returns the specification of the source that :func:`kafka_coordinator` plans."""
    source = KafkaSource(
        {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, "startingoffsets": "earliest"}
    )
    alignment = None
    if table is not None:
        alignment = AlignmentOptions.parse(alignment_options(table))
    return SourceSpec(source, WatermarkStrategy(), alignment, Driver())


def alignment_options(table: str) -> dict[str, str]:
    """Returns the options of an aligned source with its split-watermark table at the path ``table``."""
    return {
        "scan.watermark.alignment.group": "benchmark",
        "scan.watermark.alignment.max-drift": "5 minutes",
        "scan.watermark.alignment.table": table,
    }
