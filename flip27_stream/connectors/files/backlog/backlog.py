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
"""Comes before every event time: a file that has none is read when it is found."""

LookT = TypeVar("LookT")
StateT = TypeVar("StateT")


class Waiting(NamedTuple):
    """A file of the backlog.

    Attributes:
        file: the file.
        least: its least event time (ms); ``None`` where it has none, or order is by modification time.
        key: its place in the order.
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
    """Files in reading order; any of them can be discarded."""

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
        """Take in a file, or give one another place."""
        self._waiting[one.name] = one
        (self._timeless if one.key[0] == NO_TIME else self._timed).add(one.key)

    def discard(self, name: str) -> Waiting | None:
        """Leave a file out."""
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
    """Keys from the least to the greatest. What is added is sorted in when somebody asks: a list nearly sorted is cheap
    to sort, and unlike a heap tells which come next."""

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
    """Finds files, and knows which were taken.

    Looking happens in a worker thread, all else in the planning thread; the first look is waited for, and taken in
    before anything is asked.
    """

    @abstractmethod
    def look(self) -> LookT | None:
        """See what is new, the first time all there is; ``None`` if it is too early, or nothing can be said.

        Where nothing could be said the first time, the next look is the first one.
        """

    @abstractmethod
    def take_in(self, look: LookT) -> None:
        """What was seen belongs to the backlog from now on."""

    @property
    def is_complete(self) -> bool:
        """Whether the looks that were taken in prove what there is. Before that a bounded source must not end."""
        return True

    @abstractmethod
    def order_by(self, order: EventTimeOrder) -> None:
        """Order by event time from now on, not by modification time."""

    @property
    @abstractmethod
    def order(self) -> EventTimeOrder | None:
        """The order by event time, or ``None``."""

    @abstractmethod
    def head(self) -> Waiting | None:
        """The file that is to be read next; ``None`` if none can be taken now."""

    @abstractmethod
    def first(self, count: int) -> list[Waiting]:
        """The files that are read next, as many as ``count``; more may be told than can be taken now."""

    @abstractmethod
    def move(self, one: Waiting, least: int) -> None:
        """The head has an event time (ms), which could not be read when it was found; it gets the place of that."""

    @abstractmethod
    def take(self, one: Waiting) -> None:
        """The head is assigned, or left out for good."""

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
        """What a restart needs to know; equal while no file was taken."""
