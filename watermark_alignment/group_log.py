"""Where the members of a group meet: entries in the commits of the split-watermark table.

An entry is metadata of a commit that adds no file, so the log alone is read, commit by commit as it grows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from flip27_stream.errors import AlignmentError
from watermark_alignment.group import Entry
from watermark_alignment.table import SplitWatermarkTable

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
    """

    def __init__(self, table: SplitWatermarkTable, group: str, horizon_ms: int) -> None:
        self._table = table
        self._group = group
        self._horizon_s = horizon_ms / 1000
        self._files: PyFileSystem | None = None
        self._next: int | None = None
        self._published = -1

    def publish(self, entry: Entry) -> int:
        """Append ``entry``; returns the version of the table that it made.

        Raises:
            AlignmentError: the table cannot be written.
        """
        self._published = self._table.note({KEY: entry.to_text()})
        if self._next is not None and self._published < self._next:
            self._next = None  # the table was made anew
        return self._published

    def news(self) -> list[tuple[int, Entry]]:
        """Entries since the last call, with their versions of the table, in order; at first those of the last while.

        Raises:
            AlignmentError: the table cannot be read.
        """
        read_up_to = self._next
        try:
            with self._table.failing("cannot be read"):
                files = self._files = self._files or self._table.files()
                recent = [] if self._next is None else self._following(files, self._next)
                if not recent and not self._is_at_end(files):
                    recent = self._recent(files)
                return [(version, entry) for version, text in recent for entry in self._entries(text)]
        except AlignmentError:
            self._next = read_up_to  # nothing of this was told
            raise

    def _is_at_end(self, files: PyFileSystem) -> bool:
        """Whether what was read last is there, and nothing of ours after it.

        Else the log was shortened up to behind it, this process having slept; or the table is gone, or another one.
        """
        if self._next is None or self._next <= self._published:
            return False
        return files.get_file_info(_path(self._next - 1)).type is not FileType.NotFound

    def _recent(self, files: PyFileSystem) -> list[tuple[int, str]]:
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
        versions = sorted(
            v for v, at in commits.items() if v >= read_up_to and newest - at <= self._horizon_s
        )
        with ThreadPoolExecutor(_READERS) as pool:
            texts = list(pool.map(lambda version: _read(files, version), versions))
        self._next = max(commits) + 1
        read = [(v, text) for v, text in zip(versions, texts, strict=True) if text is not None]
        return read + self._following(files, self._next)

    def _following(self, files: PyFileSystem, version: int) -> list[tuple[int, str]]:
        read = []
        while (text := _read(files, version)) is not None:
            read.append((version, text))
            version += 1
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
    except (ValueError, TypeError, KeyError):
        return None


def _path(version: int) -> str:
    return f"{_LOG}/{version:020d}.json"


def _read(files: PyFileSystem, version: int) -> str | None:
    try:
        with files.open_input_stream(_path(version)) as stream:
            return bytes(stream.read()).decode()
    except FileNotFoundError:
        return None
