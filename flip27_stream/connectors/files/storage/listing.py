"""Listings of the files in folders and subfolders, or of those that match a glob, without hidden files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from pyarrow import fs

from flip27_stream.connectors.files.layout.file_layout import Partition
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import (
    BEING_COPIED,
    LOG_OF_DELTA,
    FoundFile,
    is_hidden_name,
)
from flip27_stream.connectors.files.storage.glob import RULE, glob_regex
from flip27_stream.connectors.files.storage.local_listing import LocalWalk, check_encoding, local_file
from flip27_stream.connectors.files.storage.partition_folders import PartitionFolders
from flip27_stream.connectors.files.storage.storage_errors import storage_error
from flip27_stream.errors import ConnectorError, OptionError, UnreachableError

_GLOB = re.compile(r"[*?\[{]")
_LOG = re.compile(rf"/{LOG_OF_DELTA}(?:/|$)")


@dataclass(frozen=True)
class FileListing:
    """A listing of the files to read.

    Attributes:
        storage: The file system of the files.
        paths: Files, folders, or globs of either (``/data/2026-*/``), as paths in the file system. A path that exists
            under exactly this name is not a glob.
        name_glob: If given, only files whose name matches it are listed (Spark ``pathGlobFilter``).
        path_regex: If given, only files whose whole path matches it are listed (Flink ``source.path.regex-pattern``).
        recursive: Whether files in subfolders are listed.
        partitions: Finds the values of partition columns in paths; ``None`` if there are no partition columns.
    """

    storage: Storage
    paths: tuple[str, ...]
    name_glob: str | None = None
    path_regex: str | None = None
    recursive: bool = True
    partitions: PartitionFolders | None = None

    def partition(self, path: str) -> Partition:
        """Returns the values of partition columns in the names of folders."""
        return () if self.partitions is None else self.partitions(path)

    def __call__(self) -> list[FoundFile]:
        """Returns all files that exist and are not empty, each once, in no order; see :meth:`by_path`."""
        return list({file.path: file for files in self.by_path().values() for file in files}.values())

    def by_path(self, note: Callable[[FoundFile], None] = lambda _: None) -> dict[str, list[FoundFile]]:
        """Returns the files under each path that exist and are not empty, in no order.

        An empty file is usually about to be written. If it stays empty, no row is lost without it.

        Args:
            note: Called with each file that is found, also with those that are not listed.

        Raises:
            UnreachableError: A path that is not a glob, or the local folder in which a glob looks, does not exist; or
                the file system did not answer.
            ConnectorError: The file system refused access; or a name is not UTF-8, or this Python cannot use it.
            OptionError: A path does not exist and is not a valid glob, or a file belongs to a Delta table.
        """
        try:
            return {path: list(self._wanted_under(path, note)) for path in self.paths}
        except UnicodeDecodeError as error:
            raise ConnectorError(
                f"In {', '.join(self.paths)} is a file with a name that is not UTF-8 ({error.object!r}). Rename it."
            ) from error
        except OSError as error:
            raise storage_error(f"Listing {', '.join(self.paths)} failed", error, self.storage.uri) from error

    @cached_property
    def _name_pattern(self) -> re.Pattern[str] | None:
        return None if self.name_glob is None else re.compile(glob_regex(self.name_glob))

    @cached_property
    def _path_pattern(self) -> re.Pattern[str] | None:
        return None if self.path_regex is None else re.compile(self.path_regex)

    def _wanted_under(self, path: str, note: Callable[[FoundFile], None]) -> Iterator[FoundFile]:
        tables = {table for table in self._tables_above if path.startswith(f"{table}/")}
        wanted: list[FoundFile] = []
        for file in self._under(path, tables):
            note(file)
            if self._is_wanted(file):
                if not self.storage.uri:
                    check_encoding(file.path)
                wanted.append(file)
        _refuse_files_of_tables(wanted, tables)
        return iter(wanted)

    def _is_wanted(self, file: FoundFile) -> bool:
        if not file.size:
            return False
        name, path = self._name_pattern, self._path_pattern
        if name is not None and not name.fullmatch(file.path.rpartition("/")[2]):
            return False
        return path is None or path.fullmatch(file.path) is not None

    @cached_property
    def _tables_above(self) -> frozenset[str]:
        """The Delta tables in whose folders the paths are. They are looked for once, since that takes several calls.

        The log of a table is not in question: its files can be read as JSON.
        """
        named = [path for path in self.paths if not _LOG.search(path)]
        folders = sorted(
            {folder for path in named for folder in _folders_above(path) if not _GLOB.search(folder)}
        )
        if not self.storage.uri:
            return frozenset(folder for folder in folders if os.path.isdir(f"{folder}/{LOG_OF_DELTA}"))
        with suppress(OSError):  # Credentials may be for the path alone.
            logs = self.storage.filesystem().get_file_info([f"{folder}/{LOG_OF_DELTA}" for folder in folders])
            return frozenset(
                f for f, log in zip(folders, logs, strict=True) if log.type == fs.FileType.Directory
            )
        return frozenset()

    def _under(self, path: str, tables: set[str]) -> Iterator[FoundFile]:
        return self._under_stored(path, tables) if self.storage.uri else self._under_local(path, tables)

    def _under_local(self, path: str, tables: set[str]) -> Iterator[FoundFile]:
        try:
            file = local_file(path)
        except FileNotFoundError:
            if not _GLOB.search(path):
                raise self._nothing_at(path) from None
            glob = path.rstrip("/")
            pattern, base = _compiled(glob), _base(glob)
            if not _exists(base):
                raise self._nothing_at(base) from None
            return LocalWalk(self.recursive, pattern, glob.count("/"), tables)(base)
        return LocalWalk(self.recursive, tables=tables)(path) if file is None else iter([file])

    def _under_stored(self, path: str, tables: set[str]) -> Iterator[FoundFile]:
        filesystem = self.storage.filesystem()
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound and _GLOB.search(path):
            return self._matching(filesystem, path, tables)
        if info.type == fs.FileType.NotFound:
            raise self._nothing_at(path)
        return iter([_found(info)]) if info.is_file else self._in_folder(filesystem, path, tables)

    def _nothing_at(self, path: str) -> UnreachableError:
        return UnreachableError(
            f"Path '{path}' does not exist in {self.storage.uri or 'the local file system'} (option 'path')."
        )

    def _in_folder(self, filesystem: fs.FileSystem, folder: str, tables: set[str]) -> Iterator[FoundFile]:
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=self.recursive)
        for info in filesystem.get_file_info(selector):
            if not is_hidden(info.path[len(folder) :]):
                if info.is_file:
                    yield _found(info)
            elif log := _LOG.search(info.path, len(folder.rstrip("/"))):
                tables.add(info.path[: log.start()])

    def _matching(self, filesystem: fs.FileSystem, glob: str, tables: set[str]) -> Iterator[FoundFile]:
        """Yields the files that a glob matches, and the files in folders that it matches."""
        base = _base(glob)
        pattern = _compiled(glob.rstrip("/"), "(/.*)?")
        depth = glob.rstrip("/").count("/") + 1
        for file in FileListing(self.storage, (base,))._in_folder(filesystem, base, tables):
            if pattern.fullmatch(file.path) and (self.recursive or file.path.count("/") <= depth):
                yield file


def _refuse_files_of_tables(files: list[FoundFile], tables: Collection[str]) -> None:
    """Refuses files in the folder of a Delta table: not all of them belong to its present state.

    Raises:
        OptionError: A file is in such a folder.
    """
    for file in files if tables else ():
        table = next((folder for folder in _folders_above(file.path) if folder in tables), None)
        if table is not None:
            raise OptionError(
                f"The folder '{table}' is a Delta table, since it has a folder {LOG_OF_DELTA}. Its files have rows "
                "that were removed or written twice, so they are not read one by one. Set option 'files.format' to "
                "delta, or give another path. If it is the split-watermark table of an aligned query, give that table "
                "a folder outside of 'path'."
            )


def _folders_above(path: str) -> Iterator[str]:
    """Yields the folders that a path is in, from the nearest on, without the root."""
    while (path := path.rstrip("/").rpartition("/")[0]).strip("/"):
        yield path


def is_hidden(path: str) -> bool:
    """Returns whether a name in ``path`` is hidden; see :func:`is_hidden_name`."""
    if "/." not in path and "/_" not in path and BEING_COPIED not in path:
        return False
    return any(map(is_hidden_name, path.strip("/").split("/")))


def _base(glob: str) -> str:
    """Returns the deepest folder that contains every match of the glob."""
    first = _GLOB.search(glob)
    assert first is not None
    return glob[: first.start()].rpartition("/")[0] or "/"


def _exists(folder: str) -> bool:
    try:
        os.stat(folder)
    except FileNotFoundError:
        return False
    return True


def _compiled(glob: str, behind: str = "") -> re.Pattern[str]:
    """Returns a pattern for the paths that a glob matches.

    Args:
        glob: The glob.
        behind: A regular expression for the text that may follow the match.

    Raises:
        OptionError: The text is not a valid glob.
    """
    try:
        return re.compile(f"{glob_regex(glob)}{behind}", re.DOTALL)
    except re.error as error:
        raise OptionError.of(
            "path", glob, f"No path has exactly this name, and the text is not a valid glob: {RULE}."
        ) from error


def _found(info: fs.FileInfo) -> FoundFile:
    return FoundFile.of(info.path, info.mtime_ns or 0, info.size)
