"""Reads local files with a format: rows, positions and units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from flip27_stream.connectors.files.formats.file_format import FileFormat, MalformedRecord
from flip27_stream.connectors.files.formats.file_units import FileUnits

LOCAL_FS = LocalFileSystem()
INSTANT = pa.timestamp("us", tz="UTC")


def pieces_of(
    format: FileFormat,
    path: Path,
    start: int,
    end: int,
    schema: pa.Schema,
    dropped: list[MalformedRecord] | None = None,
) -> list[tuple[pa.RecordBatch, list[int]]]:
    """Returns the record batches of one range, with the positions of their rows."""
    tell = None if dropped is None else dropped.append
    read = format.read(LOCAL_FS, str(path), start, end, schema, dropped=tell)
    return [(records.rows, pa.array(records.positions).to_pylist()) for records in read]


def read_table(
    format: FileFormat,
    path: Path,
    schema: pa.Schema,
    cuts: Sequence[int] = (),
    dropped: list[MalformedRecord] | None = None,
) -> pa.Table:
    """Returns all rows, read in ranges between ``cuts``, and checks schemas and positions of all batches."""
    end = format.units(LOCAL_FS, str(path)).end
    batches = []
    for start, stop in itertools.pairwise([0, *cuts, end]):
        last = start
        for batch, positions in pieces_of(format, path, start, stop, schema, dropped):
            assert batch.schema.equals(schema, check_metadata=True)
            assert len(positions) == batch.num_rows
            assert positions == sorted(positions)
            assert last <= positions[0] <= positions[-1] < stop
            last = positions[-1]
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def read_rows(
    format: FileFormat,
    path: Path,
    schema: pa.Schema,
    cuts: Sequence[int] = (),
    dropped: list[MalformedRecord] | None = None,
) -> list[dict[str, Any]]:
    """Returns the rows of :func:`read_table`."""
    rows: list[dict[str, Any]] = read_table(format, path, schema, cuts, dropped).to_pylist()
    return rows


def units_of(format: FileFormat, path: Path, column: str | None = None) -> FileUnits:
    """Returns the units of a local file."""
    return format.units(LOCAL_FS, str(path), column)
