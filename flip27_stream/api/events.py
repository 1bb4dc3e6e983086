"""Messages between an enumerator and its readers."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_stream.api.serializer import JsonValue


@dataclass(frozen=True)
class SourceEvent:
    """A custom message of a source (FLIP-27 ``SourceEvent``).

    A reader gets it with its task of the next micro-batch; the enumerator gets it with the report of a task.

    Attributes:
        name: The name of the message.
        payload: Its content, as JSON.
    """

    name: str
    payload: JsonValue = None
