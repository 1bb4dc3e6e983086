"""The fields of a response, one after the other, without copies: in the encoding of old and of flexible versions."""

from __future__ import annotations

import struct
from typing import Any

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LONGEST_SIZE = 5


class ResponseFields:
    """Reads a response from its first byte on, in an encoding before flexible versions.

    What leaves the response, or cannot be there, raises struct.error. No field is behind the one before it by less
    than nothing, so that each one brings the end nearer.
    """

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Numbers that follow each other."""
        found = layout.unpack_from(self._body, self._at)
        self._at += layout.size
        return found

    def take(self, size: int) -> memoryview:
        """So many bytes, a view of the response."""
        end = self._at + size
        if size < 0 or end > len(self._body):
            raise struct.error(f"{size} bytes are not there")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def count(self) -> int:
        """How many elements an array has, or bytes a field; 0 for null."""
        (count,) = self.numbers(_INT)
        return max(int(count), 0)

    def text(self) -> str:
        """A text that is there, though it may be empty."""
        (size,) = self.numbers(_SHORT)
        return self._decoded(size)

    def skip_tags(self) -> None:
        """Go behind the tagged fields, which there are only in flexible versions."""

    def _decoded(self, size: int) -> str:
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise struct.error(f"a text is not UTF-8: {error.reason}") from error


class FlexibleFields(ResponseFields):
    """The same for flexible versions (KIP-482)."""

    def count(self) -> int:
        return max(self._unsigned() - 1, 0)

    def text(self) -> str:
        return self._decoded(self._unsigned() - 1)

    def skip_tags(self) -> None:
        for _ in range(self._unsigned()):
            self._unsigned()
            self.take(self._unsigned())

    def _unsigned(self) -> int:
        number = 0
        for i in range(_LONGEST_SIZE):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return number
        raise struct.error(f"a size takes more than {_LONGEST_SIZE} bytes")
