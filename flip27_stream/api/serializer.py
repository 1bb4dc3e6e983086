"""Versioned serialization of what goes into an offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, Union

from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError

T = TypeVar("T")

JsonValue = Union[None, bool, int, str, "list[JsonValue]", "dict[str, JsonValue]"]
"""What an offset may hold. No floats: Spark compares offsets as text."""


class SimpleVersionedSerializer(ABC, Generic[T]):
    """Turns values into JSON and back, for ever (FLIP-27 ``SimpleVersionedSerializer``).

    Spark stores offsets as JSON text, so a serializer yields JSON values instead of Flink's bytes. Equal values must
    yield equal JSON. A serializer reads all its older versions.
    """

    @property
    @abstractmethod
    def version(self) -> int:
        """The version :meth:`serialize` writes."""

    @abstractmethod
    def serialize(self, value: T) -> JsonValue:
        """The JSON form of ``value``, in the current version."""

    @abstractmethod
    def deserialize(self, version: int, data: JsonValue) -> T:
        """The value that ``version`` wrote as ``data``.

        Raises:
            CorruptCheckpointError: ``data`` is not of the form that ``version`` writes.
            NewerCheckpointError: ``version`` is newer than :attr:`version`.
        """

    def check_version(self, what: str, version: int) -> None:
        """For :meth:`deserialize`: refuse a version of ``what`` that no release up to this one wrote.

        Raises:
            NewerCheckpointError: a newer release wrote it.
            CorruptCheckpointError: the version is less than 1.
        """
        if version > self.version:
            raise NewerCheckpointError(
                f"The {what} in the checkpoint has version {version}; this release reads up to {self.version}. "
                "Run the release that wrote it, or a newer one."
            )
        if version < 1:
            raise CorruptCheckpointError(
                f"The {what} in the checkpoint has version {version}; versions start at 1."
            )
