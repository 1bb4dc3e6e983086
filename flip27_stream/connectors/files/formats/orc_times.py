"""Dates and times of ORC files as those of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.formats.legacy_calendar import gregorian_days, with_children
from flip27_stream.connectors.files.layout.columns import is_list
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL
from flip27_stream.decoding.time_zones import in_zone

_UTC: Final = ("UTC", "GMT", "Etc/UTC", "Z")


def with_local_times(field: pa.Field, instant: pa.DataType | None = None) -> pa.Field:
    """Returns a field of a file with the type of Spark's ``timestamp_ntz`` where Spark stored such values.

    Args:
        field: The field, with the metadata that the file has for it.
        instant: The type that replaces ORC's ``timestamp``; by default this type stays.
    """
    kind = field.type
    if is_local(field):
        kind = LOCAL
    elif instant is not None and _is_wall(kind):
        kind = instant
    elif pt.is_struct(kind):
        kind = pa.struct([with_local_times(part, instant) for part in kind])
    elif is_list(kind):
        kind = pa.list_(with_local_times(kind.value_field, instant))
    elif pt.is_map(kind):
        kind = pa.map_(with_local_times(kind.key_field, instant), with_local_times(kind.item_field, instant))
    return field.with_type(kind)


def is_local(field: pa.Field) -> bool:
    """Returns whether a column is Spark's ``timestamp_ntz``, which Spark stores as a number of microseconds."""
    return bool((field.metadata or {}).get(b"spark.sql.catalyst.type") == b"timestamp_ntz")


def has_walls(kind: pa.DataType) -> bool:
    """Returns whether a type is or contains ORC's ``timestamp``, the local times of the writer."""
    return _is_wall(kind) or any(has_walls(kind.field(n).type) for n in range(kind.num_fields))


def _is_wall(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) and kind.tz is None)


@dataclass(frozen=True)
class OrcTimes:
    """Converts the dates and times of a stripe.

    Attributes:
        zone: The time zone of the writer, in which ORC's ``timestamp`` is a local time.
        julian: Whether dates before 1582-10-15 are Julian.
    """

    zone: str
    julian: bool

    def converted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with instants in place of local times, and dates of the Gregorian calendar.

        If two instants have the same local time, the earlier one is taken.
        """
        arrays = [self._array(array, field) for array, field in zip(rows.columns, rows.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names) if arrays else rows

    def _array(self, array: pa.Array, field: pa.Field) -> pa.Array:
        kind = array.type
        if is_local(field):
            return array.view(LOCAL)
        if pt.is_date32(kind):
            return gregorian_days(array) if self.julian else array
        if _is_wall(kind):
            return self._instants(array)
        if pt.is_struct(kind):
            parts = [self._array(array.field(n), part) for n, part in enumerate(kind)]
            fields = [pa.field(one.name, part.type) for one, part in zip(kind, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
        if is_list(kind):
            values = self._array(array.values, kind.value_field)
            return with_children(array, values, pa.list_(values.type))
        if pt.is_map(kind):
            keys, items = self._array(array.keys, kind.key_field), self._array(array.items, kind.item_field)
            found = pa.map_(keys.type, items.type)
            entries = pa.StructArray.from_arrays([keys, items], fields=[found.key_field, found.item_field])
            return with_children(array, entries, found)
        return array

    def _instants(self, array: pa.Array) -> pa.Array:
        if self.zone in _UTC:
            return array.cast(INSTANT, safe=False)
        return in_zone(array, self.zone).cast(INSTANT, safe=False)
