"""Avro values into columns."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from flip27_stream.connectors.kafka.avro_types import field_types, fits
from flip27_stream.connectors.kafka.value_decoding import DecodedValues, ValueDecoder
from flip27_stream.connectors.kafka.value_options import ValueFormat
from flip27_stream.errors import OptionError

_FRAME = 5
_DAMAGE = (ArithmeticError, EOFError, LookupError, MemoryError, struct.error, TypeError, ValueError)
"""What fastavro raises for bytes that are no record."""


def writer_schema(text: str, option: str = "value.avro.schema") -> Any:
    """The Avro schema that ``text`` is, parsed.

    Raises:
        OptionError: it is none, or none of a record.
    """
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except (*_DAMAGE, SchemaParseException) as error:
        why = f"this is none: {type(error).__name__}: {error}"
        raise OptionError.of(option, text, f"Allowed: an Avro schema of a record, as JSON; {why}.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError.of(option, text, "Allowed: an Avro schema of a record, as JSON.")
    return schema


class AvroDecoder(ValueDecoder):
    """Single records in Avro's binary encoding, all written with one schema.

    Args:
        fields: the columns wanted, each a field of the record.
        schema: the writer's schema, as JSON.
        framed: each value begins with a zero byte and a schema id of 4 bytes (Confluent). The id is not looked at.

    Raises:
        OptionError: a column is no field of the record, or of another type.
    """

    format = ValueFormat.AVRO

    def __init__(self, fields: pa.Schema, schema: str, framed: bool) -> None:
        self._fields, self._text, self._framed = fields, schema, framed
        self._schema = writer_schema(schema)
        written = field_types(self._schema)
        for field in fields:
            kind = written.get(field.name)
            if kind is None or not fits(field.type, kind):
                there = ", ".join(f"{name} ({kind or 'not supported'})" for name, kind in written.items())
                raise OptionError(
                    f"Column '{field.name}' of the schema, {field.type}, is no field of option 'value.avro.schema'. "
                    f"Its fields: {there}."
                )

    def __reduce__(self) -> tuple[type[AvroDecoder], tuple[pa.Schema, str, bool]]:
        return AvroDecoder, (self._fields, self._text, self._framed)

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        rows = [{} if value is None else self._record_or_none(value) for value in values.to_pylist()]
        columns = [
            pa.array([None if row is None else row.get(f.name) for row in rows], f.type) for f in self._fields
        ]
        bad = [row is None for row in rows]
        return DecodedValues(columns, pa.array(bad) if any(bad) else None)

    def explain(self, value: bytes) -> str:
        try:
            self._record(value)
        except _DAMAGE as error:
            return str(error) or "it ends within a field"
        return ""

    def _record_or_none(self, value: bytes) -> dict[str, Any] | None:
        try:
            return self._record(value)
        except _DAMAGE:
            return None

    def _record(self, value: bytes) -> dict[str, Any]:
        start = 0
        if self._framed:
            if len(value) < _FRAME or value[0]:
                raise ValueError("it does not begin with a zero byte and a schema id")
            start = _FRAME
        data = BytesIO(value)
        data.seek(start)
        record: Any = fastavro.schemaless_reader(data, self._schema, None)
        if data.tell() != len(value):
            raise ValueError(f"the record ends before byte {data.tell()} of {len(value)}")
        return dict(record)
