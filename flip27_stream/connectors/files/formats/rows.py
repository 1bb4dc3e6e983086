"""Reads the rows of a data file with its layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem

from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import flags, numbers_of
from flip27_stream.connectors.files.formats.file_format import FileFormat, MalformedRecord
from flip27_stream.connectors.files.formats.schemas import constants, with_constants
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.reader import Records


def read_rows(
    format: FileFormat,
    fs: FileSystem,
    path: str,
    start: int,
    end: int,
    schema: pa.Schema,
    layout: FileLayout,
    *,
    size: int | None = None,
    dropped: Callable[[MalformedRecord], None] | None = None,
) -> Iterator[Records]:
    """Yields the rows between two positions, as record batches of exactly ``schema``; see :meth:`FileFormat.read`.

    Partition columns have the same value in every row. Deleted rows are left out, so positions can have gaps.

    Raises:
        Flip27Error: The errors of :class:`FileFormat` and :class:`DeletionVector`.
    """
    fixed = constants(dict(layout.values), schema, f"{format.name} file {path}")
    stored = pa.schema([field for field in schema if field.name not in fixed])
    deleted = None if layout.deletion is None else layout.deletion.deleted_rows(fs, path)
    of_file = format.of_layout(layout)
    for records in of_file.read(fs, path, start, end, stored, size=size, dropped=dropped):
        if fixed:
            records = replace(records, rows=with_constants(records.rows, fixed, schema))
        if deleted is not None:
            records = _without(records, deleted)
        if len(records):
            yield records


def _without(records: Records, deleted: Int64s) -> Records:
    """Returns the records whose row numbers are not in ``deleted``, which is ascending."""
    assert records.positions is not None
    assert isinstance(records.rows, pa.RecordBatch)
    rows = numbers_of(records.positions)
    first, last = np.searchsorted(deleted, [rows[0], rows[-1] + 1]) if len(rows) else (0, 0)
    if first == last:
        return records
    kept = flags(np.isin(rows, deleted[first:last], assume_unique=True, invert=True))
    return replace(records, rows=records.rows.filter(kept), positions=records.positions.filter(kept))
