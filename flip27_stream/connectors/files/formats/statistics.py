"""Statistics of files, known before the rows are read: units (independent parts), event times, numbers of rows."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from flip27_stream.api import TimestampAssigner
from flip27_stream.arrow_columns import numbers_of
from flip27_stream.connectors.files.formats.event_times import (
    GreatestPlausibleTime,
    TimeRange,
    event_time_columns,
)
from flip27_stream.connectors.files.formats.file_format import FileFormat
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.rows import read_rows
from flip27_stream.connectors.files.formats.schemas import constants
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.layout.file_layout import PLAIN, FileLayout, Partition
from flip27_stream.connectors.files.local_files import opened_ahead
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.tolerance import UNREADABLE, Tolerance
from flip27_stream.errors import OptionError, shortened
from flip27_stream.event_time.assigners import ColumnTimestampAssigner
from flip27_stream.reader import Records
from flip27_stream.threads import of_each

_THREADS, _CHUNK = 24, 8
_OPENED_AHEAD = 64
_WAITING = 8
"""The ratio of elapsed time to processor time of a read from which on many threads read statistics at once. Below it
the threads would only wait for each other.
"""

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class EventTimeOrder:
    """An order of files by event time.

    Attributes:
        name: The name of the order in checkpoints.
        assigner: Returns the event times of rows.
    """

    name: str
    assigner: TimestampAssigner

    @staticmethod
    def of(assigner: TimestampAssigner) -> EventTimeOrder:
        """Returns the order by the event times of an assigner.

        Raises:
            OptionError: The assigner has no name that stays the same after a restart.
        """
        name = assigner.column or _lasting_name(assigner)
        if name is None:
            raise OptionError(
                f"The timestamp assigner {shortened(repr(assigner))} has another name in every process, so a "
                "restart could not detect that the order of files is the same. Give its class a __repr__ with its "
                "parameters, as dataclasses have."
            )
        return EventTimeOrder(name, assigner)


def _lasting_name(assigner: TimestampAssigner) -> str | None:
    kind = type(assigner)
    by_default = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    fields = getattr(assigner, "__dict__", None) or ""
    name = f"{kind.__module__}.{kind.__qualname__}({fields})" if by_default else str(assigner)
    return None if _ADDRESS.search(name) else name


@dataclass(frozen=True)
class FileStatistics:
    """Reads statistics of files.

    Attributes:
        storage: The file system of the files.
        format: The format of the files.
        schema: The columns that the query reads.
        count_rows: Whether to count rows also in files whose positions are byte offsets.
        tolerance: The rule for files that cannot be read.
    """

    storage: Storage
    format: FileFormat
    schema: pa.Schema
    count_rows: bool = False
    tolerance: Tolerance = field(default_factory=Tolerance)

    def order_named(self, name: str) -> EventTimeOrder:
        """Returns the order by the column ``name``, which comes from a checkpoint.

        Raises:
            OptionError: The query does not read such a column.
        """
        if find_column(self.schema.names, name) is None:
            raise OptionError(
                f"The files of the checkpoint were read in the order of event time '{name}', which is not a "
                f"column of the query ({', '.join(self.schema.names)}), but is needed to find the unread files. "
                "Set option 'scan.watermark.event-time' as before, and read that column, until all files are read."
            )
        return EventTimeOrder(name, ColumnTimestampAssigner(name))

    def units(self, path: str, order: EventTimeOrder | None, layout: FileLayout = PLAIN) -> FileUnits:
        """Returns the units of a file, with their event times if there is an ``order``.

        Raises:
            Flip27Error: The errors of :class:`FileFormat`.
        """
        fs, format = self.storage.filesystem(), self._format_of(layout)
        column = order.assigner.column if order is not None else None
        constant = self._of_partition(path, column, layout.values)
        units = format.units(fs, path, column if constant is None else None)
        if constant is not None:
            units = _with(units, dict.fromkeys(range(len(units)), constant))
        elif order is not None and column is None:
            units = self._with_event_times(path, units, order.assigner, layout)
        if self.count_rows:
            units = format.with_row_counts(fs, path, units)
        if layout.deletion is not None:
            units = units.without(layout.deletion.deleted_rows(fs, path))
            if order is not None and column is not None and constant is None:
                units = self._of_rows_left(path, units, order.assigner, layout)
        return units

    def least(
        self, paths: Sequence[str], order: EventTimeOrder, layouts: Mapping[str, FileLayout] | None = None
    ) -> Mapping[str, int | None]:
        """Returns the least event time (ms) in each file, ``None`` if no row has one.

        Files that cannot be read are left out: without an event time they are assigned first, and reading them raises
        the error.

        Args:
            paths: The paths of the files.
            order: The order by event time.
            layouts: The layouts of the files, by path.

        Raises:
            ConnectorError: The file system refused access or did not answer.
        """

        def least(path: str) -> int | None:
            return self._least(path, order, given.get(path, PLAIN))

        def opened(path: str) -> str | None:
            in_folder = column is not None and _has_column(given.get(path, PLAIN).values, column)
            return None if in_folder else path

        given, column = layouts or {}, order.assigner.column
        return self._of_many(least, paths, opened)

    def surely_least(
        self, paths: Sequence[str], order: EventTimeOrder, layouts: Mapping[str, FileLayout] | None = None
    ) -> Mapping[str, int | None]:
        """Returns the results of :meth:`least`, for files whose place in the order decides whether they were read.

        Raises:
            Flip27Error: A file cannot be read, and such files are not skipped.
        """
        found = self.least(paths, order, layouts)
        for path in paths:
            if path not in found:
                try:
                    self._least(path, order, (layouts or {}).get(path, PLAIN))
                except UNREADABLE as error:
                    if not self.tolerance.allows(error):
                        raise
                    log.warning("The unread part of file %s is skipped: %s", path, error)
        return found

    def units_of(
        self, files: Mapping[K, tuple[str, FileLayout]], order: EventTimeOrder | None
    ) -> Mapping[K, FileUnits]:
        """Returns the :meth:`units` of many files, without those that cannot be read.

        Args:
            files: Path and layout of each file. The result has the same keys.
            order: The order by event time; ``None`` to read no event times.

        Raises:
            ConnectorError: The file system refused access or did not answer.
        """

        def units(key: K) -> FileUnits:
            return self.units(files[key][0], order, files[key][1])

        return self._of_many(units, list(files), lambda key: files[key][0])

    def _of_many(
        self, look: Callable[[K], T], keys: Sequence[K], opened: Callable[[K], str | None]
    ) -> dict[K, T]:
        """Returns the results of looks at many files, without those that cannot be read.

        Args:
            look: The function that looks at a file.
            keys: Its arguments, which are the keys of the result.
            opened: Returns the path of the file that ``look`` opens; ``None`` if it opens none.
        """

        def look_at(chunk: Sequence[K]) -> list[tuple[K, T]]:
            found = []
            for key in chunk:
                with suppress(*UNREADABLE):
                    found.append((key, look(key)))
            return found

        def open_and_look_at(chunk: Sequence[K]) -> list[tuple[K, T]]:
            with opened_ahead(self.storage.filesystem(), list(filter(None, map(opened, chunk)))):
                return look_at(chunk)

        began, worked = time.perf_counter(), time.thread_time()
        found = dict(look_at(keys[:1]))
        waits = time.perf_counter() - began > _WAITING * (time.thread_time() - worked)
        size = _CHUNK if waits else _OPENED_AHEAD
        chunks = [keys[i : i + size] for i in range(1, len(keys), size)]
        looks = of_each(look_at, chunks, _THREADS) if waits else map(open_and_look_at, chunks)
        found.update(one for some in looks for one in some)
        return found

    def _least(self, path: str, order: EventTimeOrder, layout: FileLayout) -> int | None:
        column = order.assigner.column
        if (constant := self._of_partition(path, column, layout.values)) is not None:
            return constant.least
        if column is None:
            return self.units(path, order, layout).least_event_time
        return self._format_of(layout).least_event_time(self.storage.filesystem(), path, column)

    def _format_of(self, layout: FileLayout) -> FileFormat:
        return self.format.of_layout(layout)

    def _of_partition(self, path: str, column: str | None, partition: Partition) -> TimeRange | None:
        """Returns the range of event times if ``column`` is a partition column; else ``None``."""
        if column is None or not _has_column(partition, column):
            return None
        fixed = constants(dict(partition), self.schema, f"{self.format.name} file {path}")
        index = find_column(list(fixed), column)
        return None if index is None else TimeRange.of_column(pa.array([list(fixed.values())[index]]))

    def greatest_plausible(
        self,
        path: str,
        start: int,
        end: int,
        plausible_until: int,
        order: EventTimeOrder,
        layout: FileLayout = PLAIN,
    ) -> GreatestPlausibleTime:
        """Reads the event times between two positions and returns the greatest up to ``plausible_until`` (ms).

        Raises:
            Flip27Error: The errors of :class:`FileFormat`.
        """
        found = GreatestPlausibleTime()
        for times in self._read_times(path, start, end, order.assigner, layout):
            found |= GreatestPlausibleTime.of_times(times, plausible_until)
        return found

    def _with_event_times(
        self, path: str, units: FileUnits, assigner: TimestampAssigner, layout: FileLayout
    ) -> FileUnits:
        """Returns the units with event times that are computed from rows, because the event time is not a column."""
        ranges = []
        for start, end in _pairs(units.borders):
            found = TimeRange(None, None)
            for times in self._read_times(path, start, end, assigner, layout):
                found |= TimeRange.of_column(times)
            ranges.append(found)
        return _with(units, dict(enumerate(ranges)))

    def _of_rows_left(
        self, path: str, units: FileUnits, assigner: TimestampAssigner, layout: FileLayout
    ) -> FileUnits:
        """Returns the units with the event times of the rows that are not deleted.

        Statistics include deleted rows, so the column is read instead.
        """
        assert units.rows is not None
        changed = np.flatnonzero((units.rows > 0) & (units.rows < np.diff(units.borders)))
        if not len(changed):
            return units
        found = dict.fromkeys(changed.tolist(), TimeRange(None, None))
        start, end = int(units.borders[changed[0]]), int(units.borders[changed[-1] + 1])
        for records in self._read_columns(path, start, end, assigner, layout):
            assert records.positions is not None
            times = assigner.event_times(records.rows, None)
            cuts = np.searchsorted(numbers_of(records.positions), units.borders)
            for unit, (first, stop) in enumerate(_pairs(cuts)):
                if unit in found and first < stop:
                    found[unit] |= TimeRange.of_column(times[first:stop])
        return _with(units, found)

    def _read_times(
        self, path: str, start: int, end: int, assigner: TimestampAssigner, layout: FileLayout
    ) -> Iterator[pa.Int64Array]:
        """Yields the event times (ms) of the rows between two positions."""
        for records in self._read_columns(path, start, end, assigner, layout):
            yield assigner.event_times(records.rows, None)

    def _read_columns(
        self, path: str, start: int, end: int, assigner: TimestampAssigner, layout: FileLayout
    ) -> Iterator[Records]:
        """Yields the rows between two positions, with only the event-time column if there is one."""
        wanted = self.schema
        if assigner.column is not None and (at := find_column(wanted.names, assigner.column)) is not None:
            wanted = pa.schema([wanted.field(at)])
        return read_rows(self.format, self.storage.filesystem(), path, start, end, wanted, layout)


def _has_column(partition: Partition, column: str) -> bool:
    """Returns whether ``column`` is a partition column, so that its values are not in the files."""
    return find_column([name for name, _ in partition], column) is not None


def _with(units: FileUnits, ranges: Mapping[int, TimeRange]) -> FileUnits:
    """Returns ``units`` with other event times for some units, by the number of the unit."""
    at = list(ranges)
    columns = {}
    for name, values in zip(("least", "greatest", "known"), event_time_columns(ranges.values()), strict=True):
        columns[name] = getattr(units, name).copy()
        columns[name][at] = values
    return replace(units, **columns)


def _pairs(borders: Iterable[int]) -> Iterable[tuple[int, int]]:
    return pairwise(int(border) for border in borders)
