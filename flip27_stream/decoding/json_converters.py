"""Converts JSON values to the values of columns, with the meaning of Spark's ``from_json``."""

from __future__ import annotations

import base64
import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.decoding.datetime_text import LOCAL_EXAMPLE, ZONED_EXAMPLE, days, microseconds
from flip27_stream.decoding.json_documents import Number
from flip27_stream.decoding.time_forms import TimeForm

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE: Final = {
    "NaN": "nan",
    "+INF": "inf", "Infinity": "inf", "+Infinity": "inf",
    "-INF": "-inf", "-Infinity": "-inf",
}  # fmt: skip
_BLANKS: Final = dict.fromkeys(range(33))
_BASE_64: Final = re.compile(
    r"(?:[\x00- ]*[A-Za-z0-9+/]{4})*[\x00- ]*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?[\x00- ]*"
)
_TO_ESCAPE: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip
_LONGEST_SHOWN: Final = 100


@dataclass(frozen=True)
class TypeMismatch:
    """A field whose value does not have its column's type.

    Attributes:
        path: The name of the field, after the names of the fields that contain it.
        value: The value.
        expected: What the type accepts.
    """

    path: str
    value: Any
    expected: str

    def described(self, *, with_value: bool) -> str:
        """Returns a short text about the error, with the value if that is allowed."""
        if not with_value:
            return f"field {self.path} is not {self.expected}"
        shown = json_text(self.value)
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
        return f"field {self.path} is {shown}, and not {self.expected}"


class _NotOfTypeError(Exception):
    """A value does not have its column's type. The message says what the type accepts."""


ValueConverter = Callable[[Any, list[TypeMismatch]], Any]
"""Converts a JSON value to one that Arrow accepts. Wrong fields inside the value are added to the list.

Raises:
    _NotOfTypeError: The value itself is wrong.
"""


def can_decode(kind: pa.DataType) -> bool:
    """Returns whether a column of this type can be decoded from JSON."""
    if pt.is_struct(kind):
        return all(can_decode(kind.field(i).type) for i in range(kind.num_fields))
    if pt.is_list(kind):
        return can_decode(kind.value_type)
    if pt.is_map(kind):
        return bool(kind.key_type == pa.string()) and can_decode(kind.item_type)
    return kind in _PLAIN or any(
        is_kind(kind) for is_kind in (pt.is_signed_integer, pt.is_decimal128, pt.is_timestamp)
    )


def object_converter(
    fields: Mapping[str, pa.DataType], time_form: TimeForm | None, path: str = ""
) -> ValueConverter:
    """Returns a converter of an object to a mapping of its fields. Wrong fields are reported and left out.

    If several fields have the same name, the last correct one is taken.

    Args:
        fields: The names and types of the wanted fields.
        time_form: The form of times; ``None`` for the forms that Spark casts from.
        path: The path of the object in the document, with a dot at its end.
    """
    inner = {
        name: (f"{path}{name}", _converter(f"{path}{name}", kind, time_form)) for name, kind in fields.items()
    }

    def convert(value: Any, wrong: list[TypeMismatch]) -> dict[str, Any]:
        if type(value) is not tuple:
            raise _NotOfTypeError("an object")
        row = {}
        for name, item in value:
            if name not in inner:
                continue
            where, convert_item = inner[name]
            try:
                row[name] = None if item is None else convert_item(item, wrong)
            except _NotOfTypeError as error:
                wrong.append(TypeMismatch(where, item, str(error)))
            except RecursionError:
                wrong.append(TypeMismatch(where, "...", "nested so deeply"))
        return row

    return convert


def _converter(path: str, kind: pa.DataType, time_form: TimeForm | None) -> ValueConverter:
    if pt.is_struct(kind):
        inner = (kind.field(i) for i in range(kind.num_fields))
        return object_converter({field.name: field.type for field in inner}, time_form, f"{path}.")
    # As in Spark, an array or a map with a wrong item is wrong as a whole, and a struct is not.
    if pt.is_list(kind):
        return partial(_array, _converter(f"{path}[]", kind.value_type, time_form))
    if pt.is_map(kind):
        return partial(_map, _converter(f"{path}[]", kind.item_type, time_form))
    convert = _scalar(kind, time_form)
    return lambda value, _: convert(value)


def _array(element: ValueConverter, value: Any, wrong: list[TypeMismatch]) -> list[Any]:
    if type(value) is not list:
        raise _NotOfTypeError("an array")
    return [None if item is None else element(item, wrong) for item in value]


def _map(item: ValueConverter, value: Any, wrong: list[TypeMismatch]) -> list[tuple[str, Any]]:
    if type(value) is not tuple:
        raise _NotOfTypeError("an object")
    entries = {utf_8(name): None if entry is None else item(entry, wrong) for name, entry in value}
    return list(entries.items())


def _scalar(kind: pa.DataType, time_form: TimeForm | None) -> Callable[[Any], Any]:
    if pt.is_integer(kind):
        return partial(_integer, low=-(1 << kind.bit_width - 1), high=(1 << kind.bit_width - 1) - 1)
    if pt.is_decimal(kind):
        return partial(_decimal, precision=kind.precision, scale=kind.scale)
    if pt.is_timestamp(kind):
        return partial(_timestamp, zoned=kind.tz is not None, time_form=time_form)
    return _PLAIN[kind]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _NotOfTypeError("true or false")
    return value


def _integer(value: Any, *, low: int, high: int) -> int:
    if type(value) is not Number or not _INTEGER.fullmatch(value) or not low <= int(value) <= high:
        raise _NotOfTypeError(f"a whole number from {low} to {high}")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        text = _NOT_FINITE.get(value, value if type(value) is Number else "")
        if text:
            return float(text)
    raise _NotOfTypeError("a number")


def _single(value: Any) -> float:
    number = _float(value)
    nearest = ctypes.c_float(number).value
    other = 2 * number - nearest
    if other != nearest and ctypes.c_float(other).value == other:
        # Halfway between two floats. The digits may be nearer to one of them than the double to which they were
        # rounded.
        return float(pa.scalar(str(value)).cast(pa.float32()).as_py())
    return nearest


def _decimal(value: Any, *, precision: int, scale: int) -> Decimal:
    # Spark removes commas from text.
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
    return utf_8(value) if type(value) is str else utf_8(json_text(value))


def json_text(value: Any) -> str:
    """Returns a value as JSON, with numbers as they were written."""
    if type(value) is tuple:
        return "{" + ",".join(f"{_quoted(name)}:{json_text(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if type(value) is str:
        return _quoted(value)
    return str(value) if type(value) is Number else {None: "null", True: "true", False: "false"}[value]


def _quoted(text: str) -> str:
    return (
        '"' + _TO_ESCAPE.sub(lambda sign: _SHORT_ESCAPES.get(sign[0]) or f"\\u{ord(sign[0]):04X}", text) + '"'
    )


def utf_8(text: str) -> str:
    """Returns ``text`` with ``?`` in place of single surrogates, as Java writes them."""
    return text.encode("utf-8", "replace").decode()


def _binary(value: Any) -> bytes:
    if type(value) is str and _BASE_64.fullmatch(value):
        return base64.b64decode(value.translate(_BLANKS))
    raise _NotOfTypeError("text in base 64")


def _date(value: Any) -> int:
    found = days(value) if type(value) is str else None
    if found is None:
        raise _NotOfTypeError("a date such as 2026-01-31")
    return found


def _timestamp(value: Any, *, zoned: bool, time_form: TimeForm | None) -> int:
    found: int | None = None
    if type(value) is str:
        found = (microseconds if time_form is None else time_form.microseconds)(value, zoned=zoned)
    elif zoned and type(value) is Number and _INTEGER.fullmatch(value):
        found = int(value) * 1_000_000
    if found is None or not -(1 << 63) <= found < 1 << 63:
        example = ZONED_EXAMPLE if zoned else LOCAL_EXAMPLE
        raise _NotOfTypeError(example if time_form is None else time_form.expected(zoned=zoned))
    return found


_PLAIN: Final[Mapping[pa.DataType, Callable[[Any], Any]]] = {
    pa.bool_(): _boolean,
    pa.float32(): _single,
    pa.float64(): _float,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
}
