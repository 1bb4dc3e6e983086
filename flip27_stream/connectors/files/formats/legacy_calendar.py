"""Dates and times that Spark wrote to Parquet files by the hybrid calendar (Spark ``RebaseDateTime``).

The hybrid calendar is Julian up to 1582-10-04 and Gregorian from 1582-10-15 on. Spark before 3.0 used it, and later
releases use it if ``spark.sql.parquet.datetimeRebaseModeInWrite`` is ``LEGACY``. Readers get the same year, month and
day in the Gregorian calendar, so the number of days changes. Times before 1900 have the present standard offset of
their time zone, as in ``java.util.TimeZone``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.layout.columns import is_list
from flip27_stream.errors import ConnectorError

_VERSION: Final = b"org.apache.spark.version"
_ZONE: Final = b"org.apache.spark.timeZone"
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000
_1900_US: Final = (date(1900, 1, 1).toordinal() - _EPOCH) * _DAY_US

_CENTURIES: Final = tuple(year for year in range(100, 1600, 100) if year % 400)
"""The years that are leap years in the Julian calendar only."""
_LEAD: Final = 2
"""The days by which the Gregorian calendar is behind the Julian calendar in the year 1."""
_SWITCHES: Final = np.array(
    [
        *(date(year, 3, 1).toordinal() - _EPOCH + n - _LEAD + 1 for n, year in enumerate(_CENTURIES)),
        date(1582, 10, 15).toordinal() - _EPOCH,
    ],
    np.int64,
)
"""The days from which another number of days is to be added: the first days of March in those years."""
_ADDED: Final = np.array([_LEAD, *(_LEAD - 1 - n for n in range(len(_CENTURIES))), 0], np.int64)


@dataclass(frozen=True)
class LegacyCalendar:
    """A converter of the old dates and times of one Parquet file.

    Attributes:
        columns: The names of the columns to read.
        leaves: The physical types of their leaves, in that order.
        zone: The time zone in which times were written.
        dates: Whether dates and timestamps are by the hybrid calendar.
        int96: Whether timestamps that are stored as INT96 are by the hybrid calendar.
    """

    columns: Sequence[str]
    leaves: Sequence[str]
    zone: str
    dates: bool
    int96: bool

    @staticmethod
    def of(parquet: pq.ParquetFile, columns: Sequence[str]) -> LegacyCalendar | None:
        """Returns the converter for the columns to read; ``None`` if the file needs no conversion."""
        metadata: Mapping[bytes, bytes] = parquet.metadata.metadata or {}
        version = metadata.get(_VERSION)
        if version is None:
            return None
        dates = version < b"3.0.0" or b"org.apache.spark.legacyDateTime" in metadata
        int96 = version < b"3.1.0" or b"org.apache.spark.legacyINT96" in metadata
        if not columns or not (dates or int96):
            return None
        kinds = _leaves(parquet)
        leaves = [kind for name in columns for kind in kinds[name]]
        return LegacyCalendar(columns, leaves, metadata.get(_ZONE, b"UTC").decode(), dates, int96)

    def converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns of a record batch with the same dates and times in the Gregorian calendar.

        Raises:
            ConnectorError: The time zone is unknown on this machine.
        """
        leaves, wanted = iter(self.leaves), batch.select(list(self.columns))
        return pa.RecordBatch.from_arrays(
            [self._array(column, leaves) for column in wanted.columns], schema=wanted.schema
        )

    def _array(self, array: pa.Array, leaves: Iterator[str]) -> pa.Array:
        kind = array.type
        if pt.is_struct(kind):
            parts = [self._array(array.field(n), leaves) for n in range(kind.num_fields)]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
        if is_list(kind):
            return with_children(array, self._array(array.values, leaves))
        if pt.is_map(kind):
            entries = [self._array(array.keys, leaves), self._array(array.items, leaves)]
            fields = [kind.key_field, kind.item_field]
            return with_children(array, pa.StructArray.from_arrays(entries, fields=fields))
        is_int96 = next(leaves) == "INT96"
        if pt.is_date32(kind) and self.dates:
            return gregorian_days(array)
        is_instant = is_int96 or (pt.is_timestamp(kind) and kind.tz is not None)
        return self._times(array) if is_instant and (self.int96 if is_int96 else self.dates) else array

    def _times(self, array: pa.Array) -> pa.Array:
        ticks = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        old = pc.less(ticks, _1900_US).fill_null(False)
        if not pc.any(old).as_py():
            return array
        values = ticks.filter(old).to_numpy()
        try:
            local = values + _standard_offset(self.zone)
            days = local // _DAY_US
            local += (_in_gregorian(days) - days) * _DAY_US
            found = pc.assume_timezone(
                pa.array(local, pa.timestamp("us")), self.zone, ambiguous="earliest", nonexistent="earliest"
            )
        except pa.ArrowInvalid as error:
            raise ConnectorError(
                f"Times before 1900 were written in the time zone {self.zone}, which is unknown on this machine: "
                f"{error}"
            ) from error
        moved = found.cast(pa.timestamp("us")).cast(pa.int64())
        return pc.replace_with_mask(ticks, old, moved).cast(pa.timestamp("us")).cast(array.type)


def _standard_offset(zone: str) -> int:
    """Returns the present standard offset of a time zone (us): the lesser of the offsets in winter and in summer."""
    days = pa.array([(date(2026, month, 1).toordinal() - _EPOCH) * _DAY_US for month in (1, 7)])
    there = pc.local_timestamp(days.cast(pa.timestamp("us", zone))).cast(pa.int64())
    return int(pc.min(pc.subtract(there, days)).as_py())


def _leaves(parquet: pq.ParquetFile) -> Mapping[str, Sequence[str]]:
    """Returns the physical types of the leaves of each column, by its name."""
    schema = parquet.schema
    kinds = iter(schema.column(n).physical_type for n in range(len(schema)))
    return {one.name: list(islice(kinds, _count(one.type))) for one in parquet.schema_arrow}


def _count(kind: pa.DataType) -> int:
    """Returns the number of leaves of a type."""
    if pt.is_struct(kind):
        return sum(_count(part.type) for part in kind)
    if is_list(kind):
        return _count(kind.value_type)
    return _count(kind.key_type) + _count(kind.item_type) if pt.is_map(kind) else 1


def gregorian_days(array: pa.Array) -> pa.Array:
    """Returns dates of the hybrid calendar as the days of the same dates in the Gregorian calendar."""
    days = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    return pa.array(_in_gregorian(days), pa.int32(), mask=array.is_null().to_numpy(False)).cast(array.type)


def _in_gregorian(days: Int64s) -> Int64s:
    """Returns the days since 1970 of the same dates in the Gregorian calendar."""
    return days + _ADDED[np.searchsorted(_SWITCHES, days, side="right")]


def with_children(array: pa.Array, child: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Returns a list or map array with the values ``child``, of type ``kind`` if their type differs."""
    return pa.Array.from_buffers(
        kind or array.type, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )
