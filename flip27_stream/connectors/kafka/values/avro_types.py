"""The Arrow types of the fields of an Avro schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "int-date": pa.date32(),
    "long-timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "long-timestamp-micros": pa.timestamp("us", tz="UTC"),
    "long-local-timestamp-millis": pa.timestamp("ms"),
    "long-local-timestamp-micros": pa.timestamp("us"),
}
_WIDER: Final = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")),
    (pa.timestamp("ms"), pa.timestamp("us")),
}


def field_types(schema: Any) -> dict[str, pa.DataType | None]:
    """Returns the Arrow type of each field of a record; ``None`` for a field whose type is not supported.

    Unions of several types, durations, times of day, UUIDs and recursive types are not supported.
    """
    named = named_types(schema)
    return {field["name"]: _arrow_type(field["type"], named, ()) for field in schema["fields"]}


def named_types(schema: Any) -> dict[str, Any]:
    """Returns the definitions of the named types in a parsed schema, by their full names."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    return named


def fits(wanted: pa.DataType, written: pa.DataType) -> bool:
    """Returns whether values of type ``written`` can be read as type ``wanted``: the same type or a wider one."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(written):
        names = {written.field(i).name for i in range(written.num_fields)}
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return all(f.name in names and fits(f.type, written.field(f.name).type) for f in fields)
    if pa.types.is_list(wanted) and pa.types.is_list(written):
        return fits(wanted.value_type, written.value_type)
    if pa.types.is_map(wanted) and pa.types.is_map(written):
        return wanted.key_type == pa.string() and fits(wanted.item_type, written.item_type)
    return wanted == written or (written, wanted) in _WIDER


def as_written(wanted: pa.DataType, written: pa.DataType) -> pa.DataType:
    """Returns the type ``wanted`` with the scalar types of ``written``, which it fits."""
    if pa.types.is_struct(wanted):
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return pa.struct([f.with_type(as_written(f.type, written.field(f.name).type)) for f in fields])
    if pa.types.is_list(wanted):
        item = wanted.value_field
        return pa.list_(item.with_type(as_written(item.type, written.value_type)))
    if pa.types.is_map(wanted):
        item = wanted.item_field
        return pa.map_(wanted.key_field, item.with_type(as_written(item.type, written.item_type)))
    return written


def _collect(schema: Any, named: dict[str, Any]) -> None:
    """Adds the named types in ``schema`` to ``named``, by their full names."""
    if isinstance(schema, list):
        for member in schema:
            _collect(member, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for inner in ("type", "items", "values"):
            _collect(schema.get(inner), named)
        for field in schema.get("fields", ()):
            _collect(field["type"], named)


def _arrow_type(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> pa.DataType | None:
    if isinstance(schema, list):
        members = [member for member in schema if member != "null"]
        return _arrow_type(members[0], named, within) if len(members) == 1 else None
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        return None if schema in within or schema not in named else _arrow_type(named[schema], named, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        return _arrow_type(kind, named, within)
    if logical == "decimal":
        return (
            pa.decimal128(schema["precision"], schema.get("scale", 0)) if schema["precision"] <= 38 else None
        )
    if logical is not None and (
        f"{kind}-{logical}" in _LOGICAL or logical.startswith(("time", "dur", "uuid"))
    ):
        return _LOGICAL.get(f"{kind}-{logical}")
    if kind == "record":
        return _struct(schema, named, (*within, schema["name"]))
    if kind in ("array", "map"):
        inner = _arrow_type(schema["items" if kind == "array" else "values"], named, within)
        if inner is None:
            return None
        return pa.list_(inner) if kind == "array" else pa.map_(pa.string(), inner)
    return _arrow_type(kind, named, within)


def _struct(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> pa.DataType | None:
    """Returns the type of a record, without the fields whose types are not supported."""
    fields = [(field["name"], _arrow_type(field["type"], named, within)) for field in schema["fields"]]
    return pa.struct([(name, kind) for name, kind in fields if kind is not None])
