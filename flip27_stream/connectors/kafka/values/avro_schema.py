"""Parses Avro schemas, of option ``value.avro.schema`` and of a schema registry."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException

from flip27_stream.connectors.kafka.values.avro_types import named_types
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
_JSON_TYPES: Final[Mapping[str, Sequence[type]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float, str),
    "double": (int, float, str),
    "string": (str,),
    "enum": (str,),
    "bytes": (str,),
    "fixed": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
}
"""The types of defaults in the JSON of a schema. Text is for the numbers that JSON lacks: NaN and infinities."""


_DECIMALS: Final = (("bytes", "decimal"), ("fixed", "decimal"))


def writer_schema(text: str, option: str = "value.avro.schema") -> Any:
    """Returns the parsed form of an Avro schema.

    Args:
        text: The schema, as JSON.
        option: The name of the option, for the error.

    Raises:
        OptionError: The text is not an Avro schema of a record.
    """
    try:
        schema = fastavro.parse_schema(_loaded(text))
    except _UNPARSABLE as error:
        why = shortened(f"this text is not a schema: {type(error).__name__}: {error}")
        raise OptionError.of(option, text, f"Allowed: an Avro schema of a record, as JSON; {why}.") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError.of(option, text, "Allowed: an Avro schema of a record, as JSON.")
    return schema


def _loaded(text: str) -> Any:
    """Returns a schema of JSON, without the decimals that are invalid: Avro says that these are bytes."""
    return json.loads(text, object_hook=_without_invalid_decimal)


def _without_invalid_decimal(kind: dict[str, Any]) -> dict[str, Any]:
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    if (kind.get("type"), kind.get("logicalType")) not in _DECIMALS or (
        type(precision) is type(scale) is int and 0 <= scale <= precision and precision > 0
    ):
        return kind
    return {key: value for key, value in kind.items() if key not in ("logicalType", "precision", "scale")}


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
            fastavro.parse_schema(_loaded(reference), named_schemas=named)
        schema = _inlined(fastavro.parse_schema(_loaded(text), named_schemas=named), named, set())
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


class WrongDefault(NamedTuple):
    """Stands for the default of a field that is not a value of the type of this field."""

    text: str


def with_read_defaults(schema: Any) -> Any:
    """Returns a parsed schema in which the defaults of all fields are values of the types of these fields.

    In the JSON of a schema, bytes and decimals are texts. A default that is not a value of the type becomes a
    :class:`WrongDefault`. ``schema`` is changed in place.
    """
    named = named_types(schema)
    records = [kind for kind in named.values() if "fields" in kind]
    fields = [field for kind in records for field in kind["fields"] if "default" in field]
    # Defaults of records contain those of their fields, so none is replaced before all have been read.
    made = [_default(field, named) for field in fields]
    for field, default in zip(fields, made, strict=True):
        field["default"] = default
    return schema


def _default(field: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    try:
        return _value(field["default"], field["type"], named)
    except (LookupError, RecursionError, TypeError, ValueError):
        return WrongDefault(shortened(json.dumps(field["default"])))


def _values(default: Any, schema: Any, named: Mapping[str, Any]) -> list[Any]:
    """Returns a default as the only value of a list, which is empty if the default is not a value of the type."""
    try:
        return [_value(default, schema, named)]
    except (LookupError, TypeError, ValueError):
        return []


def _value(default: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """Returns a default as a value of a type. Raises one of several exceptions if it is not a value of it."""
    if isinstance(schema, list):
        first, *_ = [value for member in schema for value in _values(default, member, named)]
        return first
    if isinstance(schema, str) and schema in named:
        return _value(default, named[schema], named)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if type(default) not in _JSON_TYPES[kind]:
        raise TypeError
    if kind in ("bytes", "fixed"):
        return _bytes(default, schema)
    if kind == "enum" and default not in schema["symbols"]:
        raise ValueError
    if kind in ("float", "double"):
        return float(default)
    if kind == "array":
        return [_value(item, schema["items"], named) for item in default]
    if kind == "map":
        return {key: _value(item, schema["values"], named) for key, item in default.items()}
    if kind in ("record", "error"):
        given = {
            field["name"]: field["default"] for field in schema["fields"] if "default" in field
        } | default
        return {f["name"]: _value(given[f["name"]], f["type"], named) for f in schema["fields"]}
    return default


def _bytes(text: str, schema: Any) -> bytes | Decimal:
    """Returns the bytes or the decimal of a text, whose characters are the bytes."""
    data = text.encode("iso-8859-1")
    if not isinstance(schema, dict):
        return data
    if len(data) != schema.get("size", len(data)):
        raise ValueError
    if schema.get("logicalType") != "decimal":
        return data
    # Made of a text, because arithmetic of decimals would round it to 28 digits.
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{schema.get('scale', 0)}")
