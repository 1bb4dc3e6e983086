"""The backlog of folders. It finds files by listing the folders periodically."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from flip27_stream.connectors.files.backlog.backlog import NO_TIME, Backlog, BacklogFile, ReadingQueue
from flip27_stream.connectors.files.backlog.processed_files import (
    OrderKey,
    ProcessedFiles,
    ProcessedFilesState,
)
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.layout.file_layout import FileLayout, Partition
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import DataLossError

log = logging.getLogger(__name__)

FoundByPath = Mapping[str, Collection[FoundFile]]
"""The listed files, by the path that the user named and under which they lie."""

_TIME_LIMIT_S = 60.0
"""The time (s) that a restarted bounded source waits for files that are still to be read and are not listed."""

_SHARE = 8
"""The inverse of the greatest share of time (one eighth) that is spent on listings, also with very many files."""


class ModifiedFiles(Enum):
    """The action for a file that was processed and whose size or modification time has changed since."""

    IGNORE = "ignore"
    READ = "read"
    FAIL = "fail"


@dataclass(frozen=True)
class ListingChanges:
    """The differences between a listing and the previous one.

    Attributes:
        new: Files that were not listed before.
        changed: Files with another size or modification time.
        gone: Files that are no longer listed.
        least: The least event times (ms) of new and changed files, by path. Empty if files are read in the order of
            modification time.
    """

    new: list[FoundFile]
    changed: list[FoundFile] = field(default_factory=list)
    gone: list[FoundFile] = field(default_factory=list)
    least: Mapping[str, int | None] = field(default_factory=dict)


class ListedFiles(Backlog[ListingChanges, ProcessedFilesState]):
    """The files of folders, in the order of their least event time or of their modification time.

    Args:
        listing: Lists all files, by the path that the user named.
        statistics: Reads event times.
        processed: The record of the files that were processed.
        modified: The action for files that change after they were processed.
        order: The order by event time; ``None`` for the order of modification time.
        bounded: Whether the source reads only the files of its first listing, also after a restart.
        partition: Returns the partition values in the path of a file.
    """

    def __init__(
        self,
        listing: Callable[[], FoundByPath],
        statistics: FileStatistics,
        processed: ProcessedFiles,
        modified: ModifiedFiles = ModifiedFiles.IGNORE,
        order: EventTimeOrder | None = None,
        *,
        bounded: bool = False,
        partition: Callable[[str], Partition] = lambda path: (),
    ) -> None:
        self._partition = partition
        self._listing = listing
        self._statistics = statistics
        self._processed = processed
        self._modified = modified
        self._order = order
        self._bounded = bounded
        self._listed: dict[str, FoundFile] | None = None
        self._under: FoundByPath = {}
        self._empty: set[str] = set()
        self._is_complete = False
        self._waits_since: float | None = None
        self._not_before = self._took_s = 0.0
        self._generation = ReadingQueue()
        self._others = ReadingQueue()

    # ---- in a worker thread ---------------------------------------------------------------------------------------

    def look(self) -> ListingChanges | None:
        began = time.monotonic()
        if began < self._not_before:
            return None
        under = self._with_files_listed_before(self._listing())
        if under is None:
            return None
        found = {file.path: file for file in chain.from_iterable(under.values())}
        if self._bounded:
            found = {file.path: file for file in self._processed.bound_by(found.values())}
        listed = self._compared(found)
        self._listed, self._under = found, under
        self._pause(began)
        return listed

    def _pause(self, began: float) -> None:
        """Sets the time of the next look, by the shorter one of the last two looks.

        A single look can take long for a reason that does not apply to the next look: it is the first, the process was
        suspended, or the event times of many new files were read.
        """
        ended = time.monotonic()
        before, self._took_s = self._took_s, ended - began
        self._not_before = ended + (_SHARE - 1) * min(before, self._took_s)

    def _with_files_listed_before(self, under: FoundByPath) -> FoundByPath | None:
        """Returns ``under``, with the files that were listed before for each path that became empty.

        An empty path does not prove that its files were deleted: a disk can be unavailable for a moment.

        Returns:
            The files by path. ``None`` if a first listing is empty although the checkpoint knows of files.
        """
        first = self._listed is None
        if first and self._processed.remembers and not any(under.values()) and self._awaits_more():
            self._warn_of_nothing(under)
            return None
        empty = [path for path, files in under.items() if not files and self._under.get(path)]
        self._warn_of_nothing(empty)
        return {path: self._under[path] if path in empty else files for path, files in under.items()}

    def _warn_of_nothing(self, paths: Iterable[str]) -> None:
        """Logs a warning for paths that have become empty, once for each time."""
        for path in set(paths) - self._empty:
            log.warning(
                "No file is listed under %s, where files were listed before. The storage may be unavailable, so the "
                "query goes on as if these files were still there: it does not read them again when they are listed "
                "again.",
                path,
            )
        self._empty = set(paths)

    def _awaits_more(self) -> bool:
        """Returns whether to wait for files that the checkpoint knows of and that are not listed.

        Raises:
            DataLossError: Files of a bounded source were not listed for ``_TIME_LIMIT_S``, and missing files are an
                error.
        """
        if not self._bounded:
            return True
        rest = self._processed.rest
        if rest is not None and not rest.files:
            return False
        now = time.monotonic()
        self._waits_since = self._waits_since or now
        if now - self._waits_since < _TIME_LIMIT_S:
            return True
        some = "some" if rest is None else str(rest.files)
        text = (
            f"{some.capitalize()} of the files of the first listing are not read yet, and not all of them were found "
            f"within {_TIME_LIMIT_S:g} s: files were deleted or overwritten."
        )
        if not self._statistics.tolerance.missing:
            raise DataLossError(
                f"{text} Restore these files and start the query again; to go on without them, set option "
                "ignoreMissingFiles to true."
            )
        log.warning("%s The query goes on without them (option ignoreMissingFiles).", text)
        return False

    def _compared(self, found: Mapping[str, FoundFile]) -> ListingChanges | None:
        """Returns the differences to the previous listing; ``None`` without differences."""
        if self._listed is None:
            return self._sort(list(found.values()))
        if found == self._listed and self._is_complete:
            return None
        return self._difference(self._listed, found)

    def _sort(self, found: list[FoundFile]) -> ListingChanges:
        """Returns the differences between the first listing of this process and the checkpoint."""
        doubtful: dict[str, list[str]] = {}
        for file in found:
            for column in self._processed.orders(file):
                doubtful.setdefault(column, []).append(file.path)
        times = {
            column: self._statistics.surely_least(paths, self._by(column), self._layouts(paths))
            for column, paths in doubtful.items()
        }

        def key(file: FoundFile, by: str | None) -> OrderKey | None:
            if by is None:
                return _key(file, file.modified)
            return _key(file, times[by][file.path]) if file.path in times[by] else None

        new, changed = self._processed.recover(found, key)
        known = times.get(self._order.name, {}) if self._order is not None else {}
        return ListingChanges(new, changed, least=self._times([*new, *changed], known))

    def _by(self, name: str) -> EventTimeOrder:
        """Returns the order by the column ``name`` of a checkpoint, which can differ from that of the query."""
        if self._order is not None and self._order.name == name:
            return self._order
        return self._statistics.order_named(name)

    def _difference(self, before: Mapping[str, FoundFile], now: Mapping[str, FoundFile]) -> ListingChanges:
        new = [file for path, file in now.items() if path not in before]
        changed = [file for path, file in now.items() if path in before and before[path] != file]
        gone = [file for path, file in before.items() if path not in now]
        return ListingChanges(new, changed, gone, self._times([*new, *changed], {}))

    def _times(self, files: Iterable[FoundFile], known: Mapping[str, int | None]) -> Mapping[str, int | None]:
        if self._order is None:
            return {}
        missing = [file.path for file in files if file.path not in known]
        if not missing:
            return known
        return {**known, **self._statistics.least(missing, self._order, self._layouts(missing))}

    def _layouts(self, paths: Iterable[str]) -> Mapping[str, FileLayout]:
        return {path: FileLayout(self._partition(path)) for path in paths}

    # ---- in the planning thread -----------------------------------------------------------------------------------

    def take_in(self, look: ListingChanges) -> None:
        self._processed.order_by(self._order.name if self._order is not None else None)
        for file in look.gone:
            self._lose(file)
        generations = self._processed.generations
        new = [*self._processed.without_returned(look.new), *filter(self._is_new_version, look.changed)]
        times = self._times(new, look.least)
        self._processed.note_new(file for file in new if not self._processed.in_generation(file.path))
        for file in new:
            queue = self._generation if self._processed.in_generation(file.path) else self._others
            queue.add(self._waiting(file, times.get(file.path)))
        self._processed.close_generation(self._unprocessed)
        self._open_generation(generations)
        rest = self._processed.rest
        self._is_complete = rest is None or rest.are_among(self._unprocessed()) or not self._awaits_more()
        if self._is_complete:
            self._processed.record_unprocessed(self._unprocessed())

    def _lose(self, file: FoundFile) -> None:
        waiting = self._generation.discard(file.path) or self._others.discard(file.path)
        if waiting is not None:
            self._processed.drop(waiting.file)
        elif self._processed.was_processed(file.path):
            self._processed.leave(file.path)

    def _is_new_version(self, file: FoundFile) -> bool:
        """Returns whether to read a file that has changed.

        Raises:
            DataLossError: The file was processed, and option ``files.modified`` is ``fail``.
        """
        if not self._processed.was_processed(file.path):
            self._lose(file)
            return True
        if self._modified is ModifiedFiles.FAIL:
            raise DataLossError(
                f"File {file.path} was read and has changed since. Files must not change after they are complete; "
                "option files.modified determines the action for changed files: ignore, read or fail."
            )
        if self._modified is ModifiedFiles.READ:
            self._processed.forget(file.path)
            return True
        log.warning(
            "File %s was read and has changed since: it is not read again (option files.modified)", file.path
        )
        self._processed.skip(file)
        return False

    def order_by(self, order: EventTimeOrder) -> None:
        self._order = order
        self._processed.order_by(order.name)
        waiting = [*self._generation, *self._others]
        times = self._times([one.file for one in waiting], {})
        ordered = [self._waiting(one.file, times.get(one.file.path)) for one in waiting]
        self._divide(ordered)

    @property
    def order(self) -> EventTimeOrder | None:
        return self._order

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def head(self) -> BacklogFile | None:
        heads = [self._generation.head(), self._others.head() if self._processed.has_room else None]
        return min((one for one in heads if one is not None), key=_place, default=None)

    def first(self, count: int) -> list[BacklogFile]:
        return sorted([*self._generation.first(count), *self._others.first(count)], key=_place)[:count]

    def move(self, one: BacklogFile, least: int) -> None:
        queue = self._generation if one.file.path in self._generation else self._others
        queue.add(self._waiting(one.file, least))

    def take(self, one: BacklogFile) -> None:
        path = one.file.path
        if self._generation.discard(path) is None:
            self._others.discard(path)
        generations = self._processed.generations
        self._processed.add(one.file, one.key, self._unprocessed)
        if self._processed.generations != generations:
            self._open_generation(generations)

    def least(self) -> int | None:
        heads = [
            self._generation.first_timed(),
            self._others.first_timed() if self._processed.has_room else None,
        ]
        return min((one.least for one in heads if one is not None and one.least is not None), default=None)

    def __len__(self) -> int:
        return len(self._generation) + len(self._others)

    def layout(self, split: FileSplit) -> FileLayout:
        return FileLayout(self._partition(split.path))

    def snapshot(self) -> ProcessedFilesState:
        return self._processed.snapshot()

    def _open_generation(self, before: int) -> None:
        """Opens a generation (:class:`ProcessedFiles`) if many files wait outside, and divides the two queues.

        Args:
            before: The value of :attr:`ProcessedFiles.generations` when the queues were last divided.
        """
        if not len(self._generation):
            self._processed.open_generation(self._unprocessed())
        if self._processed.generations != before:
            self._divide([*self._generation, *self._others])

    def _divide(self, waiting: Iterable[BacklogFile]) -> None:
        files = list(waiting)
        self._generation = ReadingQueue(f for f in files if self._processed.in_generation(f.file.path))
        self._others = ReadingQueue(f for f in files if not self._processed.in_generation(f.file.path))

    def _unprocessed(self) -> list[FoundFile]:
        return [one.file for queue in (self._generation, self._others) for one in queue]

    def _waiting(self, file: FoundFile, least: int | None) -> BacklogFile:
        key = _key(file, file.modified if self._order is None else least)
        return BacklogFile(file, least, key, FileLayout(self._partition(file.path)))


def _place(one: BacklogFile) -> OrderKey:
    return one.key


def _key(file: FoundFile, time_: int | None) -> OrderKey:
    return (NO_TIME if time_ is None else time_), file.path
