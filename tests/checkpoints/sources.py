"""The sources of the queries that wrote the offset documents in the folders beside this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flip27_stream.api import Source
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.pulsar import PulsarSource

ROWS = pa.schema({"value": "binary", "timestamp": pa.timestamp("us", "UTC")})


def kafka() -> Source[Any, Any]:
    return KafkaSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}, schema=ROWS)


def files() -> Source[Any, Any]:
    return FileSource({"path": "/data/clicks"}, bounded=True, schema=ROWS)


def delta() -> Source[Any, Any]:
    return FileSource({"path": "/delta/clicks", "files.format": "delta"}, schema=ROWS)


def hybrid() -> Source[Any, Any]:
    return HybridSource.builder(files(), event_time="timestamp").add_source(lambda switch: kafka()).build()


def kinesis() -> Source[Any, Any]:
    return KinesisSource({"streamName": "clicks", "region": "eu-west-1"})


def pulsar() -> Source[Any, Any]:
    return PulsarSource({"service.url": "pulsar://localhost:6650", "topic": "clicks"})


SOURCES: dict[str, Callable[[], Source[Any, Any]]] = {
    "kafka": kafka,
    "files": files,
    "delta": delta,
    "hybrid": hybrid,
    "kinesis": kinesis,
    "pulsar": pulsar,
}
"""Functions that create the sources, by the first word of the names of their documents."""
