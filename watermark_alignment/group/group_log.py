"""The entries of a group's members, which are written into commits of the split-watermark table.

An entry is the metadata of a commit that adds no file. So members read only the log of the table, commit by commit.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import takewhile

from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import FileSystem, FileType

from flip27_stream.errors import AlignmentError
from flip27_stream.threads import of_each
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.own_entry import ALL_RENEWED_S
from watermark_alignment.table.batch_note import KEY as NOTE_KEY
from watermark_alignment.table.split_watermark_table import NO_TABLE, SplitWatermarkTable
from watermark_alignment.table.storage.table_files import commit_path, commit_times

KEY = "flip27.member"
"""The name of an entry in the metadata of a commit."""
NOTE_EVERY_S = 300.0
"""The time (s) after which the note on the newest batch is repeated in a commit with an entry.

It is a third of the time for which tables of this project keep their log. So the log has the note even if no batch is
recorded for hours.
"""
_READERS = 16


class GroupLog:
    """Writes and reads the entries of a group. Not thread-safe. The constructor does no I/O.

    Args:
        table: A handle to the table that nothing else uses.
        group: The group whose entries are read.
        horizon_ms: How far back the first read goes, in ms before the newest commit, by the clock of the store.
        most_at_once: The approximate greatest number of commits that one call of :meth:`new_entries` reads; ``None``
            for no limit.
        note: Returns the text of the :class:`BatchNote` on the newest recorded batch; "" before the first one.

    Attributes:
        is_behind: Whether the last call of :meth:`new_entries` left commits to the next call.
        complete_at: The time (s, monotonic clock) from which on the table that was found first has an entry of each
            live member, even if a table was deleted right before; ``None`` before the first read.
        tables: The number of other tables that were found in place of the first one, which was deleted.
    """

    def __init__(
        self,
        table: SplitWatermarkTable,
        group: str,
        horizon_ms: int,
        most_at_once: int | None = None,
        note: Callable[[], str] = str,
    ) -> None:
        self._table = table
        self._group = group
        self._horizon_s = horizon_ms / 1000
        self._most = sys.maxsize if most_at_once is None else most_at_once
        self._files: FileSystem | None = None
        self._next: int | None = None
        self._found: tuple[int, ...] = ()
        self._published = -1
        self._note = note
        self._noted_at = time.monotonic()
        self.is_behind = False
        self.complete_at: float | None = None
        self.tables = 0

    def publish(self, entry: Entry) -> int:
        """Appends ``entry`` to the log, and returns the version of the table with it.

        The note on the newest batch is in the same commit if it was not repeated for :data:`NOTE_EVERY_S`.

        Raises:
            AlignmentError: The table cannot be written.
        """
        now = time.monotonic()
        note = self._note() if now - self._noted_at >= NOTE_EVERY_S else ""
        self._published = self._table.note({KEY: entry.to_text(), **({NOTE_KEY: note} if note else {})})
        if note:
            self._noted_at = now
        if self._next is not None and self._published < self._next:
            self._next, self._found = None, ()  # The table was deleted and created again.
            self.tables += 1
        return self._published

    def new_entries(self) -> list[tuple[int, Entry]]:
        """Returns the entries since the last call, with the versions of the table that have them, in order.

        The first call returns the entries of the last ``horizon_ms``. :attr:`is_behind` is true if more commits are
        left to the next call.

        Raises:
            AlignmentError: The table cannot be read. The next call begins at the same version again.
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

    def _commits(self, files: FileSystem) -> list[tuple[int, str]]:
        """Returns the next commits, each as its version and its text."""
        if self._found:
            return self._listed(files)
        recent = [] if self._next is None else self._following(files, self._next)
        if recent or self._is_at_end(files):
            return recent
        self._list(files)
        return self._listed(files)

    def _is_at_end(self, files: FileSystem) -> bool:
        """Returns whether the last commit that was read still exists, and this process has written none after it.

        Otherwise the log was cleaned up past that commit while this process was suspended, or the table was deleted or
        replaced.
        """
        if self._next is None or self._next <= self._published:
            return False
        return files.get_file_info(commit_path(self._next - 1)).type is not FileType.NotFound

    def _list(self, files: FileSystem) -> None:
        """Lists the log, and stores the list of the commits to read. The commit after the newest is read next."""
        commits = commit_times(files)
        if not commits:
            raise TableNotFoundError(NO_TABLE)
        # The newest commit, not the one with the greatest time: the store's clock may have been set back since.
        newest = commits[max(commits)]
        if self.complete_at is None:
            # Without its first commit, the log is older than the time for which a table keeps its log.
            age_s = newest - commits[0] if 0 in commits else ALL_RENEWED_S
            self.complete_at = time.monotonic() + ALL_RENEWED_S - min(max(age_s, 0.0), ALL_RENEWED_S)
        is_another = self._next is not None and max(commits) < self._next - 1
        self.tables += is_another
        read_up_to = 0 if is_another or self._next is None else self._next
        self._found = tuple(
            sorted(v for v, at in commits.items() if v >= read_up_to and newest - at <= self._horizon_s)
        )
        self._next = max(commits) + 1

    def _listed(self, files: FileSystem) -> list[tuple[int, str]]:
        """Returns some of the listed commits; after the last of them also the commits that follow."""
        versions, self._found = self._found[: self._most], self._found[self._most :]
        self.is_behind = bool(self._found)
        texts = of_each(lambda version: _read(files, version), versions, _READERS)
        read = [(v, text) for v, text in zip(versions, texts, strict=True) if text is not None]
        assert self._next is not None
        return read if self.is_behind else read + self._following(files, self._next)

    def _following(self, files: FileSystem, version: int) -> list[tuple[int, str]]:
        """Returns the commits from ``version`` on.

        One commit is requested first, then twice as many at a time as long as all of them exist.
        """
        read: list[tuple[int, str]] = []
        width, self.is_behind = 1, True
        while self.is_behind and len(read) < self._most:
            versions = range(version, version + width)
            texts = of_each(lambda v: _read(files, v), versions, _READERS)
            there = list(takewhile(lambda pair: pair[1] is not None, zip(versions, texts, strict=True)))
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
    """Returns the entry in a line of a commit; ``None`` if another program wrote another value under this name."""
    try:
        return Entry.from_text(json.loads(line)["commitInfo"][KEY])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _read(files: FileSystem, version: int) -> str | None:
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            return bytes(stream.read()).decode(errors="replace")
    except FileNotFoundError:
        return None
