"""The one schema of all sources of a hybrid source."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from flip27_stream.errors import OptionError, RecordFormatError

Converter = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Turns a source's rows into those of the hybrid source; rows may be left out. Picklable."""


def common_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a hybrid source: the columns of its first source, all of them nullable."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def converted_schema(schema: pa.Schema, converter: Converter | None) -> pa.Schema:
    """What ``converter`` makes of ``schema``, found by trying it on no rows.

    Raises:
        OptionError: it fails on them.
    """
    if converter is None:
        return schema
    try:
        return converter(pa.RecordBatch.from_pylist([], schema=schema)).schema
    except Exception as error:
        raise OptionError(
            f"A converter of the hybrid source fails on a batch without rows of ({_columns(schema)}): "
            f"{type(error).__name__}: {error}"
        ) from error


def check(found: pa.Schema, wanted: pa.Schema, whose: str) -> None:
    """Compare names and types; order does not matter.

    Raises:
        OptionError: they differ; names each column that does.
    """
    if differences := _differences(found, wanted):
        raise OptionError(
            f"{whose} does not have the columns of the hybrid source: {'; '.join(differences)}. Give add_source a "
            f"converter to ({_columns(wanted)})."
        )


def conform(rows: pa.RecordBatch, wanted: pa.Schema, whose: str) -> pa.RecordBatch:
    """``rows`` with the columns in the order of ``wanted``, and its very schema. Copies nothing.

    Raises:
        RecordFormatError: they have other columns.
    """
    if rows.schema == wanted:
        return rows
    if differences := _differences(rows.schema, wanted):
        raise RecordFormatError(
            f"{whose} gives rows without the columns of the hybrid source: {'; '.join(differences)}."
        )
    if not wanted.names:
        return rows
    return pa.RecordBatch.from_arrays([rows.column(name) for name in wanted.names], schema=wanted)


def _differences(found: pa.Schema, wanted: pa.Schema) -> list[str]:
    missing = [name for name in wanted.names if name not in found.names]
    return [
        *(f"column '{name}' ({wanted.field(name).type}) is missing" for name in missing),
        *(
            f"column '{field.name}' is {field.type}, not {wanted.field(field.name).type}"
            for field in found
            if field.name in wanted.names and field.type != wanted.field(field.name).type
        ),
        *(
            f"column '{field.name}' ({field.type}) is too many"
            for field in found
            if field.name not in wanted.names
        ),
    ]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
