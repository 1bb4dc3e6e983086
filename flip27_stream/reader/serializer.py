"""A serializer for splits and checkpoints that are plain dataclasses."""

from __future__ import annotations

import typing
from dataclasses import fields
from typing import Any, TypeVar, cast

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.errors import CorruptCheckpointError

T = TypeVar("T")


class DataclassSerializer(SimpleVersionedSerializer[T]):
    """Version 1 of a serializer for a frozen dataclass whose fields are JSON values, or tuples of them.

    The range of a :class:`RangeSplit` is not stored, because positions are in the offset. To change the fields later,
    write a subclass with a higher ``version`` and a ``deserialize`` that also reads the older versions.

    Args:
        cls: The dataclass.
    """

    def __init__(self, cls: type[T]) -> None:
        self._cls = cls
        hints = typing.get_type_hints(cls)
        stored = [f.name for f in fields(cast(Any, cls)) if f.metadata.get("stored", True)]
        self._types: dict[str, Any] = {name: hints[name] for name in stored}

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: T) -> JsonValue:
        return {name: _to_json(getattr(value, name)) for name in self._types}

    def deserialize(self, version: int, data: JsonValue) -> T:
        self.check_version(self._cls.__name__, version)
        if not isinstance(data, dict) or data.keys() != self._types.keys():
            raise self._corrupt(f"it should have the fields {', '.join(sorted(self._types))}")
        for name, kind in self._types.items():
            if kind in (int, str, bool) and type(data[name]) is not kind:
                raise self._corrupt(f"field {name} should be of type {kind.__name__}")
        return self._cls(**{name: _from_json(value) for name, value in data.items()})

    def _corrupt(self, why: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(f"A {self._cls.__name__} in the checkpoint is corrupt: {why}.")


def _to_json(value: Any) -> JsonValue:
    return [_to_json(v) for v in value] if isinstance(value, (tuple, list)) else cast(JsonValue, value)


def _from_json(value: JsonValue) -> Any:
    """Returns ``value`` with lists as tuples, so that a frozen dataclass is hashable."""
    return tuple(_from_json(v) for v in value) if isinstance(value, list) else value
