"""The decoder of JSON values."""

from __future__ import annotations

import pyarrow as pa

from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder, ValueFormat
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_converters import can_decode
from flip27_stream.errors import OptionError


class JsonValueDecoder(ValueDecoder):
    """Decodes JSON objects as Spark's ``from_json`` does.

    Each column of ``fields`` is the object's field of the same name.

    Raises:
        OptionError: A column has a type that JSON cannot be decoded into.
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
        self._columns = JsonColumns(fields)

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        found = self._columns.decode(values)
        return DecodedValues(found.columns, None if found.all_right else found.bad)

    def explain(self, value: bytes) -> str:
        return self._columns.explain(value)
