"""The types of partition columns, inferred from the values in names of folders (Spark ``PartitioningUtils``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.layout.file_layout import Partition
from flip27_stream.decoding.datetime_text import INSTANT
from flip27_stream.errors import RecordFormatError

_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[\0- ]*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?)[\0- ]*", re.ASCII
)
"""Java's ``Double.parseDouble``, without hexadecimal numbers."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?", re.ASCII)
_MOST_DIGITS: Final = 38
_LONG_DIGITS: Final = 20
_INT_DIGITS: Final = 10


def with_partition_columns(schema: pa.Schema, files: Mapping[str, Partition]) -> pa.Schema:
    """Returns ``schema`` with the partition columns, which replace columns of the same names or are added at the end.

    Args:
        schema: The columns in the files.
        files: The values of partition columns, by the path of the file.

    Raises:
        RecordFormatError: Files have different partition columns.
    """
    for name, kind in partition_types(files).items():
        at = find_column(schema.names, name)
        field = pa.field(name if at is None else schema.field(at).name, kind)
        schema = schema.append(field) if at is None else schema.set(at, field)
    return schema


def partition_types(files: Mapping[str, Partition]) -> Mapping[str, pa.DataType]:
    """Returns the type of each partition column, by name. It fits all values of the column.

    Raises:
        RecordFormatError: Files have different partition columns.
    """
    names: dict[tuple[str, ...], str] = {}
    values: dict[str, set[str | None]] = {}
    for path, partition in files.items():
        if partition:
            names.setdefault(tuple(name for name, _ in partition), path)
        for name, text in partition:
            values.setdefault(name, set()).add(text)
    if len(names) > 1:
        different = "; ".join(f"{', '.join(columns)} ({path})" for columns, path in names.items())
        raise RecordFormatError(
            f"Names of folders have different partition columns: {different}. Set option basePath to the folder that "
            "contains all of them, or name the wanted columns with .schema(...)."
        )
    return {name: _type_of(texts) for name, texts in values.items()}


def _type_of(texts: Iterable[str | None]) -> pa.DataType:
    kinds = [_inferred(text) for text in sorted(text for text in texts if text is not None)]
    return reduce(_wider, kinds) if kinds else pa.string()


def _inferred(text: str) -> pa.DataType:
    """Returns the type of one value (Spark ``inferPartitionColumnValue``)."""
    if _WHOLE.fullmatch(text):
        return _of_whole(int(text))
    if _NUMBER.fullmatch(text):
        return _of_decimal(Decimal(text))
    if _DOUBLE.fullmatch(text):
        return pa.float64()
    with suppress(ValueError):
        if _TIME.fullmatch(text) and datetime.fromisoformat(text[:19]):
            return INSTANT
        if _DATE.fullmatch(text) and date.fromisoformat(text):
            return pa.date32()
    return pa.string()


def _of_whole(number: int) -> pa.DataType:
    if -(2**31) <= number < 2**31:
        return pa.int32()
    if -(2**63) <= number < 2**63:
        return pa.int64()
    return _of_decimal(Decimal(number))


def _of_decimal(number: Decimal) -> pa.DataType:
    """Returns decimal for a number without a fraction, float64 for other numbers."""
    _, digits, exponent = number.as_tuple()
    whole = len(digits) + int(exponent)
    return pa.decimal128(whole, 0) if int(exponent) >= 0 and whole <= _MOST_DIGITS else pa.float64()


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Returns the type for values of both types (Spark ``findWiderTypeForPartitionColumn``)."""
    if one == other:
        return one
    kinds = {one, other}
    if kinds == {pa.int32(), pa.int64()}:
        return pa.int64()
    if kinds == {pa.int32(), pa.float64()}:
        return pa.float64()
    if kinds == {pa.date32(), INSTANT}:
        return INSTANT
    digits = [_digits(kind) for kind in (one, other)]
    if all(digits) and any(map(pt.is_decimal, kinds)):
        return pa.decimal128(max(digits), 0)
    return pa.string()


def _digits(kind: pa.DataType) -> int:
    """Returns the greatest number of digits of a whole number of that type, or 0 for other types."""
    if pt.is_decimal(kind):
        return int(kind.precision)
    return {pa.int32(): _INT_DIGITS, pa.int64(): _LONG_DIGITS}.get(kind, 0)
