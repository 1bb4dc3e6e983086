"""Units of the files that are read next, which are read in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from flip27_stream.connectors.files.backlog.backlog import Waiting
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.formats.units import FileUnits
from flip27_stream.connectors.files.storage.found_file import FoundFile

_AT_FIRST: Final = 16
_MOST: Final = 1024

FileVersion = tuple[FoundFile, str]
"""A file as it was listed, and its name with the rows that are deleted in it."""

Found = Mapping[FileVersion, FileUnits]


class UnitsAhead:
    """Reads units of many files at once, because every read from an object store takes time.

    Args:
        statistics: reads them.
    """

    def __init__(self, statistics: FileStatistics) -> None:
        self._statistics = statistics
        self._found: dict[FileVersion, FileUnits] = {}
        self._order: EventTimeOrder | None = None
        self._at_once = _AT_FIRST

    def begin(self, order: EventTimeOrder | None) -> None:
        """Begin a plan; units are dropped if the order has changed."""
        if order != self._order:
            self._order = order
            self._found = {}
        self._at_once = _AT_FIRST

    def of(self, head: Waiting, following: Callable[[int], Iterable[Waiting]]) -> FileUnits:
        """The units of ``head``; if they must be looked for, also those of the files ``following`` it, of more and more
        in the same plan.

        Raises:
            Flip27Error: the file cannot be read.
        """
        if _version(head) not in self._found:
            self._found.update(self.look(following(self._at_once)))
            self._at_once = min(2 * self._at_once, _MOST)
        if _version(head) not in self._found:
            return self._statistics.units(head.file.path, self._order, head.layout)
        return self._found[_version(head)]

    def look(self, files: Iterable[Waiting]) -> Found:
        """The units of files, but for those that are known or cannot be read; also in a worker thread."""
        unknown = {
            _version(one): (one.file.path, one.layout) for one in files if _version(one) not in self._found
        }
        return self._statistics.units_of(unknown, self._order)

    def keep(self, files: Iterable[Waiting], found: Found, order: EventTimeOrder | None) -> None:
        """What :meth:`look` found while the order was ``order``; what is known of other files than these is dropped."""
        if order == self._order:
            known = {**self._found, **found}
            wanted = map(_version, files)
            self._found = {one: known[one] for one in wanted if one in known}


def _version(one: Waiting) -> FileVersion:
    return one.file, one.name
