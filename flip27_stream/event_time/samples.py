"""Describes a record without an event time, by the names of its fields and never by their values."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from flip27_stream.api import TimestampAssigner
from flip27_stream.errors import shortened
from flip27_stream.event_time.assigners import JsonTimestampAssigner

_MOST_KEYS: Final = 20


def sample_of(assigner: TimestampAssigner, records: pa.RecordBatch, row: int) -> str:
    """Returns a sentence about one record, without any value of it; "" if there is nothing to say.

    Args:
        assigner: The assigner that found no event time in the record.
        records: A record batch.
        row: The index of the record in the batch.
    """
    if isinstance(assigner, JsonTimestampAssigner):
        if assigner.documents not in records.schema.names:  # a query may read other columns alone
            return ""
        return _of_document(records.column(assigner.documents)[row].cast(pa.binary()).as_py())
    return f"Its event-time column '{assigner.column}' is null or before 1970." if assigner.column else ""


def _of_document(document: bytes | None) -> str:
    if document is None:
        return "The value of one of them is null."
    try:
        value: Any = json.loads(document)
    except (ValueError, RecursionError):
        return "The value of one of them is not JSON."
    if not isinstance(value, dict):
        return f"The value of one of them is JSON, but not an object: {_KINDS.get(type(value), 'a number')}."
    keys = ", ".join(repr(key) for key in list(value)[:_MOST_KEYS])
    more = f" and {len(value) - _MOST_KEYS} more" if len(value) > _MOST_KEYS else ""
    return (
        f"The top-level keys of one of them: {shortened(keys)}{more}."
        if value
        else "One of them is empty: {}."
    )


_KINDS: Final = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
