"""The schema that all sources of a hybrid source share."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from flip27_stream.errors import OptionError, RecordFormatError

Converter = Callable[[pa.RecordBatch], pa.RecordBatch]
"""The type of a function that converts the rows of a source into rows of the hybrid source.

It may drop rows, and must be picklable.
"""


def common_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of a hybrid source: the columns of its first source, all nullable."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def converted_schema(schema: pa.Schema, converter: Converter | None) -> pa.Schema:
    """Returns the schema that ``converter`` returns for a batch with ``schema`` and no rows.

    Raises:
        OptionError: The converter fails.
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
    """Compares the names and types of columns. Their order does not matter.

    Raises:
        OptionError: Columns differ. The error names each of them.
    """
    if differences := _differences(found, wanted):
        raise OptionError(
            f"{whose} does not have the columns of the hybrid source: {'; '.join(differences)}. Give add_source a "
            f"converter to ({_columns(wanted)})."
        )


def conform(rows: pa.RecordBatch, wanted: pa.Schema, whose: str) -> pa.RecordBatch:
    """Returns ``rows`` with schema ``wanted``: the columns are put in its order. No data is copied.

    Raises:
        RecordFormatError: The rows have other columns.
    """
    if rows.schema == wanted:
        return rows
    if differences := _differences(rows.schema, wanted):
        raise RecordFormatError(
            f"{whose} returns rows that do not have the columns of the hybrid source: {'; '.join(differences)}."
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
            f"column '{field.name}' ({field.type}) is not a column of the hybrid source"
            for field in found
            if field.name not in wanted.names
        ),
    ]


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
