"""Marks of files: twelve bytes that stand for path and version of a file; and the marks of files that disappeared."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import Final

from flip27_stream.connectors.files.storage.found_file import FoundFile

MARK_BYTES: Final = 12
NAME_BYTES: Final = 8


def name_of(path: str) -> bytes:
    """Returns the first 8 bytes of a mark, a hash of the path. They are the same for all versions of a file."""
    return blake2b(path.encode(), digest_size=NAME_BYTES, usedforsecurity=False).digest()


def mark_of(file: FoundFile) -> bytes:
    """Returns the mark of a file: a hash of its path, and a hash of its modification time and size."""
    text, size = f"{file.modified} {file.size}".encode(), MARK_BYTES - NAME_BYTES
    version = blake2b(text, digest_size=size, usedforsecurity=False)
    return name_of(file.path) + version.digest()


class GoneFiles:
    """The marks of files that were processed and are no longer listed. The oldest marks are dropped first.

    Args:
        most: The number of marks that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._marks: dict[bytes, bytes] = {}

    def add(self, marks: Iterable[bytes]) -> None:
        """Adds the marks of files that are no longer listed."""
        self._marks.update((mark[:NAME_BYTES], mark) for mark in marks)
        for name in list(islice(self._marks, max(len(self._marks) - self._most, 0))):
            del self._marks[name]

    def __contains__(self, path: str) -> bool:
        return name_of(path) in self._marks

    def returned(self, file: FoundFile) -> bool:
        """Returns whether a file that is listed again has the version that was processed, and removes its mark."""
        return self._marks.pop(name_of(file.path), None) == mark_of(file)

    def last(self, count: int) -> list[bytes]:
        """Returns the marks that were added last, at most ``count``."""
        return list(islice(reversed(self._marks.values()), count))
