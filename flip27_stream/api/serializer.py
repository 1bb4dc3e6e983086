"""The interface of versioned serializers, for the splits and enumerator states in an offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, Union

from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError

T = TypeVar("T")

JsonValue = Union[None, bool, int, str, "list[JsonValue]", "dict[str, JsonValue]"]
"""The values that an offset may have. It has no floats, because Spark compares offsets as text."""


class SimpleVersionedSerializer(ABC, Generic[T]):
    """Converts values to JSON and back, across releases (FLIP-27 ``SimpleVersionedSerializer``).

    Spark stores offsets as JSON text, so a serializer returns JSON values instead of Flink's bytes. It must return
    equal JSON for equal values, and read all its older versions.
    """

    @property
    @abstractmethod
    def version(self) -> int:
        """The version that :meth:`serialize` writes."""

    @abstractmethod
    def serialize(self, value: T) -> JsonValue:
        """Returns the JSON form of ``value``, in the current version."""

    @abstractmethod
    def deserialize(self, version: int, data: JsonValue) -> T:
        """Returns the value that ``version`` wrote as ``data``.

        Raises:
            CorruptCheckpointError: ``data`` is not of the form that ``version`` writes.
            NewerCheckpointError: ``version`` is newer than :attr:`version`.
        """

    def check_version(self, what: str, version: int) -> None:
        """Checks, for :meth:`deserialize`, that this release or an older one has written ``version``.

        Args:
            what: The name of the stored value, for the error message.
            version: The version of the stored value.

        Raises:
            NewerCheckpointError: A newer release wrote the value.
            CorruptCheckpointError: The version is less than 1.
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
