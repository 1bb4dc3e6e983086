"""Parquet files. A position is a row number; a unit is a row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyarrow.fs import FileSystem

from flip27_stream.arrow_columns import longs
from flip27_stream.connectors.files.formats.event_times import NO_TIMES, TimeRange, check_time_column
from flip27_stream.connectors.files.formats.file_format import (
    MAX_BATCH_ROWS,
    FileFormat,
    overlapping,
    units_of_rows,
)
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.legacy_calendar import LegacyCalendar
from flip27_stream.connectors.files.formats.schemas import Projection, spark_schema
from flip27_stream.connectors.files.formats.spark_types import refuse_in_parquet
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.columns import find_column, is_list
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.local_files import open_file
from flip27_stream.decoding.datetime_text import INSTANT
from flip27_stream.parquet_rows import check_row_count, row_batches
from flip27_stream.reader import Records


class ParquetFormat(FileFormat):
    """The Parquet format.

    It reads only the row groups of a range and the wanted columns, some ten thousand rows at once.

    Args:
        columns: The names that files have for the columns; ``None`` for the same names.
    """

    name = "parquet"

    def __init__(self, columns: ColumnMapping | None = None) -> None:
        self._columns = columns

    def of_layout(self, layout: FileLayout) -> ParquetFormat:
        return self if layout.columns is self._columns else ParquetFormat(layout.columns)

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        parquet = _opened(file)
        refuse_in_parquet(parquet.metadata.metadata or {}, f"parquet file {path}")
        leaves = iter(parquet.schema.column(i).physical_type for i in range(len(parquet.schema)))
        stored = pa.schema(_with_instants(field, leaves) for field in parquet.schema_arrow)
        return spark_schema(stored, f"parquet file {path}")

    def least_event_time(self, fs: FileSystem, path: str, column: str) -> int | None:
        with self._errors(fs, path), open_file(fs, path) as file:
            times = self._event_times(_opened(file), column, path)
            found = [t.least for t in times if t is not None and t.least is not None]
            return min(found, default=None)

    def _units(self, file: pa.NativeFile, path: str, column: str | None) -> FileUnits:
        parquet = _opened(file)
        groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
        rows = [group.num_rows for group in groups]
        times = [None] * len(groups) if column is None else self._event_times(parquet, column, path)
        return units_of_rows(file.size(), rows, [group.total_byte_size for group in groups], times)

    def _read(
        self, file: pa.NativeFile, path: str, start: int, end: int, schema: pa.Schema
    ) -> Iterator[Records]:
        parquet = _opened(file)
        what = f"parquet file {path}"
        mapping = self._columns
        file_schema = (
            parquet.schema_arrow if mapping is None else mapping.renamed_schema(parquet.schema_arrow)
        )
        names = {} if mapping is None else mapping.stored(parquet.schema_arrow, what)
        projection = Projection.of(file_schema, schema, what)
        projection.warn_of_missing()
        metadata = parquet.metadata
        borders = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
        groups = overlapping(borders, start, end)
        if not groups:
            return
        row = int(borders[groups[0]])
        columns = [names.get(name, name) for name in projection.columns]
        calendar = LegacyCalendar.of(parquet, columns)
        for batch in row_batches(parquet, groups, MAX_BATCH_ROWS, columns):
            first, stop = max(start - row, 0), min(end - row, batch.num_rows)
            if first < stop:
                part = batch.slice(first, stop - first)
                part = part if calendar is None else calendar.converted(part)
                part = projection.apply(part if mapping is None else mapping.renamed(part))
                yield Records(part, positions=longs(np.arange(row + first, row + stop)))
            row += batch.num_rows

    def _event_times(self, parquet: pq.ParquetFile, column: str, path: str) -> Sequence[TimeRange | None]:
        if self._columns is None:
            return _event_times(parquet, column, path)
        names = self._columns.stored(parquet.schema_arrow, f"parquet file {path}")
        at = find_column(list(names), column)
        if at is None:
            return [NO_TIMES] * parquet.num_row_groups
        return _event_times(parquet, list(names.values())[at], path)


def _opened(file: pa.NativeFile) -> pq.ParquetFile:
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)


def _with_instants(field: pa.Field, leaves: Iterator[str]) -> pa.Field:
    """Returns a field with instants where the file has INT96.

    Arrow reads INT96 as local times, but Spark and Hive write instants as INT96.

    Args:
        field: The field.
        leaves: The physical types of its leaves and of those of later fields.
    """
    kind = field.type
    if pt.is_struct(kind):
        return field.with_type(pa.struct([_with_instants(part, leaves) for part in kind]))
    if is_list(kind):
        return field.with_type(pa.list_(_with_instants(kind.value_field, leaves)))
    if pt.is_map(kind):
        key = _with_instants(kind.key_field, leaves)
        return field.with_type(pa.map_(key, _with_instants(kind.item_field, leaves)))
    return field.with_type(INSTANT) if next(leaves) == "INT96" else field


def _event_times(parquet: pq.ParquetFile, column: str, path: str) -> Sequence[TimeRange | None]:
    """Returns the range of each row group, from its statistics or else by reading the column."""
    metadata = parquet.metadata
    where = _time_column(parquet, column, path)
    if where is None:
        return [NO_TIMES] * metadata.num_row_groups
    found: list[TimeRange | None] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunk = group.column(where.leaf)
        if chunk.physical_type != where.physical:
            _check_type(chunk.physical_type, metadata.schema.column(where.leaf).physical_type)
        times = _from_statistics(chunk, group.num_rows, where.kind)
        if times is None:
            values = parquet.read_row_group(number, columns=[where.name]).column(where.name)
            check_row_count(len(values), group.num_rows)
            times = TimeRange.of_column(values)
        found.append(times)
    return found


class _TimeColumn(NamedTuple):
    """The place of the event-time column in files with a schema, and its physical type in the first such file."""

    schema: pa.Schema
    name: str
    leaf: int
    kind: pa.DataType
    physical: str


_last_seen: dict[str, _TimeColumn] = {}
"""The last result by column name. Most files have the same schema as the file before, and comparing is cheaper than
searching. Besides, Arrow's Parquet schema and metadata reference each other, so each access to the schema leaves
garbage.
"""


def _time_column(parquet: pq.ParquetFile, column: str, path: str) -> _TimeColumn | None:
    last, schema = _last_seen.get(column), parquet.schema_arrow
    if last is not None and last.schema.equals(schema):
        return last
    index = find_column(schema.names, column)
    if index is None:
        return None
    field = schema.field(index)
    check_time_column(field.type, column, f"parquet file {path}")
    columns = parquet.metadata.schema
    leaf = _leaf(columns, field.name, index)
    found = _TimeColumn(schema, field.name, leaf, field.type, columns.column(leaf).physical_type)
    _last_seen[column] = found
    return found


def _leaf(schema: pq.ParquetSchema, name: str, likely_index: int) -> int:
    """Returns the index, among the leaf columns of a file, of a column without nested fields.

    Args:
        schema: The schema of the file.
        name: The name of the column.
        likely_index: The index of the column among all columns, which is the same if no column before it is nested.
    """
    if _is_top_level(schema.column(likely_index), name):
        return likely_index
    return next(i for i in range(len(schema)) if _is_top_level(schema.column(i), name))


def _is_top_level(leaf: Any, name: str) -> bool:
    """Returns whether a leaf is the column ``name``, and not a field whose path is the same, such as ``e.ts``."""
    return bool(leaf.path == name == leaf.name)


def _check_type(of_chunk: str, of_column: str) -> None:
    """Checks that a column has one physical type. With two different types Arrow would end the process.

    Raises:
        pa.ArrowInvalid: The footer has two types for the column.
    """
    if of_chunk != of_column:
        raise pa.ArrowInvalid(
            f"the footer has two types of a column: {of_column}, and {of_chunk} in a part of it"
        )


def _from_statistics(chunk: Any, rows: int, kind: pa.DataType) -> TimeRange | None:
    statistics = chunk.statistics
    if statistics is None:
        return None
    if statistics.has_min_max:
        return TimeRange.of(statistics.min_raw, statistics.max_raw, kind)
    return NO_TIMES if statistics.has_null_count and statistics.null_count == rows else None
