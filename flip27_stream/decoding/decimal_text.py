"""Decimals in text, with the values that Spark gives them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_MOST_DIGITS = 19  # Half of the digits of a decimal of 128 bits.
_MOST_PLACES = 38


def wide_decimal(kind: pa.Decimal128Type) -> pa.DataType:
    """Returns a decimal type with so many more digits than ``kind`` that no exponent overflows without an error."""
    return pa.decimal128(38, kind.scale) if kind.precision <= _MOST_DIGITS else pa.decimal256(76, kind.scale)


def decimals(text: pa.StringArray, kind: pa.Decimal128Type) -> pa.Array:
    """Returns the decimals of a text column. They are rounded half up to the scale of ``kind``; commas are removed.

    Raises:
        pa.ArrowInvalid: A text is not a decimal, or has more digits before the point than ``kind``.
    """
    try:
        wide = text.cast(wide_decimal(kind))
    except pa.ArrowInvalid:
        without_commas = pc.replace_substring(text, ",", "")
        exact = without_commas.cast(pa.decimal256(76, _MOST_PLACES))
        wide = pc.round(exact, kind.scale, "half_towards_infinity")
    return wide.cast(kind)
