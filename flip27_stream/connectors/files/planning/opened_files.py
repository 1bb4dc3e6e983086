"""The files that planning has opened: they are assigned, and their units are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flip27_stream.api import SplitEnumeratorContext
from flip27_stream.connectors.files.backlog.backlog import Backlog
from flip27_stream.connectors.files.formats.event_times import GreatestPlausibleTime
from flip27_stream.connectors.files.formats.file_format import written_anew
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.planning.missing_files import MissingFiles
from flip27_stream.connectors.files.planning.opened_file import OpenedFile
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.tolerance import UNREADABLE
from flip27_stream.errors import DataLossError, UnreachableError


class OpenedFiles:
    """The assigned files whose units are known.

    Files that cannot be read are skipped if the options of the source say so. Missing files are tried again for a
    bounded time.

    Attributes:
        files: The opened files by split id.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        backlog: Backlog[Any, Any],
        statistics: FileStatistics,
    ) -> None:
        self.files: dict[str, OpenedFile] = {}
        self._context = context
        self._backlog = backlog
        self._statistics = statistics
        self._missing = MissingFiles()

    def open_begun(self, positions: Mapping[str, int]) -> list[tuple[str, int]]:
        """Returns the ids and positions of assigned files that are not processed to their end, and opens these files.

        Args:
            positions: The positions up to which files are processed, by split id.

        Raises:
            FileMissingError: A file is missing.
            Flip27Error: A file cannot be read. If unreadable files are skipped, its split is retired, without an error.
        """
        splits = self._context.assigned_splits()
        begun = [(n, at) for n, s in splits.items() if (at := positions.get(n, 0)) < s.length]
        closed = [splits[n] for n, _ in begun if n not in self.files]
        order = self._backlog.order
        found = self._units_of(closed, order) if closed else {}
        for split in closed:
            look = partial(self._statistics.units, split.path, order, self._backlog.layout(split))
            units = found.get(split.split_id) or self.units(split.path, look)
            if units is None or self._was_replaced(split, units):
                self._context.retire_splits([split.split_id])
            else:
                self.add(split, units)
        return [one for one in begun if one[0] in self.files]

    def units(self, path: str, look: Callable[[], FileUnits]) -> FileUnits | None:
        """Returns the units of a file, or ``None`` if the file is skipped.

        Raises:
            FileMissingError: The file is missing.
            Flip27Error: The file cannot be read.
        """
        try:
            units = look()
            self._missing.found(path)
            return units
        except UnreachableError as error:
            self._missing.note(path, error)
            raise
        except UNREADABLE as error:
            tolerance = self._statistics.tolerance
            if isinstance(error, DataLossError) and not tolerance.missing:
                self._missing.note(path, error)
            tolerance.skip(path, error, self._context.metric_group())
            return None

    def add(self, split: FileSplit, units: FileUnits) -> None:
        """Adds a file with the units that were read."""
        order, statistics, layout = self._backlog.order, self._statistics, self._backlog.layout(split)

        def look(start: int, end: int, plausible_until: int) -> GreatestPlausibleTime:
            assert order is not None
            return statistics.greatest_plausible(split.path, start, end, plausible_until, order, layout)

        self.files[split.split_id] = OpenedFile(split, units, look)

    def _units_of(self, splits: Sequence[FileSplit], order: EventTimeOrder | None) -> Mapping[str, FileUnits]:
        """Returns the units of files, by split id, without files that cannot be read.

        Raises:
            FileMissingError: The storage does not answer.
            ConnectorError: The storage refused access, or has not answered for too long.
        """
        try:
            files = {one.split_id: (one.path, self._backlog.layout(one)) for one in splits}
            found = self._statistics.units_of(files, order)
        except UnreachableError as error:
            self._missing.note(splits[0].path, error)
            raise
        for one in splits:
            if one.split_id in found:
                self._missing.found(one.path)
        return found

    def _was_replaced(self, split: FileSplit, units: FileUnits) -> bool:
        """Returns whether another file is in the place of a begun one, and is skipped.

        Raises:
            DataLossError: Such files are not skipped.
        """
        if units.end == split.length:
            return False
        was, is_now = f"ended at position {split.length}", f"ends at position {units.end}"
        error = written_anew(f"file {split.path}", was, is_now)
        self._statistics.tolerance.skip(split.path, error, self._context.metric_group())
        return True
