"""JSON values into columns one by one, with the meaning that Spark's ``from_json`` gives them."""

from __future__ import annotations

import base64
import binascii
import ctypes
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from flip27_stream.connectors.kafka.values.json_times import days, microseconds
from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE: Final = {
    "NaN": "nan",
    "+INF": "inf", "Infinity": "inf", "+Infinity": "inf",
    "-INF": "-inf", "-Infinity": "-inf",
}  # fmt: skip


class _Number(str):
    """A number as it was written."""


class _NotOfTypeError(Exception):
    """A field is not of its column's type; the text says which and what it is."""


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


@dataclass(frozen=True)
class JsonRows:
    """Decodes single values; a field that is not of its column's type is null and makes its value bad."""

    fields: pa.Schema

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        """As :meth:`~flip27_stream.connectors.kafka.values.value_decoder.ValueDecoder.decode`."""
        rows, bad = [], []
        for value in values.to_pylist():
            row, wrong = self._row(value)
            rows.append(row)
            bad.append(bool(wrong))
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.fields]
        return DecodedValues(columns, pa.array(bad, pa.bool_()) if any(bad) else None)

    def explain(self, value: bytes) -> str:
        """What is wrong with ``value``; empty if nothing is."""
        return "; ".join(self._row(value)[1])

    def numbers(self, value: bytes) -> frozenset[str]:
        """The names of the fields of ``value`` that are numbers."""
        document = _document(value, [])
        return frozenset(name for name, field in document.items() if isinstance(field, _Number))

    def _row(self, value: bytes | None) -> tuple[Mapping[str, Any], list[str]]:
        """The fields of a value, and what is wrong with it."""
        wrong: list[str] = []
        document = _document(value, wrong) if value is not None else {}
        if not document:
            return {}, wrong
        return {name: convert(document.get(name), wrong) for name, convert in self._converters.items()}, wrong

    @cached_property
    def _converters(self) -> Mapping[str, Converter]:
        return {field.name: _field(field.name, field.type) for field in self.fields}

    def __getstate__(self) -> dict[str, Any]:
        return {"fields": self.fields}


def _document(value: bytes, wrong: list[str]) -> Mapping[str, Any]:
    """The object that ``value`` is; empty if it is blank, or if it is none, which is noted."""
    if not value.strip():
        return {}
    try:
        document = _DECODER.decode(value.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        wrong.append(f"{error.msg} at character {error.pos}")
    except RecursionError:
        wrong.append("it is nested too deeply")
    else:
        if isinstance(document, dict):
            return document
        wrong.append("it is no object")
    return {}


Converter = Callable[[Any, list[str]], Any]
"""Makes of a JSON value what Arrow takes; ``None``, and a note of what is wrong, if it is not of the type."""


def _converter(path: str, kind: pa.DataType) -> Converter:
    """The converter of the field at ``path``; raises if the value is not of its type."""
    if pa.types.is_struct(kind):
        inner = (kind.field(i) for i in range(kind.num_fields))
        return _object({f.name: _field(f"{path}.{f.name}", f.type) for f in inner})
    # An array or a map with a wrong item is wrong as a whole, and a struct is not: so it is in Spark.
    if pa.types.is_list(kind):
        return _array(_converter(f"{path}[]", kind.value_type))
    if pa.types.is_map(kind):
        return _map(_converter(f"{path}[]", kind.item_type))
    return _scalar(kind)


def _field(path: str, kind: pa.DataType) -> Converter:
    """As :func:`_converter`, but a wrong value is null and noted."""
    return _checked(path, _converter(path, kind))


def _checked(path: str, convert: Converter) -> Converter:
    def converted(value: Any, wrong: list[str]) -> Any:
        if value is None:
            return None
        try:
            return convert(value, wrong)
        except _NotOfTypeError as error:
            wrong.append(f"field {path} is not {error}")
        except RecursionError:
            wrong.append(f"field {path} is nested too deeply")
        return None

    return converted


def _object(inner: Mapping[str, Converter]) -> Converter:
    def convert(value: Any, wrong: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _NotOfTypeError("an object")
        return {name: field(value.get(name), wrong) for name, field in inner.items()}

    return convert


def _array(element: Converter) -> Converter:
    def convert(value: Any, wrong: list[str]) -> Any:
        if not isinstance(value, list):
            raise _NotOfTypeError("an array")
        return [None if item is None else element(item, wrong) for item in value]

    return convert


def _map(item: Converter) -> Converter:
    def convert(value: Any, wrong: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _NotOfTypeError("an object")
        return [
            (_utf_8(name), None if entry is None else item(entry, wrong)) for name, entry in value.items()
        ]

    return convert


def can_decode(kind: pa.DataType) -> bool:
    """Whether a column can be of this type."""
    if pa.types.is_struct(kind):
        return all(can_decode(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_list(kind):
        return can_decode(kind.value_type)
    if pa.types.is_map(kind):
        return bool(kind.key_type == pa.string()) and can_decode(kind.item_type)
    return kind in _PLAIN or any(
        is_kind(kind)
        for is_kind in (pa.types.is_signed_integer, pa.types.is_decimal128, pa.types.is_timestamp)
    )


def _scalar(kind: pa.DataType) -> Converter:
    if pa.types.is_integer(kind):
        low, high = -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
        return lambda value, _: _integer(value, low, high)
    if pa.types.is_decimal(kind):
        return lambda value, _: _decimal(value, kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return lambda value, _: _timestamp(value, zoned=kind.tz is not None)
    return lambda value, _: _PLAIN[kind](value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _NotOfTypeError("true or false")
    return value


def _integer(value: Any, low: int, high: int) -> int:
    if not isinstance(value, _Number) or not _INTEGER.fullmatch(value) or not low <= int(value) <= high:
        raise _NotOfTypeError(f"a whole number from {low} to {high}")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        text = _NOT_FINITE.get(value, value if isinstance(value, _Number) else "")
        if text:
            return float(text)
    raise _NotOfTypeError("a number")


def _single(value: Any) -> float:
    number = _float(value)
    nearest = ctypes.c_float(number).value
    other = 2 * number - nearest
    if other != nearest and ctypes.c_float(other).value == other:
        # Halfway between two floats: the digits may be nearer to one of them than the double that they were rounded to.
        return float(pa.scalar(str(value)).cast(pa.float32()).as_py())
    return nearest


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    # Spark takes the commas out of text.
    digits = value.replace(",", "") if isinstance(value, str) else ""
    if _DECIMAL.fullmatch(digits):
        try:
            with localcontext() as context:
                context.prec = 2 * precision + 2
                number = Decimal(digits).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            if number.is_finite() and number.adjusted() < precision - scale:
                return number
        except InvalidOperation:
            pass
    raise _NotOfTypeError(f"a number of {precision} digits, {scale} of them decimals")


def _string(value: Any) -> str:
    return _utf_8(value) if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """A value as JSON, its numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, _Number) else _utf_8(json.dumps(value, ensure_ascii=False))


def _utf_8(text: str) -> str:
    """Text that has a half of a surrogate pair has ``?`` there, as in Java."""
    return text.encode("utf-8", "replace").decode()


def _binary(value: Any) -> bytes:
    if isinstance(value, str) and not isinstance(value, _Number):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _NotOfTypeError("text in base 64")


def _date(value: Any) -> int:
    found = days(value) if isinstance(value, str) and not isinstance(value, _Number) else None
    if found is None:
        raise _NotOfTypeError("a date such as 2026-01-31")
    return found


def _timestamp(value: Any, *, zoned: bool) -> int:
    if zoned and isinstance(value, _Number) and _INTEGER.fullmatch(value):
        found: int | None = int(value) * 1_000_000
    else:
        text = isinstance(value, str) and not isinstance(value, _Number)
        found = microseconds(value, zoned=zoned) if text else None
    if found is None or not -(1 << 63) <= found < 1 << 63:
        raise _NotOfTypeError("a time such as 2026-01-31T12:00:00Z")
    return found


_PLAIN: Final[Mapping[pa.DataType, Callable[[Any], Any]]] = {
    pa.bool_(): _boolean,
    pa.float32(): _single,
    pa.float64(): _float,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
}
