"""Where the members of a group meet: entries in the commits of the split-watermark table.

An entry is metadata of a commit that adds no file, so the log alone is read, commit by commit as it grows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import takewhile

from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from flip27_stream.errors import AlignmentError
from flip27_stream.threads import of_each
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

KEY = "flip27.member"
"""The name of an entry in the metadata of a commit."""
_LOG = "_delta_log"
_READERS = 16


class GroupLog:
    """Writes and reads entries; one thread at a time. Constructing does no I/O.

    Args:
        table: a handle that nobody else uses.
        group: the group whose entries are read.
        horizon_ms: how much older than the newest commit an entry may be, by the store's clock, to be looked at when
            reading begins.
        most_at_once: commits that one call of :meth:`news` reads at most, but for a few; ``None`` for all there are.

    Attributes:
        is_behind: whether there are commits that the last call of :meth:`news` left to the next one.
    """

    def __init__(
        self, table: SplitWatermarkTable, group: str, horizon_ms: int, most_at_once: int | None = None
    ) -> None:
        self._table = table
        self._group = group
        self._horizon_s = horizon_ms / 1000
        self._most = sys.maxsize if most_at_once is None else most_at_once
        self._files: PyFileSystem | None = None
        self._next: int | None = None
        self._found: tuple[int, ...] = ()
        self._published = -1
        self.is_behind = False

    def publish(self, entry: Entry) -> int:
        """Append ``entry``; returns the version of the table that it made.

        Raises:
            AlignmentError: the table cannot be written.
        """
        self._published = self._table.note({KEY: entry.to_text()})
        if self._next is not None and self._published < self._next:
            self._next, self._found = None, ()  # the table was made anew
        return self._published

    def news(self) -> list[tuple[int, Entry]]:
        """Entries since the last call, with their versions of the table, in order; at first those of the last while.

        Commits are read many at a time; :attr:`is_behind` tells whether there are more.

        Raises:
            AlignmentError: the table cannot be read; the next call begins where this one began.
        """
        before = self._next, self._found
        try:
            with self._table.failing("cannot be read"):
                files = self._files = self._files or self._table.files()
                return [
                    (version, entry)
                    for version, text in self._commits(files)
                    for entry in self._entries(text)
                ]
        except AlignmentError:
            (self._next, self._found), self.is_behind = before, False
            raise

    def _commits(self, files: PyFileSystem) -> list[tuple[int, str]]:
        """The next commits, as texts by their versions."""
        if self._found:
            return self._listed(files)
        recent = [] if self._next is None else self._following(files, self._next)
        if recent or self._is_at_end(files):
            return recent
        self._list(files)
        return self._listed(files)

    def _is_at_end(self, files: PyFileSystem) -> bool:
        """Whether what was read last is there, and nothing of ours after it.

        Else the log was shortened up to behind it, this process having slept; or the table is gone, or another one.
        """
        if self._next is None or self._next <= self._published:
            return False
        return files.get_file_info(_path(self._next - 1)).type is not FileType.NotFound

    def _list(self, files: PyFileSystem) -> None:
        """Find the commits that are to be read; the one after the newest is the next."""
        found = files.get_file_info(FileSelector(_LOG))
        commits = {
            int(info.base_name[:20]): info.mtime.timestamp()
            for info in found
            if len(info.base_name) == 25 and info.base_name.endswith(".json")
        }
        if not commits:
            raise TableNotFoundError("there is no Delta table")
        newest = max(commits.values())
        is_another = self._next is None or max(commits) < self._next - 1
        read_up_to = 0 if is_another or self._next is None else self._next
        self._found = tuple(
            sorted(v for v, at in commits.items() if v >= read_up_to and newest - at <= self._horizon_s)
        )
        self._next = max(commits) + 1

    def _listed(self, files: PyFileSystem) -> list[tuple[int, str]]:
        """Some of the commits that were found; after the last of them those that follow."""
        versions, self._found = self._found[: self._most], self._found[self._most :]
        self.is_behind = bool(self._found)
        texts = of_each(lambda version: _read(files, version), versions, _READERS)
        read = [(v, text) for v, text in zip(versions, texts, strict=True) if text is not None]
        assert self._next is not None
        return read if self.is_behind else read + self._following(files, self._next)

    def _following(self, files: PyFileSystem, version: int) -> list[tuple[int, str]]:
        """The commits from ``version`` on: one is asked for, then ever more at a time while there are so many."""
        read: list[tuple[int, str]] = []
        width, self.is_behind = 1, True
        while self.is_behind and len(read) < self._most:
            versions = range(version, version + width)
            texts = of_each(lambda v: _read(files, v), versions, _READERS)
            there = list(takewhile(lambda told: told[1] is not None, zip(versions, texts, strict=True)))
            read += [(v, text) for v, text in there if text is not None]
            self.is_behind = len(there) == width
            version, width = version + len(there), min(2 * width, _READERS)
        self._next = version
        return read

    def _entries(self, text: str) -> Iterator[Entry]:
        for line in text.splitlines():
            if KEY not in line:
                continue
            if (entry := _parsed(line)) is not None and entry.group == self._group:
                yield entry


def _parsed(line: str) -> Entry | None:
    """``None`` for what another program may have written under our name."""
    try:
        return Entry.from_text(json.loads(line)["commitInfo"][KEY])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _path(version: int) -> str:
    return f"{_LOG}/{version:020d}.json"


def _read(files: PyFileSystem, version: int) -> str | None:
    try:
        with files.open_input_stream(_path(version)) as stream:
            return bytes(stream.read()).decode(errors="replace")
    except FileNotFoundError:
        return None
