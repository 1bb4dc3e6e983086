"""Compares the schema of the writer of Avro records with the schema of their reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from flip27_stream.connectors.kafka.values.avro_guards import BOOLEAN, NAMED
from flip27_stream.connectors.kafka.values.avro_schema import WrongDefault
from flip27_stream.connectors.kafka.values.avro_skipped import SkippedTypes
from flip27_stream.connectors.kafka.values.avro_types import named_types

_INNER: Final = {"array": "items", "map": "values"}
_LOGICAL: Final = ("logicalType", "precision", "scale")
_TIMES: Final = frozenset(
    {"int-date", "int-time-millis", "long-time-micros"}
    | {f"long-{zone}timestamp-{unit}s" for zone in ("", "local-") for unit in ("milli", "micro", "nano")}
)


def readable(written: Any, read: Any, wanted: pa.StructType) -> tuple[Any, Any, bool]:
    """Returns the two schemas with which fastavro reads the wanted columns: the writer's and the reader's.

    The third result is :attr:`SkippedTypes.may_skip_beyond_the_end`.

    Both have definitions in place of the names of types in the wanted columns, because fastavro does not find a named
    type of one schema that the other schema defines in another place. All other fields are skipped: the reader's
    schema lacks them, and the writer's schema has types of :class:`SkippedTypes` for them.

    Avro's rules of resolution do not look at logical types. So bytes are read as the decimals of the reader, which
    fastavro does not do; and milliseconds would be read as microseconds, which is refused.

    Args:
        written: The writer's schema, parsed by fastavro.
        read: The reader's schema, of :func:`with_read_defaults`, or ``written``.
        wanted: The wanted columns, each of which fits a field of ``read``.

    Raises:
        ValueError: A wanted time or decimal has another unit or scale in the other schema, or the writer's schema
            lacks a wanted field that has a wrong default.
    """
    # fastavro compares the two schemas at each value. With one key more they are unequal at once.
    reading = _of_reader(read, named_types(read), wanted) | {"wanted": True}
    resolution = _Resolution(written, read)
    return resolution.of_writer(wanted), reading, resolution.skipped.may_skip_beyond_the_end


class _Resolution:
    """A walk through two schemas, which finds the fields and types of one in the other as fastavro does.

    It returns copies, because a named type may be read as different types at its several mentions.
    """

    def __init__(self, written: Any, read: Any) -> None:
        self._schemas = written, read
        self._written, self._read = named_types(written), named_types(read)
        self.skipped = SkippedTypes(self._written)

    def of_writer(self, wanted: pa.StructType) -> Any:
        """Returns the writer's schema, with the definitions of the records that its skipped fields name."""
        return self._resolved(*self._schemas, wanted, "") | {NAMED: self.skipped.records}

    def _resolved(self, written: Any, read: Any, wanted: Any, path: str) -> Any:
        if isinstance(written, list):
            return [self._resolved(member, read, wanted, path) for member in written]
        theirs = _definition(written, self._written)
        return _short(self._of_definition(theirs, _definition(read, self._read), wanted, path))

    def _of_definition(self, theirs: Any, ours: Any, wanted: Any, path: str) -> Any:
        if theirs["type"] == ours["type"] == "record":
            return self._record(theirs, ours, wanted, path) if _is_named_as(theirs, ours) else theirs
        if theirs["type"] == ours["type"] in _INNER:
            inner = _INNER[theirs["type"]]
            kind = wanted.value_type if inner == "items" else wanted.item_type
            return theirs | {inner: self._resolved(theirs[inner], ours[inner], kind, path)}
        if not _same_meaning(theirs, ours):
            raise ValueError(
                f"field '{path}' is {_name(theirs)} in the writer's schema and {_name(ours)} in the reader's schema"
            )
        if theirs["type"] == ours["type"] in ("bytes", "fixed"):
            plain = {key: value for key, value in theirs.items() if key not in _LOGICAL}
            return plain | {key: ours[key] for key in _LOGICAL if key in ours}
        return theirs

    def _record(self, theirs: Any, ours: Any, wanted: pa.StructType, path: str) -> Any:
        kinds = {field.name: field.type for field in wanted}
        found = {alias: field for field in ours["fields"] for alias in field.get("aliases", ())}
        found |= {field["name"]: field for field in ours["fields"]}
        start = f"{path}." if path else ""
        lacking = {field["name"]: field for field in ours["fields"] if field["name"] in kinds}
        fields = []
        for field in theirs["fields"]:
            read = found.get(field["name"])
            if read is None or read["name"] not in kinds:
                fields.append({"name": field["name"], "type": self.skipped.of(field["type"])})
                continue
            lacking.pop(read["name"], None)
            kind = self._resolved(field["type"], read["type"], kinds[read["name"]], start + field["name"])
            fields.append({"name": read["name"], "type": kind})
        for name, field in lacking.items():
            _check_default(field, start + name)
        return theirs | {"fields": fields}


def _of_reader(read: Any, named: Mapping[str, Any], wanted: Any) -> Any:
    """Returns a type of the reader's schema with the wanted fields only, all of which have their definitions.

    The fields have no aliases: in the writer's schema of :func:`readable`, fields have the names of the reader.
    """
    if isinstance(read, list):
        return [_of_reader(member, named, wanted) for member in read]
    ours = _definition(read, named)
    if ours["type"] in _INNER:
        inner = _INNER[ours["type"]]
        kind = wanted.value_type if inner == "items" else wanted.item_type
        return ours | {inner: _of_reader(ours[inner], named, kind)}
    if ours["type"] != "record":
        return _short(ours)
    kinds = {field.name: field.type for field in wanted}
    fields = [field for field in ours["fields"] if field["name"] in kinds]
    made = []
    for field in fields:
        kept = {key: value for key, value in field.items() if key != "aliases"}
        made.append(kept | {"type": _of_reader(field["type"], named, kinds[field["name"]])})
    return ours | {"fields": made}


def _short(definition: Any) -> Any:
    """Returns the same type in the form that fastavro reads fastest: its name alone if it has no attributes."""
    if definition["type"] == "boolean":
        return BOOLEAN
    return definition["type"] if definition.keys() == {"type"} else definition


def _check_default(field: Mapping[str, Any], path: str) -> None:
    default = field.get("default")
    if isinstance(default, WrongDefault):
        raise ValueError(
            f"field '{path}' of the reader's schema has a default of another type: {default.text}"
        )


def _definition(schema: Any, named: Mapping[str, Any]) -> Any:
    """Returns the definition of a type, or of the one in a union with null."""
    if isinstance(schema, list):
        return _definition(next(member for member in schema if member != "null"), named)
    return named.get(schema, {"type": schema}) if isinstance(schema, str) else schema


def _is_named_as(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    short = theirs["name"].split(".")[-1]
    return short == ours["name"].split(".")[-1] or not {theirs["name"], short}.isdisjoint(
        ours.get("aliases", ())
    )


def _same_meaning(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    kinds = theirs["type"], ours["type"]
    if kinds[0] != kinds[1] and kinds != ("int", "long"):
        return True  # fastavro refuses to read one as the other, or no time or decimal is lost.
    if theirs.get("logicalType") == ours.get("logicalType") == "decimal":
        same_scale = theirs.get("scale", 0) == ours.get("scale", 0)
        return bool(same_scale and ours["precision"] >= theirs["precision"])
    times = {f"{schema['type']}-{schema.get('logicalType')}" for schema in (theirs, ours)}
    return len(times) == 1 or not times <= _TIMES


def _name(schema: Mapping[str, Any]) -> str:
    logical = schema["logicalType"]
    return (
        f"decimal({schema['precision']}, {schema.get('scale', 0)})" if logical == "decimal" else str(logical)
    )
