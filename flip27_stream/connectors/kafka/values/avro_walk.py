"""Checks the bytes of a record in Avro, more strictly than fastavro's reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

_NUMBER: Final = re.compile(rb"[\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01]")

_Walk = Callable[[bytes, int], int]
"""A function that skips the value at a position and returns the position after it; ``IndexError`` if the bytes end."""


class RecordWalk:
    """A check for damage that fastavro accepts: numbers of more than 64 bits, wrong indexes, too deep nesting.

    Args:
        schema: The writer's schema, parsed by fastavro.

    Attributes:
        recursive: Whether the schema contains itself, so that values may be nested without limit.
    """

    def __init__(self, schema: Any) -> None:
        self.recursive = False
        self._named: dict[str, _Walk] = {}
        self._record = self._walk(schema)

    def check(self, data: bytes, start: int) -> None:
        """Checks the record that begins at ``start``.

        Raises:
            EOFError: The record goes on after the end of ``data``.
            ValueError: The bytes are not a record; the text describes the defect.
        """
        try:
            end = self._record(data, start)
        except IndexError:
            end = len(data) + 1
        except RecursionError:
            raise ValueError("the record is nested too deeply") from None
        if end > len(data):
            raise EOFError

    def _walk(self, schema: Any) -> _Walk:
        if isinstance(schema, list):
            return _union([self._walk(member) for member in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            walk = _sequence([self._walk(field["type"]) for field in schema["fields"]])
        elif kind == "enum":
            walk = _enum(len(schema["symbols"]))
        elif kind == "fixed":
            walk = _constant(schema["size"])
        elif kind == "array":
            walk = _blocks(self._walk(schema["items"]))
        elif kind == "map":
            walk = _blocks(_sequence([_bytes, self._walk(schema["values"])]))
        else:
            walk = self._walk(kind)
        if "name" in schema:
            self._named[schema["name"]] = walk
        return walk

    def _reference(self, name: str) -> _Walk:
        # A type is added to _named after all its fields. So a name that is not there is a type within itself.
        self.recursive |= name not in self._named
        return lambda data, at: self._named[name](data, at)


def _long(data: bytes, at: int) -> int:
    if data[at] < 0x80:
        return at + 1
    found = _NUMBER.match(data, at)
    if found is None:
        if at + 10 > len(data):
            raise IndexError
        raise ValueError("a number has more than 64 bits")
    return found.end()


def _decoded(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a position, and the position after it."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    end = _long(data, at)
    number = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data[at:end]))
    return (number >> 1) ^ -(number & 1), end


def _bytes(data: bytes, at: int) -> int:
    length, at = _decoded(data, at)
    if length < 0:
        raise ValueError(f"a length is {length}")
    return at + length


def _constant(size: int) -> _Walk:
    return lambda _, at: at + size


def _sequence(parts: Sequence[_Walk]) -> _Walk:
    def walk(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    return walk


def _blocks(item: _Walk) -> _Walk:
    def walk(data: bytes, at: int) -> int:
        while True:
            count, at = _decoded(data, at)
            if not count:
                return at
            if count < 0:
                at = _long(data, at)
            if abs(count) > len(data):
                raise ValueError(f"a block has {abs(count)} items, more than there are bytes")
            for _ in range(abs(count)):
                at = item(data, at)

    return walk


def _enum(size: int) -> _Walk:
    def walk(data: bytes, at: int) -> int:
        index, at = _decoded(data, at)
        if not 0 <= index < size:
            raise ValueError(f"an index into {size} symbols is {index}")
        return at

    return walk


def _union(members: Sequence[_Walk]) -> _Walk:
    def walk(data: bytes, at: int) -> int:
        index, at = _decoded(data, at)
        if not 0 <= index < len(members):
            raise ValueError(f"an index into a union of {len(members)} types is {index}")
        return members[index](data, at)

    return walk


_PRIMITIVES: Final[dict[str, _Walk]] = {
    "null": _constant(0),
    "boolean": _constant(1),
    "int": _long,
    "long": _long,
    "float": _constant(4),
    "double": _constant(8),
    "bytes": _bytes,
    "string": _bytes,
}
