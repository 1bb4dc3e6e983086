"""Parses the Avro schema of option ``value.avro.schema``."""

from __future__ import annotations

import json
import struct
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from flip27_stream.errors import OptionError, shortened

_UNPARSABLE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    SchemaParseException,
    TypeError,
    ValueError,
    struct.error,
)
"""The exceptions that fastavro raises for a text that is not a schema."""


def writer_schema(text: str, option: str = "value.avro.schema") -> Any:
    """Returns the parsed form of an Avro schema.

    Args:
        text: the schema, as JSON.
        option: the name of the option, for the error.

    Raises:
        OptionError: the text is not an Avro schema of a record.
    """
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except _UNPARSABLE as error:
        why = shortened(f"this is not one: {type(error).__name__}: {error}")
        raise OptionError.of(option, text, f"Allowed: an Avro schema of a record, as JSON; {why}.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError.of(option, text, "Allowed: an Avro schema of a record, as JSON.")
    return schema
