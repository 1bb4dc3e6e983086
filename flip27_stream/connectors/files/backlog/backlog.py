"""The backlog: the found files that are not assigned yet, in the order in which they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from flip27_stream.connectors.files.backlog.processed_files import OrderKey
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder
from flip27_stream.connectors.files.layout.file_layout import PLAIN, FileLayout, version_name
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.storage.found_file import FoundFile

NO_TIME = -1
"""The key of files without an event time. It is less than every event time, so these files are read first."""

LookT = TypeVar("LookT")
StateT = TypeVar("StateT")


class BacklogFile(NamedTuple):
    """A file of the backlog, with its place in reading order.

    Attributes:
        file: Path, modification time and size of the file.
        least: The least event time (ms) in the file. ``None`` if the file has no event times, or if files are read in
            the order of modification time.
        key: The place of the file in reading order.
        layout: Partition values, deletion vector and column mapping, which are needed to read the rows of the file.
    """

    file: FoundFile
    least: int | None
    key: OrderKey
    layout: FileLayout = PLAIN

    @property
    def name(self) -> str:
        """A name that is unique to this file with this deletion vector."""
        return version_name(self.file.path, self.layout.deletion)

    def split(self, length: int) -> FileSplit:
        """Returns the split of this file.

        Args:
            length: The end of the split, as a position in the file.
        """
        path, modified, size = self.file
        partition, deletion, columns = self.layout
        return FileSplit(path, modified, size, partition, length, deletion, columns)


class ReadingQueue:
    """A queue of files in reading order, from which any file can be removed."""

    def __init__(self, waiting: Iterable[BacklogFile] = ()) -> None:
        self._waiting = {one.name: one for one in waiting}
        self._timeless = _Keys(one.key for one in self._waiting.values() if one.key[0] == NO_TIME)
        self._timed = _Keys(one.key for one in self._waiting.values() if one.key[0] != NO_TIME)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[BacklogFile]:
        return iter(self._waiting.values())

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, one: BacklogFile) -> None:
        """Adds a file, or moves a file that is in the queue to another place."""
        self._waiting[one.name] = one
        (self._timeless if one.key[0] == NO_TIME else self._timed).add(one.key)

    def discard(self, name: str) -> BacklogFile | None:
        """Removes a file and returns it. Returns ``None`` if the file is not in the queue."""
        return self._waiting.pop(name, None)

    def head(self) -> BacklogFile | None:
        """Returns the next file to read, or ``None`` if the queue is empty."""
        return self._first(self._timeless) or self._first(self._timed)

    def first_timed(self) -> BacklogFile | None:
        """Returns the next file that has an event time, or ``None`` if there is no such file."""
        return self._first(self._timed)

    def first(self, count: int) -> list[BacklogFile]:
        """Returns the next ``count`` files, or fewer if the queue has fewer."""
        found = (self._at(key) for key in chain(self._timeless, self._timed))
        return list(islice(filter(None, found), count))

    def _first(self, keys: _Keys) -> BacklogFile | None:
        while (key := keys.least()) is not None:
            if (one := self._at(key)) is not None:
                return one
            keys.drop_least()
        return None

    def _at(self, key: OrderKey) -> BacklogFile | None:
        """Returns the file at a place, or ``None`` if the file was removed or moved to another place."""
        one = self._waiting.get(key[1])
        return one if one is not None and one.key == key else None


class _Keys:
    """Order keys in ascending order.

    New keys are merged into the list when it is read next. Sorting a nearly sorted list is cheap, and a list, unlike a
    heap, can be iterated in order.
    """

    def __init__(self, keys: Iterable[OrderKey]) -> None:
        self._keys = sorted(keys, reverse=True)
        self._added: list[OrderKey] = []

    def __iter__(self) -> Iterator[OrderKey]:
        self._sort_in()
        return reversed(self._keys)

    def add(self, key: OrderKey) -> None:
        self._added.append(key)

    def least(self) -> OrderKey | None:
        self._sort_in()
        return self._keys[-1] if self._keys else None

    def drop_least(self) -> None:
        self._keys.pop()

    def _sort_in(self) -> None:
        if self._added:
            self._keys = sorted(self._keys + self._added, reverse=True)
            self._added = []


class Backlog(ABC, Generic[LookT, StateT]):
    """The found files that are not assigned yet, and a record of the files that were assigned before.

    A file is *processed* when it is assigned to a reader, or when it will never be read.

    A *look* is one call of :meth:`look`, which lists the files; it runs in a worker thread. All other methods run in
    the planning thread. The result of the first look is passed to :meth:`take_in` before any other method is called.
    """

    @abstractmethod
    def look(self) -> LookT | None:
        """Finds new files; the first call finds all files.

        Returns:
            The new files. ``None`` if the last look was too recent, if no file is new, or if the result is doubtful.
            If a first look returns ``None``, the next look counts as the first.
        """

    @abstractmethod
    def take_in(self, look: LookT) -> None:
        """Adds the result of a listing to the backlog."""

    @property
    def is_complete(self) -> bool:
        """Whether all files of a bounded source have been found. A bounded source must not end before that."""
        return True

    @abstractmethod
    def order_by(self, order: EventTimeOrder) -> None:
        """Changes the reading order from modification time to event time."""

    @property
    @abstractmethod
    def order(self) -> EventTimeOrder | None:
        """The order by event time, or ``None`` if files are read in the order of modification time."""

    @abstractmethod
    def head(self) -> BacklogFile | None:
        """Returns the next file in reading order, or ``None`` if no file can be taken now."""

    @abstractmethod
    def first(self, count: int) -> list[BacklogFile]:
        """Returns the next files in reading order, at most ``count``, even if some of them cannot be taken now."""

    @abstractmethod
    def move(self, one: BacklogFile, least: int) -> None:
        """Moves the head of the backlog to its place by event time.

        The event time could not be read when the file was found.

        Args:
            one: The head of the backlog.
            least: The least event time (ms) in the file.
        """

    @abstractmethod
    def take(self, one: BacklogFile) -> None:
        """Removes the head of the backlog, because it is assigned or will never be read."""

    @abstractmethod
    def least(self) -> int | None:
        """Returns the least event time (ms) of the files that can be taken now.

        The result is ``None`` if they have no event times.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of files in the backlog."""

    def layout(self, split: FileSplit) -> FileLayout:
        """Returns the layout with which the rows of a split from a checkpoint are read."""
        return split.layout

    @abstractmethod
    def snapshot(self) -> StateT:
        """Returns the checkpoint of the backlog; equal to the previous one if no file was processed since."""
