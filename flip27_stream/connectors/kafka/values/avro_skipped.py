"""Types with which fastavro reads the bytes of Avro fields that are not wanted, whatever they contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_AS_BYTES: Final = {"string": "bytes"}
_OF_CONSTANT_SIZE: Final = frozenset({"boolean", "float", "double", "fixed"})


class SkippedTypes:
    """Replaces types by types with the same encoding whose content is not checked or converted.

    Text becomes bytes, which need not be UTF-8. An enum becomes a union of nulls, and a map an array of records with a
    key and a value. Indexes, lengths and the end of the bytes are still checked.

    Args:
        named: The definitions of the named types, by their full names.

    Attributes:
        records: The replacements of the records that were mentioned so far, by their full names. Replacements name
            records and do not contain them, because a record may contain itself.
        may_skip_beyond_the_end: Whether fastavro may go on at the end of the bytes: it skips as many items of a
            constant size as the count of an array says, and the count may be damaged.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self.records: dict[str, Any] = {}
        self.may_skip_beyond_the_end = False

    def of(self, schema: Any) -> Any:
        """Returns the replacement of a type in a schema that fastavro has parsed."""
        if isinstance(schema, list):
            return [self.of(member) for member in schema]
        if isinstance(schema, str):
            return self.of(self._named[schema]) if schema in self._named else _AS_BYTES.get(schema, schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return ["null"] * len(schema["symbols"])
        if kind == "fixed":
            return {key: schema[key] for key in ("type", "name", "size")}
        if kind == "array":
            self.may_skip_beyond_the_end |= self._is_of_constant_size(schema["items"])
            return {"type": kind, "items": self.of(schema["items"])}
        if kind == "map":
            fields = [("key", "bytes"), ("value", self.of(schema["values"]))]
            entry = [{"name": name, "type": inner} for name, inner in fields]
            return {"type": "array", "items": {"type": "record", "name": "entry", "fields": entry}}
        return self.of(kind)

    def _is_of_constant_size(self, schema: Any) -> bool:
        if isinstance(schema, str):
            named = self._named.get(schema)
            return schema in _OF_CONSTANT_SIZE if named is None else self._is_of_constant_size(named)
        if isinstance(schema, list):
            return False
        if schema["type"] in ("record", "error"):
            return all(self._is_of_constant_size(field["type"]) for field in schema["fields"])
        return self._is_of_constant_size(schema["type"])

    def _record(self, schema: Mapping[str, Any]) -> str:
        name: str = schema["name"]
        if name not in self.records:
            # The list is filled afterwards, because the fields may name this record.
            fields: list[dict[str, Any]] = []
            self.records[name] = {"type": "record", "name": name, "fields": fields}
            fields += [{"name": field["name"], "type": self.of(field["type"])} for field in schema["fields"]]
        return name
