"""The units of the files that are read next. They are read in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from flip27_stream.connectors.files.backlog.backlog import BacklogFile
from flip27_stream.connectors.files.formats.file_format import written_anew
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.storage.found_file import FoundFile

_AT_FIRST: Final = 16
_MOST: Final = 1024

FileVersion = tuple[FoundFile, str]
"""A file as it was listed, and its name, which includes its deletion vector."""

Found = Mapping[FileVersion, FileUnits]


class UnitsAhead:
    """Reads the units of many files at once, because each read from an object store has a latency.

    Args:
        statistics: Reads the units of files.
    """

    def __init__(self, statistics: FileStatistics) -> None:
        self._statistics = statistics
        self._found: dict[FileVersion, FileUnits] = {}
        self._order: EventTimeOrder | None = None
        self._at_once = _AT_FIRST

    def begin(self, order: EventTimeOrder | None) -> None:
        """Begins a plan. The known units are dropped if the order has changed."""
        if order != self._order:
            self._order = order
            self._found = {}
        self._at_once = _AT_FIRST

    def of(self, head: BacklogFile, following: Callable[[int], Iterable[BacklogFile]]) -> FileUnits:
        """Returns the units of ``head``. If they are unknown, it also reads those of the files that follow.

        The number of files read at once doubles with each call within a plan.

        Args:
            head: The next file.
            following: Returns the next files of the backlog; its argument is their number.

        Raises:
            DataLossError: The file was truncated since it was listed; it may be rewritten at the moment.
            Flip27Error: The file cannot be read.
        """
        if _version(head) not in self._found:
            self._found.update(self.look(following(self._at_once)))
            self._at_once = min(2 * self._at_once, _MOST)
        units = self._found.get(_version(head))
        if units is None:
            units = self._statistics.units(head.file.path, self._order, head.layout)
        if not units.end and not self._statistics.format.positions_are_rows:  # Empty files are not listed.
            self._found.pop(_version(head), None)
            raise written_anew(f"file {head.file.path}", f"had {head.file.size} bytes", "has none")
        return units

    def look(self, files: Iterable[BacklogFile]) -> Found:
        """Returns the units of files, without those that are known or cannot be read. It can run in a worker thread."""
        unknown = {
            _version(one): (one.file.path, one.layout) for one in files if _version(one) not in self._found
        }
        return self._statistics.units_of(unknown, self._order)

    def keep(self, files: Iterable[BacklogFile], found: Found, order: EventTimeOrder | None) -> None:
        """Keeps the units that :meth:`look` found, and drops the units of other files.

        Args:
            files: The files whose units are kept.
            found: The result of :meth:`look`.
            order: The order when :meth:`look` was called. If it has changed since, nothing is kept.
        """
        if order == self._order:
            known = {**self._found, **found}
            wanted = map(_version, files)
            self._found = {one: known[one] for one in wanted if one in known}


def _version(one: BacklogFile) -> FileVersion:
    return one.file, one.name
