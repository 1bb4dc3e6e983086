"""JSON values into columns."""

from __future__ import annotations

import pyarrow as pa

from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder, ValueFormat
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_converters import can_decode
from flip27_stream.errors import OptionError


class JsonValueDecoder(ValueDecoder):
    """Objects, each with a field of the same name for every column of ``fields``; as ``from_json`` decodes them.

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
        self._columns = JsonColumns(fields)

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        found = self._columns.decode(values)
        return DecodedValues(found.columns, None if found.all_right else found.bad)

    def explain(self, value: bytes) -> str:
        return self._columns.explain(value)
