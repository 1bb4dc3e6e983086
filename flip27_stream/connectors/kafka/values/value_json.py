"""JSON values into columns: all of a batch at once with Arrow, and one by one where that fails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from flip27_stream.connectors.kafka.values.json_rows import JsonRows, can_decode
from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder, concatenated
from flip27_stream.connectors.kafka.values.value_options import ValueFormat
from flip27_stream.errors import OptionError

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_FEW, _MANY, _SAMPLES = 16, 500, 5
_MOST_DIGITS = 19  # half of those of 128 bits
_BLANK = " \t\r\n"
# Arrow's parser takes these for numbers; no other does.
_ODD_NUMBERS = r"[\s:,\[+-]Inf[\s,\]}]|-NaN"


class JsonDecoder(ValueDecoder):
    """Objects, each with a field of the same name for every column of ``fields``.

    Arrow parses values that look like objects together. Each is at least one object then, since no JSON goes on over a
    line break between ``}`` and ``{``; so as many objects as values are one each. Where Arrow refuses, the values are
    halved until few are left, and these are decoded by :class:`JsonRows`, which has the last word on what is bad.

    Raises:
        OptionError: a column is of a type that JSON has nothing for.
    """

    format = ValueFormat.JSON

    def __init__(self, fields: pa.Schema) -> None:
        for field in fields:
            if not can_decode(field.type):
                raise OptionError(
                    f"Column '{field.name}' of the schema is {field.type}, which option 'value.format json' cannot "
                    "decode. Allowed: numbers, boolean, string, binary, date, timestamp, and arrays, structs and maps "
                    "(from string) of these."
                )
        self._fields = fields
        self._rows = JsonRows(fields)
        self._arrow_can = len(fields) > 0 and all(_arrow_can(field.type) for field in fields)
        self._seconds: frozenset[str] = frozenset()  # times that were numbers when last looked
        self._parsed = self._to_parse()

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[pa.Schema]]:
        return JsonDecoder, (self._fields,)

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        if not self._arrow_can:
            return self._rows.decode(values)
        objects = _look_like_objects(values)
        if pc.all(objects).as_py():
            return self._plain(values)
        trimmed = pc.ascii_trim(values.fill_null(b"").view(pa.string()), _BLANK).view(pa.binary())
        blank = pc.equal(pc.binary_length(trimmed), 0)
        odd = pc.invert(pc.or_(_look_like_objects(trimmed), blank))
        empty = pa.scalar(b"{}", pa.binary())
        plain = self._plain(pc.if_else(pc.or_(odd, blank), empty, trimmed))
        rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
        return _replaced(plain, rows, self._rows.decode(values.take(pa.array(rows)))) if len(rows) else plain

    def explain(self, value: bytes) -> str:
        return self._rows.explain(value)

    def _plain(self, objects: pa.BinaryArray) -> DecodedValues:
        columns = self._at_once(objects)
        if columns is None and self._look_at_times(objects):
            columns = self._at_once(objects)
        if columns is not None:
            return DecodedValues(columns)
        if len(objects) <= _FEW or (len(objects) > _MANY and self._arrow_refuses_all(objects)):
            return self._rows.decode(objects)
        half = len(objects) // 2
        return concatenated([self._plain(objects.slice(0, half)), self._plain(objects.slice(half))])

    def _arrow_refuses_all(self, objects: pa.BinaryArray) -> bool:
        """Whether it is likely that Arrow refuses each, so that halving is in vain."""
        samples = np.linspace(0, len(objects) - 1, _SAMPLES, dtype=np.int64).tolist()
        return all(self._at_once(objects.slice(i, 1)) is None for i in samples)

    def _at_once(self, objects: pa.BinaryArray) -> Sequence[pa.Array] | None:
        """The columns of ``objects``, ``None`` where Arrow cannot make them."""
        if not len(objects):
            return [pa.array([], field.type) for field in self._fields]
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(objects)], objects), b"\n")
        try:
            text = joined.cast(pa.string())[0].as_buffer()
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._parsed, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(objects):
                return None
            return [
                _cast(table.column(i).combine_chunks(), field.type) for i, field in enumerate(self._fields)
            ]
        except pa.ArrowInvalid:
            return None

    def _to_parse(self) -> pa.Schema:
        """What Arrow is told to parse. Casts are stricter than its parser about precision, days and zones."""
        return pa.schema(
            [(f.name, pa.int64() if f.name in self._seconds else _parsed_type(f.type)) for f in self._fields]
        )

    def _look_at_times(self, objects: pa.BinaryArray) -> bool:
        """Whether times are written otherwise than it was thought, as far as the first object tells."""
        numbers = self._rows.numbers(objects[0].as_py()) if len(objects) else frozenset[str]()
        seconds = frozenset(f.name for f in self._fields if f.type == _TIMESTAMP and f.name in numbers)
        if seconds == self._seconds:
            return False
        self._seconds = seconds
        self._parsed = self._to_parse()
        return True


def _look_like_objects(values: pa.BinaryArray) -> pa.BooleanArray:
    """Which values begin and end as objects do; false for null."""
    looks = pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}")).fill_null(False)
    content = memoryview(values.buffers()[2] or b"").tobytes()
    if b"Inf" in content or b"-NaN" in content:
        looks = pc.and_not(looks, pc.match_substring_regex(values, _ODD_NUMBERS).fill_null(False))
    return looks


def _replaced(decoded: DecodedValues, rows: np.ndarray, instead: DecodedValues) -> DecodedValues:
    """``decoded`` with ``rows`` taken from ``instead``."""
    both = concatenated([decoded, instead])
    order = np.arange(len(decoded.columns[0]))
    order[rows] = len(order) + np.arange(len(rows))
    indices = pa.array(order)
    return DecodedValues(
        [column.take(indices) for column in both.columns],
        None if both.bad is None else both.bad.take(indices),
    )


def _arrow_can(kind: pa.DataType) -> bool:
    if pa.types.is_binary(kind) or pa.types.is_map(kind):
        return False
    return all(_arrow_can(kind.field(i).type) for i in range(kind.num_fields))


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind) or kind == pa.timestamp("us"):
        return pa.string()
    if pa.types.is_decimal(kind):
        # An exponent may wrap what it yields around; in so many more digits than wanted, that is seen.
        return (
            pa.decimal128(38, kind.scale) if kind.precision <= _MOST_DIGITS else pa.decimal256(76, kind.scale)
        )
    if pa.types.is_list(kind):
        return pa.list_(_parsed_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct(
            [(f.name, _parsed_type(f.type)) for f in (kind.field(i) for i in range(kind.num_fields))]
        )
    return kind


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    return pc.multiply_checked(column, 1_000_000).view(kind) if kind == _TIMESTAMP else column.cast(kind)
