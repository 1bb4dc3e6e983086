"""Conversion of plain rows to record batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from flip27_stream.errors import RecordFormatError
from flip27_stream.reader.records import Records

_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def to_record_batch(records: Records, schema: pa.Schema, split_id: str, first_row: int) -> pa.RecordBatch:
    """Returns plain rows as a record batch of ``schema``. A key that a mapping lacks is null.

    Args:
        records: Mappings by column name, or tuples or lists in the order of the columns.
        schema: The schema of the source.
        split_id: The id of the split, for error messages.
        first_row: The number of the first row in the range, for error messages.

    Raises:
        RecordFormatError: A row does not fit the schema; the message names split, row, position and column.
    """
    names = schema.names
    columns = _uniform_columns(records.rows, names) or _columns(records, names, split_id, first_row)
    arrays = [
        _to_array(column, field, records, split_id, first_row)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _uniform_columns(rows: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]] | None:
    """Returns the columns of rows that are complete and all of one type, in a fast way; ``None`` for other rows."""
    kinds = set(map(type, rows))
    if not kinds <= {dict, tuple, list} or set(map(len, rows)) != {len(names)}:
        return None
    if dict not in kinds:
        return list(zip(*rows, strict=True))
    try:
        return [list(map(itemgetter(name), rows)) for name in names] if kinds == {dict} else None
    except KeyError:
        return None


def _columns(records: Records, names: Sequence[str], split_id: str, first_row: int) -> list[Sequence[Any]]:
    """Returns the columns of any rows, converted row by row."""
    known = frozenset(names)
    lines: list[Sequence[Any]] = []
    for number, row in enumerate(records.rows):
        if isinstance(row, Mapping) and row.keys() <= known:
            lines.append([row.get(name) for name in names])
        elif isinstance(row, (tuple, list)) and len(row) == len(names):
            lines.append(row)
        else:
            raise _unfit(records, number, split_id, first_row, _shape(row, known))
    return list(zip(*lines, strict=True)) if lines else [()] * len(names)


def _to_array(
    values: Sequence[Any], field: pa.Field, records: Records, split_id: str, first_row: int
) -> pa.Array:
    try:
        array = pa.array(values, field.type)
    except _CONVERSION_ERRORS:
        number, error = _first_error(values, field.type)
        why = f"column {field.name}: {error}"
        raise _unfit(records, number, split_id, first_row, why) from error
    if array.null_count and not field.nullable:
        number = values.index(None)
        raise _unfit(records, number, split_id, first_row, f"column {field.name} is null, but must not be")
    return array


def _first_error(values: Sequence[Any], kind: pa.DataType) -> tuple[int, Exception]:
    """Returns the number of the first value that cannot be converted, and the error."""
    number = 0
    try:
        for number, value in enumerate(values):  # noqa: B007
            pa.array([value], kind)
    except _CONVERSION_ERRORS as e:
        return number, e
    raise ValueError("single values fit, but the column as a whole does not")


def _shape(row: object, known: frozenset[str]) -> str:
    if isinstance(row, Mapping):
        return f"there is no column {', '.join(sorted(map(str, row.keys() - known)))}"
    if isinstance(row, (tuple, list)):
        return f"it has {len(row)} values for {len(known)} columns"
    return f"it is of type {type(row).__name__}, not a mapping, tuple or list"


def _unfit(records: Records, number: int, split_id: str, first_row: int, why: str) -> RecordFormatError:
    position = "" if records.positions is None else f" (position {records.positions[number].as_py()})"
    return RecordFormatError(
        f"Row {first_row + number}{position} of split {split_id} does not fit the source's schema: {why}"
    )
