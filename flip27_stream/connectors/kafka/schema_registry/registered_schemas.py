"""The schemas of a registry, with the schemas that they refer to, kept for the life of the process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flip27_stream.connectors.kafka.schema_registry.registry import SchemaRegistry, UnknownSchemaError
from flip27_stream.errors import ConnectorError

AVRO: Final = "AVRO"

_UNKNOWN_FOR_S: Final = 60.0
"""The time (s) for which an id that the registry does not have is not requested again."""

_MOST_UNKNOWN: Final = 10_000
_GREATEST_ID: Final = 2**31 - 1


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of a registry.

    Attributes:
        type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        text: The schema.
        references: The texts of the schemas that it refers to, each after those that it refers to itself.
    """

    type: str
    text: str
    references: tuple[str, ...] = ()

    def check_type(self, wanted: str) -> None:
        """Checks that the schema is of the type ``wanted``.

        Raises:
            ValueError: The schema is of another type.
        """
        if self.type != wanted:
            raise ValueError(f"it is {self.type}, not {wanted}")


class SchemaCache:
    """The schemas of registries. The schema of an id never changes, so it is kept as long as the process lives.

    Args:
        clock: Returns a time in seconds that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[tuple[SchemaRegistry, int], RegisteredSchema] = {}
        self._unknown: dict[tuple[SchemaRegistry, int], tuple[float, str]] = {}

    def schema(self, registry: SchemaRegistry, id_: int) -> RegisteredSchema:
        """Returns the schema with an id.

        Raises:
            UnknownSchemaError: The registry does not have the schema, or did not have it less than a minute ago.
            ConnectorError: As :meth:`SchemaRegistry.get`.
        """
        if id_ > _GREATEST_ID:
            raise UnknownSchemaError("ids of registries have 31 bits")
        key = registry, id_
        if (found := self._found.get(key)) is not None:
            return found
        until, why = self._unknown.get(key, (0.0, ""))
        if why and self._clock() < until:
            raise UnknownSchemaError(why)
        try:
            found = _with_references(registry, registry.get("schemas", "ids", str(id_)))
        except UnknownSchemaError as error:
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[key] = self._clock() + _UNKNOWN_FOR_S, str(error)
            raise
        self._found[key] = found
        return found


SCHEMAS: Final = SchemaCache()
"""The schemas of this process."""


def latest_schema(registry: SchemaRegistry, subject: str) -> RegisteredSchema:
    """Returns the latest schema of a subject, which is not cached.

    Raises:
        UnknownSchemaError: The registry does not have the subject.
        ConnectorError: As :meth:`SchemaRegistry.get`.
    """
    return _with_references(registry, registry.get("subjects", subject, "versions", "latest"))


def _with_references(registry: SchemaRegistry, answer: Mapping[str, Any]) -> RegisteredSchema:
    type_ = answer.get("schemaType") or AVRO
    references: dict[tuple[str, str], str] = {}
    if type_ == AVRO:
        _collect(registry, answer, references, ())
    return RegisteredSchema(type_, _text(answer), tuple(references.values()))


def _text(answer: Mapping[str, Any]) -> str:
    """Returns the text of a schema. That of a primitive type may lack the quotes that JSON needs."""
    text = str(answer["schema"])
    return json.dumps(text) if text.isalpha() else text


def _collect(
    registry: SchemaRegistry,
    answer: Mapping[str, Any],
    found: dict[tuple[str, str], str],
    within: tuple[tuple[str, str], ...],
) -> None:
    """Adds the schemas that an answer refers to, at any depth."""
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise ConnectorError(
            f"An answer of the schema registry {registry.urls[0]} has 'references' that are not a list."
        )
    for reference in references:
        try:
            key = str(reference["subject"]), str(reference["version"])
        except (LookupError, TypeError):
            raise ConnectorError(
                f"An answer of the schema registry {registry.urls[0]} refers to another schema without 'subject' and "
                "'version'."
            ) from None
        if key in found or key in within:
            continue
        referred = registry.get("subjects", key[0], "versions", key[1])
        _collect(registry, referred, found, (*within, key))
        found[key] = _text(referred)
