"""The rows of the split-watermark table: their schema, and their columns in Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import longs, repeated, texts
from watermark_alignment.split_columns import UNKNOWN, column_of

_TIMESTAMP = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("source", pa.string()),
        ("split", pa.string()),
        ("batch", pa.int64()),
        ("start_position", pa.string()),
        ("end_position", pa.string()),
        ("rows", pa.int64()),
        ("watermark", _TIMESTAMP),
        ("max_event_time", _TIMESTAMP),
        ("status", pa.string()),
        ("drift_ms", pa.int64()),
        ("recorded_at", _TIMESTAMP),
    ]
)

_TIMES = [field.name for field in SCHEMA if field.type == _TIMESTAMP]
_YEAR_1_MS, _YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class SplitRow:
    """The row of one split and one batch. Times are milliseconds since the epoch; ``None`` if unknown."""

    group: str
    source: str
    split: str
    batch: int
    start_position: str
    end_position: str
    rows: int
    watermark: int | None
    max_event_time: int | None
    status: str
    drift_ms: int | None
    recorded_at: int


def mismatch(schema: pa.Schema, partition_columns: Sequence[str]) -> str:
    """Returns why a table with this schema is no split-watermark table, and what to do; empty if it can be one."""
    if partition_columns:
        return f"is partitioned by '{partition_columns[0]}': give another path"
    found = {field.name: field.type for field in schema}
    for field in SCHEMA:
        if field.name not in found:
            return f"has no column '{field.name}': give the path of another table, or a new one"
        if found[field.name] != field.type:
            return (
                f"has a column '{field.name}' of type {found[field.name]}, not {field.type}: "
                "give the path of another table, or a new one"
            )
    others = found.keys() - set(SCHEMA.names)
    return f"has a column '{min(others)}' that does not belong there: give another path" if others else ""


def as_table(rows: Sequence[SplitRow]) -> pa.Table:
    """Returns the rows as an Arrow table, which takes less than half the memory."""
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    return _table({**columns, **{name: column_of(columns[name]) for name in (*_TIMES, "drift_ms")}})


def columns_of(group: str, source: str, batch: int, recorded_at: int, **columns: Any) -> pa.Table:
    """Returns the rows of one batch of one source.

    Args:
        group: The group of the source.
        source: The id of the source.
        batch: The number of the batch.
        recorded_at: The time at which the rows were recorded (ms).
        columns: The other columns, as in :class:`SplitRow`: times and drifts as arrays of integers in which
            :data:`~watermark_alignment.split_columns.UNKNOWN` stands for ``None``; other columns as lists or Arrow
            arrays.
    """
    rows = len(columns["split"])
    same = {
        "group": repeated(group, rows),
        "source": repeated(source, rows),
        "batch": np.full(rows, batch, np.int64),
    }
    return _table({**columns, **same, "recorded_at": np.full(rows, recorded_at, np.int64)})


def _table(columns: Mapping[str, Any]) -> pa.Table:
    """Returns a table of all ``columns``, which have the form that :func:`columns_of` takes."""
    times = {name: _in_microseconds(columns[name]) for name in _TIMES}
    drift = longs(columns["drift_ms"], columns["drift_ms"] != UNKNOWN)
    made = {**columns, **times, "drift_ms": drift}
    return pa.Table.from_arrays([_column(made[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return texts(values) if kind == pa.string() else longs(np.asarray(values, np.int64))


def _in_microseconds(times: Int64s) -> pa.Array:
    """Returns times (ms) in microseconds; those that readers of the table cannot show become null."""
    shown = (times >= _YEAR_1_MS) & (times <= _YEAR_9999_MS)
    return longs(np.where(shown, times, 0) * 1000, shown).view(_TIMESTAMP)
