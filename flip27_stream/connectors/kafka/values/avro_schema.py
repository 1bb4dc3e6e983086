"""Parses Avro schemas, of option ``value.avro.schema`` and of a schema registry."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from flip27_stream.errors import OptionError, shortened

_UNPARSABLE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SchemaParseException,
    TypeError,
    ValueError,
    struct.error,
)
"""The exceptions that fastavro raises for a text that is not a schema."""


def writer_schema(text: str, option: str = "value.avro.schema") -> Any:
    """Returns the parsed form of an Avro schema.

    Args:
        text: The schema, as JSON.
        option: The name of the option, for the error.

    Raises:
        OptionError: The text is not an Avro schema of a record.
    """
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except _UNPARSABLE as error:
        why = shortened(f"this text is not a schema: {type(error).__name__}: {error}")
        raise OptionError.of(option, text, f"Allowed: an Avro schema of a record, as JSON; {why}.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError.of(option, text, "Allowed: an Avro schema of a record, as JSON.")
    return schema


def with_references(text: str, references: Sequence[str]) -> str:
    """Returns a schema that has the definitions of all named types in it.

    Args:
        text: The schema.
        references: The schemas of the types that it names; each comes after the schemas that it needs itself.

    Raises:
        ValueError: A text is not an Avro schema, names an undefined type, or is not the schema of a record.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        schema = _inlined(fastavro.parse_schema(json.loads(text), named_schemas=named), named, set())
    except _UNPARSABLE as error:
        raise ValueError(shortened(f"it is not an Avro schema: {type(error).__name__}: {error}")) from None
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise ValueError("it is not an Avro schema of a record")
    return json.dumps(schema)


def _inlined(schema: Any, named: Mapping[str, Any], seen: set[str]) -> Any:
    """Returns a parsed schema in which the first mention of each named type is its definition."""
    if isinstance(schema, list):
        return [_inlined(member, named, seen) for member in schema]
    if isinstance(schema, str):
        return _inlined(named[schema], named, seen) if schema in named and schema not in seen else schema
    if schema.get("name") in seen:
        return schema["name"]
    seen.update([schema["name"]] if "name" in schema else ())
    made = {key: value for key, value in schema.items() if not key.startswith("__")}
    for inner in ("type", "items", "values"):
        if inner in made and made[inner] not in ("record", "error", "enum", "fixed"):
            made[inner] = _inlined(made[inner], named, seen)
    if "fields" in made:
        made["fields"] = [field | {"type": _inlined(field["type"], named, seen)} for field in made["fields"]]
    return made


def with_read_defaults(schema: Any) -> Any:
    """Returns a parsed schema of a record in which the defaults of bytes and decimals are values of these types.

    In the JSON of a schema they are texts. Defaults inside of records, arrays and maps are not changed. ``schema`` is
    changed in place.
    """
    for field in schema["fields"]:
        kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
        is_bytes = (kind["type"] if isinstance(kind, dict) else kind) in ("bytes", "fixed")
        if is_bytes and isinstance(field.get("default"), str):
            data = field["default"].encode("iso-8859-1")
            field["default"] = _decimal(data, kind) if _is_decimal(kind) else data
    return schema


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, dict) and kind.get("logicalType") == "decimal"


def _decimal(data: bytes, kind: Mapping[str, Any]) -> Decimal:
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-kind.get("scale", 0))
