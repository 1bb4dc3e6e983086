"""JSON lines into columns, one by one: the last word on what Arrow's parser refuses."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.formats.schemas import INSTANT, LOCAL
from flip27_stream.connectors.files.formats.timestamp_parsing import instants, local_times, parsed_times


class _Number(str):
    """A number as it is written."""


def rows_of(
    lines: list[bytes], schema: pa.Schema, timestamp_format: str | None
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Rows of ``schema`` from the lines that are objects of fitting fields, and what is wrong with the others.

    As Spark has it: a number is also text where text is wanted, and a time in seconds where a time is wanted; text in
    Base64 is binary; an object is a map.
    """
    converter = _Converter(timestamp_format)
    good, bad = [], {}
    for index, line in enumerate(lines):
        try:
            values = json.loads(line, parse_int=_Number, parse_float=_Number)
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
            good.append([converter.field(values.get(f.name), f) for f in schema])
        except (ValueError, ArithmeticError, RecursionError, pa.ArrowException) as error:  # noqa: PERF203
            bad[index] = f"{error}."
    columns = zip(*good, strict=True) if good else [()] * len(schema)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(good), pa.struct([]))), bad
    return pa.RecordBatch.from_arrays(arrays, names=schema.names), bad


class _Converter:
    def __init__(self, timestamp_format: str | None) -> None:
        self._format = timestamp_format

    def field(self, value: Any, field: pa.Field) -> Any:
        try:
            return self.value(value, field.type)
        except (ValueError, ArithmeticError, pa.ArrowException) as error:
            shown = _text(value).encode(errors="backslashreplace").decode()
            shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
            raise ValueError(
                f"field '{field.name}' is {shown}, which is no {field.type} ({error})"
            ) from error

    def value(self, value: Any, kind: pa.DataType) -> Any:
        """``value`` as Arrow takes it for ``kind``."""
        if value is None:
            return None
        if pt.is_nested(kind):
            return self._nested(value, kind)
        if kind in (INSTANT, LOCAL):
            return self._time(value, kind)
        convert = _CONVERT.get(kind.id)
        if convert is None:
            raise ValueError("JSON has nothing for it")
        converted = convert(value)
        if pt.is_integer(kind) and not -(1 << (kind.bit_width - 1)) <= converted < 1 << (kind.bit_width - 1):
            raise ValueError("it is too large")
        if pt.is_decimal(kind):
            return pa.scalar(converted).cast(kind).as_py()
        return converted

    def _nested(self, value: Any, kind: pa.DataType) -> Any:
        if pt.is_list(kind) and isinstance(value, list):
            return [self.value(v, kind.value_type) for v in value]
        if pt.is_struct(kind) and isinstance(value, dict):
            return {f.name: self.value(value.get(f.name), f.type) for f in kind}
        if pt.is_map(kind) and isinstance(value, dict):
            return [(self.value(k, kind.key_type), self.value(v, kind.item_type)) for k, v in value.items()]
        raise ValueError("it is of another kind")

    def _time(self, value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, _Number):
            return int(Decimal(value) * 1_000_000)
        text = pa.array([_only(str, value)], pa.string())
        if self._format is not None:
            return parsed_times(text, self._format, kind)[0].value
        return (instants(text) if kind == INSTANT else local_times(text))[0].value


def _only(wanted: type, value: Any) -> Any:
    if type(value) is not wanted:
        raise ValueError("it is of another kind")
    return value


def _integer(value: Any) -> int:
    return int(_only(_Number, value))


def _float(value: Any) -> float:
    if isinstance(value, _Number) or value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if type(value) is float:  # NaN and the like without quotes
        return value
    raise ValueError("it is of another kind")


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(value)
    except (InvalidOperation, TypeError) as error:
        raise ValueError("it is of another kind") from error


def _text(value: Any) -> str:
    """Text as it is, and other values as they are written."""
    if isinstance(value, str):
        return value
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, _Number):
        return json.loads(value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


_CONVERT: dict[int, Callable[[Any], Any]] = {
    pa.string().id: lambda value: _text(value).encode().decode(),  # a half of a surrogate pair is an error
    pa.bool_().id: lambda value: _only(bool, value),
    **{kind.id: _integer for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    pa.float32().id: _float,
    pa.float64().id: _float,
    pa.decimal128(1).id: _decimal,
    pa.date32().id: lambda value: date.fromisoformat(_only(str, value)[:10]),
    pa.binary().id: lambda value: base64.b64decode(_only(str, value), validate=True),
}
