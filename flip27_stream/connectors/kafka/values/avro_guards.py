"""Schemas with which fastavro does not accept damaged indexes, and reads booleans as Spark does."""

from __future__ import annotations

from typing import Any, Final

from fastavro.read import LOGICAL_READERS

NAMED: Final = "__named_schemas"
"""The key of the definitions in a schema that fastavro has parsed."""

BOOLEAN: Final = {"type": "fixed", "name": "a boolean", "size": 1, "logicalType": "flip27-boolean"}
"""A type for booleans, which are one byte. Only 1 is true, as in Spark; to fastavro, all bytes but 0 are true.

No type of a schema has its name, because names have no spaces.
"""


def _boolean(data: bytes, _writer: Any = None, _reader: Any = None) -> bool:
    return data == b"\x01"


LOGICAL_READERS[f"{BOOLEAN['type']}-{BOOLEAN['logicalType']}"] = _boolean


def guarded(schema: Any, made: dict[int, Any] | None = None) -> Any:
    """Returns a copy of a parsed schema with which fastavro accepts no negative index.

    For Python a negative index of a list counts from its end, so lists are replaced by mappings, which have no such
    index.
    All logical types except decimals and :data:`BOOLEAN` are removed. Arrow converts the numbers of dates and times,
    also for years that Python does not support.

    Args:
        schema: The schema, or a type in it.
        made: The copies that were made before, by the identities of what they are copies of.
    """
    made = {id(BOOLEAN): BOOLEAN} if made is None else made
    if isinstance(schema, (list, dict)) and id(schema) not in made:
        made[id(schema)] = _union(schema, made) if isinstance(schema, list) else _definition(schema, made)
    return made.get(id(schema), schema)


def _union(members: list[Any], made: dict[int, Any]) -> Any:
    """Returns a union. To fastavro it is a list, and it adds the length of the list to a negative index."""
    copies = [guarded(member, made) for member in members]
    lookup = {"__getitem__": dict(enumerate(copies)).__getitem__, "__len__": lambda _: 0}
    return type("Union", (list,), lookup)(copies)


def _definition(schema: dict[str, Any], made: dict[int, Any]) -> dict[str, Any]:
    copy = {key: value for key, value in schema.items() if key != "logicalType" or value == "decimal"}
    if "symbols" in copy:
        copy["symbols"] = dict(enumerate(copy["symbols"]))
    for inner in ("type", "items", "values"):
        if inner in copy:
            copy[inner] = guarded(copy[inner], made)
    if "fields" in copy:
        copy["fields"] = [field | {"type": guarded(field["type"], made)} for field in copy["fields"]]
    if NAMED in copy:
        copy[NAMED] = {name: guarded(kind, made) for name, kind in copy[NAMED].items()}
    return copy
