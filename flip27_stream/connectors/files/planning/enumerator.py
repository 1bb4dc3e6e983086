"""The enumerator of files (Flink ``ContinuousFileSplitEnumerator``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from flip27_stream.api import (
    EventTimePositions,
    PositioningRequest,
    ReadLimits,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
    SupportsEventTimePositions,
)
from flip27_stream.connectors.files.backlog.backlog import Backlog, BacklogFile
from flip27_stream.connectors.files.backlog.processed_files import OrderKey
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.planning.budget import Budget
from flip27_stream.connectors.files.planning.enumerator_state import FilesState
from flip27_stream.connectors.files.planning.missing_files import FileMissingError
from flip27_stream.connectors.files.planning.opened_file import OpenedFile
from flip27_stream.connectors.files.planning.opened_files import OpenedFiles
from flip27_stream.connectors.files.planning.positions import FilePositions
from flip27_stream.connectors.files.planning.units_ahead import Found, UnitsAhead
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import ContractError

log = logging.getLogger(__name__)

_LATE_LOOK_MS = 1000
"""The delay (ms) before a bounded source looks again, if it has not found all of its files."""


@dataclass(frozen=True)
class EnumeratorOptions:
    """The options of the enumerator.

    Attributes:
        monitor_interval_ms: The interval (ms) at which new files are looked for; ``None`` for never.
        max_rows: The greatest number of rows of a micro-batch that has limits; ``None`` for no limit.
    """

    monitor_interval_ms: int | None = 1000
    max_rows: int | None = None


class FileSourceEnumerator(SplitEnumerator[FileSplit, FilesState], SupportsEventTimePositions):
    """The enumerator that finds files, assigns those of the next micro-batch, and retires those that are processed.

    How it works:

    1. :meth:`start` starts the first listing of files, for which the first plan waits, and further listings every
       ``source.monitor-interval``. If the first listing of a new query fails, the query fails at once; any other
       listing is tried again for a bounded time. Listings run in worker threads, and their results are added to the
       :class:`Backlog`.
    2. :meth:`admit` goes through the files that are partly read and the backlog, in reading order: by least event time
       if the query is aligned, otherwise by modification time. Until the limits are used up, it sets the end position
       of each file, and assigns the files that come from the backlog. So the offset has only the files of one or two
       batches.
    3. :meth:`split_ranges` returns these end positions.
    4. With alignment, :meth:`event_time_positions` divides files between units, and returns the least event time to
       come.
    5. :meth:`notify_checkpoint_complete` retires the files that are processed. The backlog remembers them.
    6. :meth:`snapshot_state` returns the checkpoint of the backlog. Its size is bounded for any number of files.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        backlog: Backlog[Any, Any],
        statistics: FileStatistics,
        options: EnumeratorOptions,
        *,
        bounded: bool,
        goes_on: bool = False,
    ) -> None:
        self._goes_on = goes_on
        self._context = context
        self._backlog = backlog
        self._statistics = statistics
        self._options = options
        self._bounded = bounded
        self._frozen = bounded
        self._has_looked = False
        self._retries = Retries()
        self._assigned_count = 0
        self._ahead = UnitsAhead(statistics)
        self._opened = OpenedFiles(context, backlog, statistics)
        self._positions: Mapping[str, int] = {}
        self._plausible_until: int | None = None
        self._ends: dict[str, int] = {}

    def start(self) -> None:
        look = self._look_with_retries if self._goes_on else self._backlog.look
        self._context.call_async(look, self._on_needed_look)
        period = self._options.monitor_interval_ms
        if not self._bounded and period is not None:
            self._context.call_async(self._look_again, self._on_look, period, period)

    def freeze(self) -> None:
        self._frozen = True

    def pending(self) -> int:
        """Returns the number of files in the backlog, at least 1 while files of a bounded source are missing."""
        return len(self._backlog) or int(self._bounded and not self._backlog.is_complete)

    def admit(self, limits: ReadLimits) -> None:
        self._ends = {}
        self._ahead.begin(self._backlog.order)
        new: dict[int, list[FileSplit]] = {}
        with suppress(FileMissingError):  # The files after it wait.
            self._fill(self._budget(limits), new)
        self._context.assign_splits(SplitsAssignment(new))
        self._assigned_count = sum(map(len, new.values()))
        if self._bounded and self._backlog.is_complete and not len(self._backlog):
            for subtask in self._context.registered_readers():
                self._context.signal_no_more_splits(subtask)

    def split_ranges(self, positions: Mapping[FileSplit, int | None]) -> Mapping[str, SplitRange]:
        ranges = {}
        for split, known in positions.items():
            position = known or 0
            end = max(self._ends.get(split.split_id, position), position)
            whole = end >= split.length
            ranges[split.split_id] = SplitRange(position, end, drained=whole, final=whole, limited=not whole)
        return ranges

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        order = EventTimeOrder.of(request.timestamp_assigner)
        if self._backlog.order is None or self._backlog.order.name != order.name:
            # The files of this plan were chosen in another order. Alignment holds them back until their event time.
            self._backlog.order_by(order)
            self._opened.files.clear()
            if request.ranges:  # Otherwise the assigned files that are not processed are unknown.
                with suppress(FileMissingError):  # The event times of the file are unknown in this plan.
                    self._opened.open_begun(self._positions)
        self._plausible_until = request.plausible_until
        opened = self._opened.files
        times = {n: opened[n].plausible(self._plausible_until) for n in request.ranges if n in opened}
        return FilePositions(times, request, self._least_to_come(request))

    def snapshot_state(self) -> FilesState:
        self._look_ahead()
        state: FilesState = self._backlog.snapshot()
        return state

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self._positions = positions
        done = [
            name
            for name, split in self._context.assigned_splits().items()
            if positions.get(name, -1) >= split.length
        ]
        self._context.retire_splits(done)
        for name in done:
            self._opened.files.pop(name, None)

    def close(self) -> None:
        self._retries.close()

    # ---- discovery ------------------------------------------------------------------------------------------------

    def _on_needed_look(self, look: Any, error: BaseException | None) -> None:
        """Adds the result of a listing to the backlog, and lists again while files of a bounded source are missing.

        A frozen source (``AvailableNow``) also looks again. An error ends the query.
        """
        if error is not None:
            raise error
        self._has_looked = True
        if look is not None:
            self._backlog.take_in(look)
        if self._bounded and not self._backlog.is_complete:
            self._context.call_async(self._look_with_retries, self._on_needed_look, _LATE_LOOK_MS)

    def _look_again(self) -> Any:
        return self._look_with_retries() if self._has_looked and not self._frozen else None

    def _look_with_retries(self) -> Any:
        return self._retries(self._backlog.look)

    def _on_look(self, look: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if look is not None and not self._frozen:
            self._backlog.take_in(look)

    def _look_ahead(self) -> None:
        """Reads the units of the next files in a worker thread while the planned micro-batch runs.

        It reads as many files as the last plan assigned.
        """
        following = self._backlog.first(self._assigned_count)
        self._assigned_count = 0
        order = self._backlog.order

        def keep(found: Found | None, error: BaseException | None) -> None:
            self._ahead.keep(following, found or {}, order)  # Errors are raised when the file is read.

        if following:
            self._context.call_async(lambda: self._ahead.look(following), keep)

    # ---- admission ------------------------------------------------------------------------------------------------

    def _fill(self, budget: Budget, new: dict[int, list[FileSplit]]) -> None:
        """Assigns files in reading order until the limits are used up.

        Raises:
            FileMissingError: The next file is missing.
            Flip27Error: The next file cannot be read.
        """
        begun = self._begun()
        ahead = next(begun, None)
        while not budget.spent:
            head = self._backlog.head()
            if ahead is not None and (head is None or ahead[0] < head.key):
                self._give(budget, ahead[1].split, ahead[1].units)
                ahead = next(begun, None)
            elif head is not None:
                self._take(head, budget, new)
                self._check_progress(head, budget)
            else:
                break

    def _budget(self, limits: ReadLimits) -> Budget:
        """Returns the limits of the micro-batch. Rows are limited only if files or bytes are."""
        limited = limits.max_files is not None or limits.max_bytes is not None
        rows = self._options.max_rows if limited else None
        exact = self._statistics.format.positions_are_rows
        return Budget(limits.max_files, limits.max_bytes, rows, exact_rows=exact)

    def _begun(self) -> Iterator[tuple[OrderKey, OpenedFile]]:
        """Returns the assigned files that are not processed to their end, in reading order."""
        by_event_time = self._backlog.order is not None
        rest = []
        for name, position in self._opened.open_begun(self._positions):
            opened = self._opened.files[name]
            rest.append((opened.key(position, self._plausible_until, by_event_time=by_event_time), opened))
        rest.sort(key=lambda one: one[0])
        return iter(rest)

    def _take(self, head: BacklogFile, budget: Budget, new: dict[int, list[FileSplit]]) -> None:
        """Assigns the next file of the backlog if the limits allow a part of it; otherwise leaves it in the backlog."""
        if self._is_in_offset(head):
            log.warning(
                "File %s has come back unchanged after it was read; it is not read again", head.file.path
            )
            self._backlog.take(head)
            return
        units = self._opened.units(head.file.path, lambda: self._ahead.of(head, self._backlog.first))
        if units is None or not units.end:
            self._backlog.take(head)
            return
        if self._backlog.order is not None and head.least is None and units.least_event_time is not None:
            # The event time was unknown when the file was listed.
            self._backlog.move(head, units.least_event_time)
            return
        split = head.split(units.end)
        if self._give(budget, split, units):
            self._backlog.take(head)
            self._opened.add(split, units)
            reader_id = crc32(split.path.encode()) % self._context.current_parallelism()
            new.setdefault(reader_id, []).append(split)

    def _is_in_offset(self, one: BacklogFile) -> bool:
        """Returns whether the offset has a split of a file, which is assigned or was retired after that offset."""
        name = one.split(0).split_id
        return name in self._positions or name in self._context.assigned_splits()

    def _check_progress(self, head: BacklogFile, budget: Budget) -> None:
        """Checks that the file was assigned or moved, unless the limits are used up.

        Raises:
            ContractError: The file is still the next one.
        """
        if not budget.spent and self._backlog.head() == head:
            raise ContractError(
                f"File {head.file.path} ({head.file.size} bytes, modified {head.file.modified}) is the next file to "
                "read, but was neither assigned nor moved. This is an error in flip27-stream: report it. "
                "Nothing is lost; to go on, start the query again."
            )

    def _give(self, budget: Budget, split: FileSplit, units: FileUnits) -> bool:
        """Sets the end position of a file, and returns whether the batch reads a part of it."""
        position = self._positions.get(split.split_id, 0)
        end = budget.end(units, position)
        if end > position:
            self._ends[split.split_id] = end
        return end > position

    # ---- event time -----------------------------------------------------------------------------------------------

    def _least_to_come(self, request: PositioningRequest) -> int | None:
        """Returns the least event time (ms) that is still to be read.

        It is that of the backlog and of the parts of assigned files that the limits leave out.
        """
        rests = []
        for name, opened in self._opened.files.items():
            r = request.ranges.get(name)
            position = self._positions.get(name, 0) if r is None else max(r.position, self._ends.get(name, 0))
            if position < opened.split.length:
                times = opened.times.plausible(request.plausible_until)
                rests.append(times.from_position(position).first)
        known = [time for time in (self._backlog.least(), *rests) if time is not None]
        return min(known, default=None)
