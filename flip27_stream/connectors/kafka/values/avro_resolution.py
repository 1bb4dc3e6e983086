"""Compares the schema of the writer of Avro records with the schema of their reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flip27_stream.connectors.kafka.values.avro_types import named_types

_INNER: Final = {"array": "items", "map": "values"}
_LOGICAL: Final = ("logicalType", "precision", "scale")
_TIMES: Final = frozenset(
    {"int-date", "int-time-millis", "long-time-micros"}
    | {f"long-{zone}timestamp-{unit}s" for zone in ("", "local-") for unit in ("milli", "micro", "nano")}
)


def with_read_decimals(written: Any, read: Any) -> Any:
    """Returns the writer's schema with the decimals of the reader's schema.

    Avro's rules of resolution do not look at logical types. So bytes are read as the decimals of the reader, which
    fastavro does not do; and milliseconds would be read as microseconds, which is refused.

    Args:
        written: The writer's schema, parsed by fastavro. It is changed in place.
        read: The reader's schema, parsed by fastavro.

    Raises:
        ValueError: A time or a decimal has another unit or scale in the other schema.
    """
    return _Resolution(written, read).resolved(written, read, "")


class _Resolution:
    """A walk through two schemas, which finds the fields and types of one in the other as fastavro does."""

    def __init__(self, written: Any, read: Any) -> None:
        self._written, self._read = named_types(written), named_types(read)
        self._done: set[tuple[str, str]] = set()

    def resolved(self, written: Any, read: Any, path: str) -> Any:
        if isinstance(written, list):
            return [self.resolved(member, read, path) for member in written]
        theirs, ours = _definition(written, self._written), _definition(read, self._read)
        # No column has a union of several types.
        if theirs is None or ours is None:
            return written
        if theirs["type"] == ours["type"] == "record":
            self._resolve_fields(theirs, ours, path)
        elif theirs["type"] == ours["type"] in _INNER:
            inner = _INNER[theirs["type"]]
            theirs[inner] = self.resolved(theirs[inner], ours[inner], path)
        elif not _same_meaning(theirs, ours):
            raise ValueError(
                f"field '{path}' is {_name(theirs)} in the writer's schema and {_name(ours)} in the reader's schema"
            )
        elif theirs["type"] == ours["type"] in ("bytes", "fixed"):
            # A copy, because a fixed type may be read as a decimal in one field and as bytes in another.
            plain = {key: value for key, value in theirs.items() if key not in _LOGICAL}
            return plain | {key: ours[key] for key in _LOGICAL if key in ours}
        return written

    def _resolve_fields(self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: str) -> None:
        names = theirs["name"], ours["name"]
        if names in self._done or not _is_named_as(theirs, ours):
            return
        self._done.add(names)
        found = {alias: field for field in ours["fields"] for alias in field.get("aliases", ())}
        found |= {field["name"]: field for field in ours["fields"]}
        for field in theirs["fields"]:
            name = field["name"]
            if name in found:
                inner = f"{path}.{name}" if path else name
                field["type"] = self.resolved(field["type"], found[name]["type"], inner)


def _definition(schema: Any, named: Mapping[str, Any]) -> Any:
    """Returns the definition of a type, or of the one in a union with null; ``None`` for a union of several types."""
    if isinstance(schema, list):
        members = [member for member in schema if member != "null"]
        return _definition(members[0], named) if len(members) == 1 else None
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
