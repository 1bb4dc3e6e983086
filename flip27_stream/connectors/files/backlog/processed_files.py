"""The record of the files that were processed.

It is exact while the process runs, and has a bounded size in the checkpoint.

A file is *processed* when it is assigned to a reader. From then on the offset has the position of its split. By this
record the file is not processed a second time. A list of all names would grow without bound, so the
checkpoint has:

* ``recent``: marks (12 bytes each) of the newest processed files, some thousands at most.
* ``cut``: a modification time. All files up to it were processed, except files that appear later with an older time.
* A *generation*, while a large listing is read: the files with modification times up to ``until``. They are processed
  in order, so the place of the last processed file (the *frontier*) shows which of them were processed.
* A :class:`Digest` of the files that have no mark because the cut or the generation covers them. After a restart it
  proves that no such file was added while no query ran, or finds one or two added files. Otherwise a warning or an
  error follows.

A file that appears with an old modification time, because it was moved or copied with it, is a *late file*. It has a
mark until it is processed, so that the cut does not cover it. While a generation is read and ``recent`` is full, the
files outside of the generation wait.

A file that was processed and is *gone* (no longer listed) keeps its mark as long as there is room. It is not processed
again if it comes back unchanged: it may have been moved out of the folder and back, or its disk was unavailable.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from flip27_stream.connectors.files.backlog.digest import Bucket, Digest, FileSetDigest
from flip27_stream.connectors.files.backlog.marks import NAME_BYTES, GoneFiles, mark_of, name_of
from flip27_stream.connectors.files.backlog.unmarked_files import MissingFilesAtStart, report_mismatches
from flip27_stream.connectors.files.storage.found_file import FoundFile

WINDOW: Final = 4096
"""The greatest number of marks of one kind in the checkpoint. The files of older marks are covered by the cut."""

_GONE_WINDOWS: Final = 16
"""The number of marks of gone files that are kept in memory, as a multiple of ``WINDOW``."""

OrderKey = tuple[int, str]
"""The place of a file in reading order: its least event time or its modification time (ms), then its path."""

FindKey = Callable[[FoundFile, str | None], OrderKey | None]
"""Returns the place of a file in the order of a column, or of modification time if the column is ``None``."""


class Frontier(NamedTuple):
    """The last processed file of a generation, in one order.

    Attributes:
        by: The event-time column that gives the order; ``None`` for the order of modification time.
        last: The place of the last processed file; ``None`` before the first.
    """

    by: str | None
    last: OrderKey | None = None

    def moved(self, key: OrderKey) -> Frontier:
        """Returns the frontier after the file at ``key`` was processed; it never moves back."""
        return Frontier(self.by, key if self.last is None else max(self.last, key))


@dataclass(frozen=True)
class ProcessedFilesState:
    """The checkpoint of :class:`ProcessedFiles`.

    Attributes:
        cut: The modification time (ms) up to which all files were processed, except late files.
        until: The modification time (ms) up to which files belong to the open generation; ``None`` if no generation is
            open.
        frontiers: The frontiers of the open generation, more than one if the order was changed while it was read.
        buckets: The digest of all files that have no mark because the cut or the generation covers them.
        recent: The marks of the newest processed files, sorted.
        late: The marks of late files that are not processed yet, sorted.
        last: For a bounded source, the greatest modification time (ms) in its first listing; it reads no newer files.
        rest: For a bounded source, the files of its first listing that are not processed yet.
        gone: The marks of the processed files that disappeared last, sorted.
    """

    cut: int = -1
    until: int | None = None
    frontiers: tuple[Frontier, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    recent: tuple[bytes, ...] = ()
    late: tuple[bytes, ...] = ()
    last: int | None = None
    rest: FileSetDigest | None = None
    gone: tuple[bytes, ...] = ()

    @property
    def bound(self) -> int:
        """The modification time (ms) up to which the cut or the generation covers files without a mark."""
        return self.cut if self.until is None else self.until


class ProcessedFiles:
    """The files that were processed and still exist.

    Args:
        state: The checkpoint to continue from.
        fail_on_data_loss: Whether it is an error, and not only a warning, if files may have been added unnoticed.
        window: The number of marks that are kept.
    """

    def __init__(
        self, state: ProcessedFilesState, *, fail_on_data_loss: bool = True, window: int = WINDOW
    ) -> None:
        self._state = state
        self._fail = fail_on_data_loss
        self._window = window
        self._by: str | None = None
        self._digest = Digest(state.buckets)
        self._files: dict[str, FoundFile] = {}
        self._recent: dict[str, bytes] = {}
        self._late: dict[str, bytes] = {}
        self._gone = GoneFiles(_GONE_WINDOWS * window)
        self._gone.add(state.gone)
        self._missing = MissingFilesAtStart()
        self._members: set[str] = set()
        self._changed = False
        self.generations = 0
        """The number of times that a generation was opened or closed."""

    @property
    def remembers(self) -> bool:
        """Whether the checkpoint from which this process started knows of any file."""
        state = self._state
        return bool(state.buckets or state.recent or state.late or state.rest)

    # ---- the first listing of a process ---------------------------------------------------------------------------

    def orders(self, file: FoundFile) -> frozenset[str]:
        """Returns the event-time columns that :meth:`recover` needs to decide whether the file was processed."""
        if self._state.until is None or not self._state.cut < file.modified <= self._state.until:
            return frozenset()
        return frozenset(frontier.by for frontier in self._state.frontiers if frontier.by is not None)

    def recover(self, found: Iterable[FoundFile], key: FindKey) -> tuple[list[FoundFile], list[FoundFile]]:
        """Compares the first listing of this process with the checkpoint.

        Args:
            found: All files that are listed.
            key: Returns the place of a file in the order of a column, or of modification time if the column is
                ``None``. It returns ``None`` for a file that cannot be read and is to be skipped.

        Returns:
            The files that were not processed, and the files that were processed in another version.

        Raises:
            DataLossError: Files were added that cannot be distinguished from files that were read.
        """
        new, modified, covered = self._compare_with_marks(found)
        new += self._unprocessed(covered, key)
        self.note_new(file for file in new if file.path not in self._members)
        return new, modified

    def _compare_with_marks(
        self, found: Iterable[FoundFile]
    ) -> tuple[list[FoundFile], list[FoundFile], list[FoundFile]]:
        """Returns the new files, the files in another version, and the files of which only the digest may know."""
        recent, late = (
            {mark[:NAME_BYTES]: mark for mark in marks} for marks in (self._state.recent, self._state.late)
        )
        new: list[FoundFile] = []
        modified: list[FoundFile] = []
        covered: list[FoundFile] = []
        for file in found:
            name = name_of(file.path)
            if (mark := recent.pop(name, None)) is not None:
                self._remember(file, mark)
                if mark != mark_of(file):
                    modified.append(file)
            elif file.path in self._gone:
                if not self.returned(file):
                    new.append(file)
            elif name in late:
                new.append(file)
            else:
                (covered if file.modified <= self._state.bound else new).append(file)
        self._gone.add(recent.values())  # The files that are not listed.
        return new, modified, covered

    def _unprocessed(self, covered: list[FoundFile], key: FindKey) -> list[FoundFile]:
        """Returns those of ``covered`` that were not processed, by the digest and by their place in the order."""
        unknown_files, mismatches, incomplete = self._digest.sort_out(covered)
        report_mismatches(mismatches, fail=self._fail)
        if self._state.until is None:  # Otherwise not all of them were processed.
            self._missing.record(incomplete)
        unknown = {file.path for file in unknown_files}
        new = []
        for file in covered:
            if file.path in unknown:
                new.append(file)
            elif file.modified <= self._state.cut or self._was_processed(file, key):
                self._files[file.path] = file
            else:
                self._members.add(file.path)
                new.append(file)
        return new

    def _was_processed(self, file: FoundFile, key: FindKey) -> bool:
        places = ((key(file, by), last) for by, last in self._state.frontiers)
        return any(place is None or (last is not None and place <= last) for place, last in places)

    # ---- files that are processed ---------------------------------------------------------------------------------

    def was_processed(self, path: str) -> bool:
        return path in self._files

    def in_generation(self, path: str) -> bool:
        """Returns whether the file is in the open generation and not processed yet."""
        return path in self._members

    @property
    def has_room(self) -> bool:
        """Whether files outside of the open generation can be processed now."""
        return not self._members or len(self._recent) < self._window

    def add(self, file: FoundFile, key: OrderKey, unprocessed: Callable[[], Collection[FoundFile]]) -> None:
        """Adds a file that is now processed. The files of a generation must be added in their order.

        Args:
            file: The file.
            key: The place of the file in reading order.
            unprocessed: Returns the other known files that are not processed.
        """
        self._changed = True
        if self._state.rest is not None:
            self._state = replace(self._state, rest=self._state.rest.without(file))
        if file.path in self._members:
            self._members.remove(file.path)
            self._files[file.path] = file
            *before, active = self._state.frontiers
            self._state = replace(self._state, frontiers=(*before, active.moved(key)))
            self.close_generation(unprocessed)
            return
        self._late.pop(file.path, None)
        self._remember(file, mark_of(file))
        if len(self._recent) > self._window and not self._members:
            self._make_room(unprocessed())

    def leave(self, path: str) -> None:
        """Records that a processed file is no longer listed.

        The checkpoint does not change by this alone, because a new offset would start a micro-batch.
        """
        self._gone.add([mark_of(self.forget(path))])

    def without_returned(self, appeared: Iterable[FoundFile]) -> list[FoundFile]:
        """Returns the files of a listing without those that were processed in this version before they disappeared."""
        new = [file for file in appeared if not self.returned(file)]
        if back := self._missing.returned_among([file for file in new if file.path not in self._late]):
            self._files.update({file.path: file for file in back})
            self._digest.add(back)
            self._changed = True
        return [file for file in new if file.path not in self._files]

    def returned(self, file: FoundFile) -> bool:
        """Returns whether a file that is listed again was processed in this version before, by its mark."""
        was_processed = self._gone.returned(file)
        if was_processed:
            self._remember(file, mark_of(file))
        return was_processed

    def forget(self, path: str) -> FoundFile:
        """Removes a processed file from the record, so that it counts as never processed, and returns it."""
        file = self._files.pop(path)
        if self._recent.pop(path, None) is None:
            self._digest.remove(file)
        return file

    def skip(self, file: FoundFile) -> None:
        """Records the new version of a processed file that is not read again."""
        self.forget(file.path)
        self._changed = True
        self._remember(file, mark_of(file))

    # ---- files that are not processed -----------------------------------------------------------------------------

    def bound_by(self, found: Collection[FoundFile]) -> list[FoundFile]:
        """Returns the files of a bounded source: those up to the greatest modification time in its first listing."""
        if self._state.last is None:
            last = max((file.modified for file in found), default=-1)
            self._state = replace(self._state, last=last, rest=FileSetDigest.of(found))
        last = self._state.last or 0
        return [file for file in found if file.modified <= last]

    @property
    def rest(self) -> FileSetDigest | None:
        """The files of a bounded source that are not processed, or ``None`` if they are unknown (older checkpoints)."""
        return self._state.rest

    def record_unprocessed(self, unprocessed: Collection[FoundFile]) -> None:
        """Records the files that a bounded source must still read; some may have been added to its first listing."""
        rest = FileSetDigest.of(unprocessed)
        if self._state.rest not in (None, rest):
            self._state = replace(self._state, rest=rest)
            self._changed = True

    def note_new(self, files: Iterable[FoundFile]) -> None:
        """Records files that were found. Late files get a mark, as long as there is room."""
        for file in files:
            if file.modified <= self._state.bound and len(self._late) < self._window:
                self._late[file.path] = mark_of(file)
                self._changed = True

    def drop(self, file: FoundFile) -> None:
        """Removes a file from the record that was not processed and has disappeared or changed."""
        self._late.pop(file.path, None)
        if file.path in self._members:
            self._members.remove(file.path)
            self._digest.remove(file)

    def order_by(self, column: str | None) -> None:
        """Sets the order in which files are processed from now on, also in an open generation."""
        self._by = column
        if self._members and self._state.frontiers[-1].by != column:
            self._changed = True
            self._state = replace(self._state, frontiers=(*self._state.frontiers, Frontier(column)))

    # ---- generations ----------------------------------------------------------------------------------------------

    def open_generation(self, unprocessed: Collection[FoundFile]) -> None:
        """Opens a generation of the known files that are not processed, if they are more than half a window."""
        members = self._timely(unprocessed)
        if not self._members and len(members) > self._window // 2:
            self._start_generation(members)

    def close_generation(self, unprocessed: Callable[[], Iterable[FoundFile]]) -> None:
        """Closes the open generation if all its files are processed. The cut then moves up."""
        if self._state.until is None or self._members:
            return
        self.generations += 1
        highest = min(self._state.until, self._below_newest())
        self._state = replace(self._state, until=None, frontiers=())
        self._move_cut(max(self._state.cut, highest))
        self.note_new(file for file in unprocessed() if file.path not in self._late)

    def snapshot(self) -> ProcessedFilesState:
        """Returns the checkpoint. It is the same object until a file is processed or a late file is found."""
        if self._changed:
            self._changed = False
            self._state = replace(
                self._state,
                buckets=self._digest.buckets,
                recent=tuple(sorted(self._recent.values())),
                late=tuple(sorted(self._late.values())),
                gone=tuple(sorted(self._gone.last(self._window // 2))),
            )
        return self._state

    def _start_generation(self, members: Collection[FoundFile]) -> None:
        self._changed = True
        self.generations += 1
        self._members = {file.path for file in members}
        self._digest.add(members)
        until = max(file.modified for file in members)
        self._state = replace(self._state, until=until, frontiers=(Frontier(self._by),))

    def _make_room(self, unprocessed: Collection[FoundFile]) -> None:
        """Moves the cut up, or opens a generation if unprocessed files prevent this."""
        above = self._timely(unprocessed)
        lowest = min((file.modified for file in above), default=None)
        highest = self._below_newest() if lowest is None else min(self._below_newest(), lowest - 1)
        self._move_cut(max(self._state.cut, highest))
        if above and len(self._recent) > self._window // 2:
            self._start_generation(above)

    def _timely(self, unprocessed: Collection[FoundFile]) -> list[FoundFile]:
        """Returns the files of ``unprocessed`` that are not late files."""
        return [f for f in unprocessed if f.modified > self._state.cut and f.path not in self._late]

    def _below_newest(self) -> int:
        """Returns the highest cut (ms) that leaves a mark for each file in the newest half of the window."""
        keep = self._window // 2
        newest = heapq.nlargest(keep + 1, (file.modified for file in self._files.values()))
        return newest[-1] if len(newest) > keep else -1

    def _move_cut(self, cut: int) -> None:
        """Sets the cut. Marks below it move into the digest, and files above it get marks again."""
        self._changed = True
        self._state = replace(self._state, cut=cut)
        below = [file for path in self._recent if (file := self._files[path]).modified <= cut]
        above = [f for path, f in self._files.items() if f.modified > cut and path not in self._recent]
        for file in above:
            self._digest.remove(file)
            self._recent[file.path] = mark_of(file)
        for file in below:
            del self._recent[file.path]
        self._digest.add(below)

    def _remember(self, file: FoundFile, mark: bytes) -> None:
        self._files[file.path] = file
        self._recent[file.path] = mark
