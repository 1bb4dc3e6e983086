"""Converts messages to rows with the columns of StreamNative's and Databricks' Pulsar sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.connectors.pulsar.client.refused_messages import check_readable, not_utf8

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

_LATEST = pa.scalar((2**63 - 1) // 1000, pa.uint64())
"""The greatest time (ms) that fits a timestamp in microseconds."""


def is_publish_time(assigner: TimestampAssigner) -> bool:
    """Returns whether event time is the publish time, by which the broker finds messages."""
    return type(assigner) is RecordTimestampAssigner or assigner.column == PUBLISH_TIME


def rows_of(
    messages: Sequence[Any], ids: Sequence[Any] | None = None, data: Sequence[bytes] | None = None
) -> tuple[pa.RecordBatch, pa.Int64Array]:
    """Returns the rows of messages of pulsar-client, and their publish times (ms).

    Times are numbers of 64 bits without a sign. Those that do not fit a timestamp become the greatest one that
    does, so that option ``scan.watermark.implausible-event-time`` treats them.

    Args:
        messages: Messages of one partition, at least one.
        ids: The ids of the messages, if the caller has them: getting an id from a message takes as long as reading it.
        data: The payloads of the messages, if the caller has them.

    Raises:
        RecordFormatError: A message is encrypted, or consists of chunks; or its key or its properties are not UTF-8.
    """
    ids = [m.message_id() for m in messages] if ids is None else ids
    data = [m.data() for m in messages] if data is None else data
    serialized = check_readable(messages, ids)
    published = _times([m.publish_timestamp() for m in messages])
    try:
        keys = [m.partition_key().encode() or None for m in messages]
        properties = [list(m.properties().items()) for m in messages]
    except UnicodeDecodeError as error:
        raise not_utf8(messages) from error
    columns = [
        pa.array([d or _empty_or_null(m) for m, d in zip(messages, data, strict=True)], pa.binary()),
        pa.array(keys, pa.binary()),
        pa.repeat(pa.scalar(messages[0].topic_name(), pa.string()), len(messages)),
        pa.array(serialized, pa.binary()),
        _timestamps(published),
        _timestamps(_times([m.event_timestamp() or None for m in messages])),
        pa.array(properties, SCHEMA.field("__messageProperties").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), published


def _empty_or_null(message: Any) -> bytes | None:
    return None if message.has_null_value() else b""


def _times(ms: Sequence[int | None]) -> pa.Int64Array:
    return pc.min_element_wise(pa.array(ms, pa.uint64()), _LATEST, skip_nulls=False).cast(pa.int64())


def _timestamps(ms: pa.Int64Array) -> pa.Array:
    return ms.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
