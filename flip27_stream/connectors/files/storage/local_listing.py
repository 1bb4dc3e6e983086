"""Listings of local folders.

Arrow's file system would visit hidden folders, and a folder again for each link that leads to it, also within itself.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from stat import S_ISDIR, S_ISREG

from flip27_stream.connectors.files.storage.found_file import LOG_OF_DELTA, FoundFile, is_hidden_name
from flip27_stream.errors import ConnectorError

_GONE = (errno.ENOENT, errno.ELOOP)


@dataclass
class LocalWalk:
    """A walk through a folder and its subfolders.

    Links to folders are followed, but each folder is visited only once. Folders are visited under their own names
    first, then through links in the order of their names.

    Attributes:
        recursive: Whether to visit folders below the listed folder, or below the folders that the glob matches.
        glob: A pattern for whole paths of files and folders to list; ``None`` to list all of the first folder.
        depth: The greatest number of slashes in a path that the glob can match.
        tables: The folders visited so far that are Delta tables.
    """

    recursive: bool = True
    glob: re.Pattern[str] | None = None
    depth: int = 0
    tables: set[str] = field(default_factory=set)
    _visited: set[tuple[int, int]] = field(default_factory=set)
    _folders: list[tuple[str, bool]] = field(default_factory=list)
    _links: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, folder: str) -> Iterator[FoundFile]:
        """Yields the files of the folder, without those that disappear during the walk.

        Raises:
            OSError: A folder cannot be read.
            UnicodeDecodeError: A name is not UTF-8.
        """
        self._folders.append((folder, self.glob is None))
        while self._folders or self._links:
            if not self._folders:
                self._links.sort(reverse=True)
                self._folders.append(self._links.pop())
            yield from self._in_folder(*self._folders.pop())

    def _in_folder(self, folder: str, inside: bool) -> Iterator[FoundFile]:
        try:
            if inside and self._was_visited(folder):
                return
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_hidden_name(entry.name):
                        if entry.name == LOG_OF_DELTA:
                            self.tables.add(folder.rstrip("/"))
                        continue
                    found = self._entry(entry, inside)
                    if found is not None:
                        yield found
        except (FileNotFoundError, NotADirectoryError):
            return

    def _was_visited(self, folder: str) -> bool:
        status = os.stat(folder)
        place = status.st_dev, status.st_ino
        visited = place in self._visited
        self._visited.add(place)
        return visited

    def _entry(self, entry: os.DirEntry[str], inside: bool) -> FoundFile | None:
        """Returns the file of a directory entry, or ``None`` for other entries. Folders are queued."""
        name, path = entry.name, entry.path
        if not name.isascii():
            os.fsencode(name).decode()
        try:
            if entry.is_dir():
                self._keep(path, inside, entry.is_symlink())
                return None
            status = entry.stat()
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        if not S_ISREG(status.st_mode) or not (inside or self._matches(path)):
            return None
        return FoundFile.of(path, status.st_mtime_ns, status.st_size)

    def _keep(self, folder: str, inside: bool, is_link: bool) -> None:
        matches = not inside and self._matches(folder)
        if self.recursive if inside else matches or folder.count("/") < self.depth:
            (self._links if is_link else self._folders).append((folder, inside or matches))

    def _matches(self, path: str) -> bool:
        return self.glob is not None and self.glob.fullmatch(path) is not None


def local_file(path: str) -> FoundFile | None:
    """Returns the file at ``path``, or ``None`` for a folder.

    Raises:
        FileNotFoundError: The path does not exist.
        ConnectorError: This Python cannot use the path; see :func:`check_encoding`.
    """
    check_encoding(path)
    status = os.stat(path)
    if S_ISDIR(status.st_mode):
        return None
    return FoundFile.of(path, status.st_mtime_ns, status.st_size)


def check_encoding(path: str) -> None:
    """Checks that Python and Arrow mean the same file by ``path``.

    Arrow encodes names of files as UTF-8. Python takes the encoding from the locale, unless that is the C locale. With
    another one it finds no file whose name has other characters than ASCII, or another file.

    Raises:
        ConnectorError: The path is not ASCII, and the encoding of this Python is not UTF-8.
    """
    encoding = sys.getfilesystemencoding()
    if not path.isascii() and encoding != "utf-8":
        shown = path.encode(errors="surrogateescape").decode(errors="replace")
        raise ConnectorError(
            f"The path '{shown}' is not ASCII, and this Python has the encoding '{encoding}' for names of files. Set "
            "the environment variable PYTHONUTF8=1 on the driver and on the executors."
        )
