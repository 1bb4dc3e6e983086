"""The backlog: files that are known and not assigned yet, in the order in which they are read."""

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


class Waiting(NamedTuple):
    """A file of the backlog, with its place in reading order.

    Attributes:
        file: the file.
        least: its least event time (ms); ``None`` for a file without event times, or in the order of modification time.
        key: its place in reading order.
        layout: what else must be known to read its rows.
    """

    file: FoundFile
    least: int | None
    key: OrderKey
    layout: FileLayout = PLAIN

    @property
    def name(self) -> str:
        """Tells it from every other file, and from the same file with other rows deleted."""
        return version_name(self.file.path, self.layout.deletion)

    def split(self, length: int) -> FileSplit:
        """The file as a split whose last position is before ``length``."""
        path, modified, size = self.file
        partition, deletion, columns = self.layout
        return FileSplit(path, modified, size, partition, length, deletion, columns)


class ReadingQueue:
    """A queue of files in reading order, from which any file can be discarded."""

    def __init__(self, waiting: Iterable[Waiting] = ()) -> None:
        self._waiting = {one.name: one for one in waiting}
        self._timeless = _Keys(one.key for one in self._waiting.values() if one.key[0] == NO_TIME)
        self._timed = _Keys(one.key for one in self._waiting.values() if one.key[0] != NO_TIME)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, one: Waiting) -> None:
        """Add a file, or move it to another place."""
        self._waiting[one.name] = one
        (self._timeless if one.key[0] == NO_TIME else self._timed).add(one.key)

    def discard(self, name: str) -> Waiting | None:
        """Remove a file, and return it; ``None`` if the queue does not have it."""
        return self._waiting.pop(name, None)

    def head(self) -> Waiting | None:
        """The next file."""
        return self._first(self._timeless) or self._first(self._timed)

    def first_timed(self) -> Waiting | None:
        """The next file that has an event time."""
        return self._first(self._timed)

    def first(self, count: int) -> list[Waiting]:
        """The next files, as many as ``count``."""
        found = (self._at(key) for key in chain(self._timeless, self._timed))
        return list(islice(filter(None, found), count))

    def _first(self, keys: _Keys) -> Waiting | None:
        while (key := keys.least()) is not None:
            if (one := self._at(key)) is not None:
                return one
            keys.drop_least()
        return None

    def _at(self, key: OrderKey) -> Waiting | None:
        """The file in that place; ``None`` if it was discarded, or has another place now."""
        one = self._waiting.get(key[1])
        return one if one is not None and one.key == key else None


class _Keys:
    """Keys in ascending order.

    Added keys are sorted in at the next read: sorting a nearly sorted list is cheap, and unlike a heap it can be
    iterated in order.
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
    """The files that were found and are not assigned yet, and the state that says which files were taken.

    :meth:`look` runs in a worker thread, every other method in the planning thread. The first look is waited for and
    taken in before any other method is called.
    """

    @abstractmethod
    def look(self) -> LookT | None:
        """Find new files; the first look finds all files.

        Returns:
            What was found; ``None`` if it is too early for a look, or if the look proves nothing. After a first look
            that proves nothing, the next look is the first one.
        """

    @abstractmethod
    def take_in(self, look: LookT) -> None:
        """Add what a look has found to the backlog."""

    @property
    def is_complete(self) -> bool:
        """Whether the looks so far have found all files of a bounded source, which must not end before."""
        return True

    @abstractmethod
    def order_by(self, order: EventTimeOrder) -> None:
        """Order files by event time from now on, instead of by modification time."""

    @property
    @abstractmethod
    def order(self) -> EventTimeOrder | None:
        """The order by event time; ``None`` for the order of modification time."""

    @abstractmethod
    def head(self) -> Waiting | None:
        """The next file in reading order; ``None`` if no file can be taken now."""

    @abstractmethod
    def first(self, count: int) -> list[Waiting]:
        """The next files in reading order, at most ``count``. Some of them may have to wait."""

    @abstractmethod
    def move(self, one: Waiting, least: int) -> None:
        """Move the head to the place of an event time (ms) that could not be read when the file was found."""

    @abstractmethod
    def take(self, one: Waiting) -> None:
        """Remove the head, which is assigned, or will never be read."""

    @abstractmethod
    def least(self) -> int | None:
        """The least event time (ms) of the files that can be taken."""

    @abstractmethod
    def __len__(self) -> int:
        """How many files wait."""

    def layout(self, split: FileSplit) -> FileLayout:
        """What must be known to read the rows of a split that comes from a checkpoint."""
        return split.layout

    @abstractmethod
    def snapshot(self) -> StateT:
        """The checkpoint of the backlog; equal to the one before if no file was taken."""
