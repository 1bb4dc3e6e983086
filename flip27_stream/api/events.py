"""Messages between an enumerator and its readers."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_stream.api.serializer import JsonValue


@dataclass(frozen=True)
class SourceEvent:
    """A custom message of a source (FLIP-27 ``SourceEvent``).

    To a reader it travels with the tasks of the next micro-batch, to the enumerator with the report of a task; both
    ways as JSON.
    """

    name: str
    payload: JsonValue = None
