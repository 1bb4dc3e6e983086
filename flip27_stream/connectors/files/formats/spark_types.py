"""Columns whose type in Spark is another one than their type in files: variants, intervals and geometries.

They are refused, since the stored values are not Spark's: a variant is a struct of bytes, an interval a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from flip27_stream.errors import OptionError, RecordFormatError

_ROW: Final = b"org.apache.spark.sql.parquet.row.metadata"
_CATALYST: Final = b"spark.sql.catalyst.type"
_REFUSED: Final = ("variant", "interval", "geometry", "geography")
_PARTS: Final = ("type", "elementType", "keyType", "valueType", "fields", "sqlType")


def refuse_in_parquet(metadata: Mapping[bytes, bytes], what: str) -> None:
    """Checks the types that Spark notes in the footer of a Parquet file.

    Args:
        metadata: The metadata of the footer.
        what: The file, for the error.

    Raises:
        RecordFormatError: A column has a type that is not read.
    """
    try:
        columns = json.loads(metadata.get(_ROW, b"{}"))["fields"]
        named = [(str(column["name"]), list(_kinds(column["type"]))) for column in columns]
    except (ValueError, LookupError, TypeError):
        return  # another writer's, or damaged: Arrow's types are what is known
    for name, kinds in named:
        _refuse(name, kinds, what)


def refuse_in_orc(schema: pa.Schema, what: str) -> None:
    """Checks the types that Spark notes for the columns of an ORC file, as :func:`refuse_in_parquet` does."""
    for field in schema:
        _refuse(field.name, list(_noted(field)), what)


def refuse_wanted(schema: pa.Schema) -> None:
    """Checks the columns that a user names.

    Raises:
        OptionError: A column is to have a type that is not read.
    """
    for field in schema:
        for kind in _REFUSED:
            if any(kind.encode() in (part.metadata or {}) for part in _fields(field)):
                raise OptionError(
                    f"Column '{field.name}' of the schema has type {kind}, which cannot be read from files. Leave the "
                    "column out of .schema(...)."
                )


def _refuse(name: str, kinds: list[str], what: str) -> None:
    for kind in kinds:
        if kind.startswith(_REFUSED):
            raise RecordFormatError(
                f"Column '{name}' of {what} is Spark's {kind}, which is not read. Leave it out: name the columns that "
                "are wanted with .schema(...), which also takes the type that the file has."
            )


def _kinds(kind: Any) -> Iterator[str]:
    """Yields the names of the types within a type in Spark's JSON."""
    if isinstance(kind, str):
        yield kind
    for part in kind if isinstance(kind, list) else ():
        yield from _kinds(part)
    for key in _PARTS if isinstance(kind, dict) else ():
        yield from _kinds(kind.get(key))


def _noted(field: pa.Field) -> Iterator[str]:
    for part in _fields(field):
        yield (part.metadata or {}).get(_CATALYST, b"").decode("utf-8", "replace")


def _fields(field: pa.Field) -> Iterator[pa.Field]:
    """Yields a field and all fields within it."""
    yield field
    for n in range(field.type.num_fields):
        yield from _fields(field.type.field(n))
