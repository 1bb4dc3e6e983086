"""Reads the fields of a response in order and without copies, in the encoding of old and of flexible versions."""

from __future__ import annotations

import struct
from typing import Any

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LONGEST_SIZE = 5


class ResponseFields:
    """A parser of a response from its first byte on, in the encoding before flexible versions.

    A field that exceeds the response, or that is impossible, raises struct.error. The position never moves backwards,
    so that the parser of a damaged response ends.
    """

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Returns the next numbers, in the layout given."""
        found = layout.unpack_from(self._body, self._at)
        self._at += layout.size
        return found

    def take(self, size: int) -> memoryview:
        """Returns the next ``size`` bytes, as a view of the response."""
        end = self._at + size
        if size < 0 or end > len(self._body):
            raise struct.error(f"the response ends before {size} further bytes")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def count(self) -> int:
        """Returns the number of elements of an array, or of bytes of a field; 0 for null."""
        (count,) = self.numbers(_INT)
        return max(int(count), 0)

    def text(self) -> str:
        """Returns a text that is not null; it may be empty."""
        (size,) = self.numbers(_SHORT)
        return self._decoded(size)

    def skip_tags(self) -> None:
        """Skips the tagged fields, which only flexible versions have."""

    def _decoded(self, size: int) -> str:
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise struct.error(f"a text is not UTF-8: {error.reason}") from error


class FlexibleFields(ResponseFields):
    """Reads a response in the encoding of flexible versions (KIP-482)."""

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
