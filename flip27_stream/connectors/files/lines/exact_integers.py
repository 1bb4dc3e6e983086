"""Types of columns with integers beyond 64 bits, which Arrow infers as floating-point numbers with fewer digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

_INTEGER: Final = re.compile(r"[+-]?0*([0-9]+)")
_LONG: Final = re.compile(rb"[0-9]{19}")
_FEWEST_DIGITS: Final = 20
_MOST_DIGITS: Final = 38


def with_exact_integers(
    kind: pa.DataType, sample: bytes, texts: Callable[[pa.DataType], pa.Array]
) -> pa.DataType:
    """Returns ``kind`` with decimals in place of floating-point numbers that are integers in the sample, as in Spark.

    Args:
        kind: The inferred type of a column.
        sample: The lines from which it was inferred.
        texts: Returns the column, read as a type that is ``kind`` with text in place of some numbers.
    """
    if not _LONG.search(sample):
        return kind
    if pt.is_floating(kind):
        digits = _digits(texts(pa.string()))
        return kind if digits is None else pa.decimal128(max(digits, _FEWEST_DIGITS), 0)
    if pt.is_list(kind):
        return pa.list_(with_exact_integers(kind.value_type, sample, lambda inner: texts(pa.list_(inner))))
    if pt.is_struct(kind):
        return pa.struct([(f.name, with_exact_integers(f.type, sample, _of_field(texts, f))) for f in kind])
    return kind


def _of_field(texts: Callable[[pa.DataType], pa.Array], field: pa.Field) -> Callable[[pa.DataType], pa.Array]:
    return lambda inner: texts(pa.struct([(field.name, inner)]))


def _digits(values: pa.Array) -> int | None:
    """Returns the greatest number of digits of texts that are all integers; ``None`` if a decimal cannot hold them."""
    found = [_INTEGER.fullmatch(text) for text in _leaves(values)]
    digits = max((len(match[1]) for match in found if match is not None), default=0)
    return digits if found and all(found) and digits <= _MOST_DIGITS else None


def _leaves(values: pa.Array) -> Iterator[str]:
    """Yields the texts in a column of text, or of lists or structs that have only one field."""
    while not pt.is_string(values.type):
        values = values.flatten() if pt.is_list(values.type) else values.flatten()[0]
    yield from values.drop_null().to_pylist()
