"""Converts messages to rows with the columns of StreamNative's and Databricks' Pulsar sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.connectors.pulsar.client.refused_messages import check_readable

PUBLISH_TIME = "__publishTime"

SCHEMA = pa.schema(
    {
        "value": pa.binary(),
        "__key": pa.binary(),
        "__topic": pa.string(),
        "__messageId": pa.binary(),
        PUBLISH_TIME: pa.timestamp("us", "UTC"),
        "__eventTime": pa.timestamp("us", "UTC"),
        "__messageProperties": pa.map_(pa.string(), pa.string()),
    }
)


def is_publish_time(assigner: TimestampAssigner) -> bool:
    """Returns whether event time is the publish time, by which the broker finds messages."""
    return type(assigner) is RecordTimestampAssigner or assigner.column == PUBLISH_TIME


def rows_of(
    messages: Sequence[Any], ids: Sequence[Any] | None = None, data: Sequence[bytes] | None = None
) -> tuple[pa.RecordBatch, pa.Int64Array]:
    """Returns the rows of messages of pulsar-client, and their publish times (ms).

    Args:
        messages: Messages of one partition, at least one.
        ids: The ids of the messages, if the caller has them: getting an id from a message takes as long as reading it.
        data: The payloads of the messages, if the caller has them.

    Raises:
        RecordFormatError: A message is encrypted, or consists of chunks.
    """
    ids = [m.message_id() for m in messages] if ids is None else ids
    data = [m.data() for m in messages] if data is None else data
    serialized = check_readable(messages, ids)
    published = pa.array([m.publish_timestamp() for m in messages], pa.int64())
    columns = [
        pa.array([d or _empty_or_null(m) for m, d in zip(messages, data, strict=True)], pa.binary()),
        pa.array([m.partition_key().encode() or None for m in messages], pa.binary()),
        pa.repeat(pa.scalar(messages[0].topic_name(), pa.string()), len(messages)),
        pa.array(serialized, pa.binary()),
        _times(published),
        _times(pa.array([m.event_timestamp() or None for m in messages], pa.int64())),
        pa.array([list(m.properties().items()) for m in messages], SCHEMA.field("__messageProperties").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), published


def _empty_or_null(message: Any) -> bytes | None:
    return None if message.has_null_value() else b""


def _times(ms: pa.Int64Array) -> pa.Array:
    return ms.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
