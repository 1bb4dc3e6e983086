"""The backlog of a Delta table: first the files of a snapshot, then the files that later commits add."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from flip27_stream.connectors.files.backlog.backlog import NO_TIME, Backlog, BacklogFile, ReadingQueue
from flip27_stream.connectors.files.backlog.processed_files import Frontier, OrderKey
from flip27_stream.connectors.files.delta.delta_changes import is_read
from flip27_stream.connectors.files.delta.delta_columns import ReadColumns
from flip27_stream.connectors.files.delta.delta_commit import Commit, DataFile
from flip27_stream.connectors.files.delta.delta_log import DeltaLog, TableState
from flip27_stream.connectors.files.delta.delta_state import DeltaStart, DeltaState
from flip27_stream.connectors.files.delta.delta_times import parse_time
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.errors import DataLossError, Flip27Error, OptionError

log = logging.getLogger(__name__)

_PROVEN_S = 60.0
"""The time (s) between two full listings of the log, which find a later version even if the next version is lost."""


@dataclass(frozen=True)
class Generation:
    """Files that are read together, in one order: those of a snapshot, or of the commits between two versions.

    Attributes:
        after: The version after which the files were added; -1 for a snapshot.
        until: The last version that added files.
        files: The files that are not processed yet.
        by: The event-time column by which the files are ordered; ``None`` for the order of modification time.
    """

    after: int
    until: int
    files: Sequence[BacklogFile] = field(default=(), repr=False)
    by: str | None = None


class LastReadVersion(NamedTuple):
    """The last version of the log that was read.

    Attributes:
        version: The number of the version.
        mark: The first bytes of its commit file, which differ between tables; ``None`` if the file is gone.
    """

    version: int
    mark: bytes | None


class DeltaFiles(Backlog[list[Generation], DeltaState]):
    """The data files of a Delta table, in the order of their least event time or of their modification time.

    One generation is read after the other: first the snapshot, then the files that were added meanwhile.

    Args:
        delta: The log of the table.
        statistics: Reads event times that the log does not have.
        state: The checkpoint to continue from.
        start: The version to begin with, and the rules for commits that change rows.
        order: The order by event time; ``None`` for the order of modification time.
        columns: The columns that the query reads; ``None`` to compare no columns.
        bounded: Whether only the versions of the first look of the query are read, also after a restart.
        fail_on_data_loss: Whether to fail, not only to warn, if versions to be read are no longer in the log.
    """

    def __init__(
        self,
        delta: DeltaLog,
        statistics: FileStatistics,
        state: DeltaState,
        start: DeltaStart | None = None,
        order: EventTimeOrder | None = None,
        columns: ReadColumns | None = None,
        *,
        bounded: bool = False,
        fail_on_data_loss: bool = True,
    ) -> None:
        self._delta = delta
        self._statistics = statistics
        self._state = state
        self._start = start or DeltaStart()
        self._order = order
        self._columns = columns
        self._bounded = bounded
        self._fail_on_data_loss = fail_on_data_loss
        self._table = state.table
        self._mapping = state.columns
        self._first_seen = -1
        self._last_read: LastReadVersion | None = None
        self._proven = 0.0
        self._queue = ReadingQueue()
        self._next: deque[Generation] = deque()

    # ---- in a worker thread ---------------------------------------------------------------------------------------

    def look(self) -> list[Generation] | None:
        before = self._last_read
        found = self._first_look() if before is None else self._added_since(before)
        last_read = self._as_last_read(found[-1].until) if found else before
        if before is None or not self._is_there(before) or (not found and self._is_doubtful()):
            now = self._same_table()  # The commits that were read since the last look belong to this table.
            if before is not None and not found:
                found = self._added_from(before.version, now)
                last_read = self._as_last_read(found[-1].until if found else before.version)
            self._proven = monotonic()
        self._last_read = last_read
        return found or None

    def _added_since(self, last_read: LastReadVersion) -> list[Generation]:
        try:
            return self._added_after(last_read.version)
        except Flip27Error:
            if not self._is_there(last_read):
                self._same_table()  # If the table was replaced, this error is reported instead.
            raise

    def _is_doubtful(self) -> bool:
        """Returns whether the last full listing of the log was ``_PROVEN_S`` ago or earlier."""
        return monotonic() - self._proven >= _PROVEN_S

    def _as_last_read(self, version: int) -> LastReadVersion:
        return LastReadVersion(version, self._delta.mark(version))

    def _is_there(self, last_read: LastReadVersion) -> bool:
        """Returns whether the log still has the commit that was read last.

        Raises:
            DataLossError: The log has another commit with that version.
        """
        mark = self._delta.mark(last_read.version)
        if None not in (mark, last_read.mark) and mark != last_read.mark:
            raise self._delta.is_another()
        return mark is not None and mark == last_read.mark

    def _same_table(self) -> TableState:
        """Returns the present state of the table.

        Raises:
            DataLossError: The table was replaced by another one.
        """
        now = self._delta.state()
        if self._table not in (None, now.table):
            raise self._delta.is_another()
        self._table = now.table
        return now

    def _first_look(self) -> list[Generation]:
        """Returns the first generation; after a restart, that of the checkpoint and those of later versions."""
        now, state = self._same_table(), self._state
        self._first_seen = now.version
        self._read_by(now)
        last = state.through if state.until is None else state.until
        if last >= 0:
            begun = [] if state.until is None else [self._generation(state.through, state.until)]
            later = [] if self._bounded else self._added_from(last, now)
            return [*begun, *later] or [Generation(last, last)]
        first = self._first_version(now)
        if first is not None:
            return self._added_from(first - 1, now) or [Generation(first - 1, first - 1)]
        table, files = self._delta.snapshot(None, self._column(), self._mapping)
        if table.version > now.version and self._columns is not None:
            self._columns.check_commit(table.columns, self._mapping, self._what, is_later=True)
        return [self._made(-1, table.version, files)]

    def _read_by(self, now: TableState) -> None:
        """Sets the column mapping by which files are read.

        Raises:
            SchemaChangedError: The query cannot read the columns of the table.
        """
        if self._columns is not None:
            self._mapping = self._columns.mapping(now.columns, self._state.columns, self._what)

    @property
    def _what(self) -> str:
        return f"The Delta table {self._delta.uri}"

    def _first_version(self, now: TableState) -> int | None:
        """Returns the first version whose added files are read, or ``None`` to read a snapshot first."""
        start = self._start
        if start.latest:
            return now.version + 1
        if start.timestamp is not None:
            return self._delta.version_at(parse_time(start.timestamp, "startingTimestamp"))
        if start.version is not None and start.version > now.version + 1:
            raise OptionError.of(
                "startingVersion", start.version, f"The table's latest version is {now.version}."
            )
        return start.version

    def _added_from(self, version: int, now: TableState) -> list[Generation]:
        """Returns the files that versions after ``version`` added. Some of the versions may be gone from the log."""
        if now.version < version:
            raise self._delta.is_another()
        return self._added_after(self._kept_after(version, now.version))

    def _added_after(self, version: int) -> list[Generation]:
        """Returns the files that versions after ``version`` added."""
        commits = list(self._delta.commits(version))
        if not commits:
            return []
        files = [file for commit in commits for file in self._new_files(commit)]
        return [self._made(version, commits[-1].version, files)]

    def _generation(self, after: int, until: int) -> Generation:
        """Returns the generation between two versions of the checkpoint."""
        if after < 0 and self._begins_with_snapshot:
            return self._made(after, until, self._snapshot(until))
        begun = self._delta.commits(self._kept_after(after, until))
        commits = takewhile(lambda commit: commit.version <= until, begun)
        files = [file for commit in commits for file in self._new_files(commit)]
        return self._made(after, until, files)

    def _snapshot(self, version: int) -> Sequence[DataFile]:
        """Returns the files of the snapshot that the checkpoint names."""
        try:
            return self._delta.snapshot(version, self._column(), self._mapping)[1]
        except DataLossError as error:
            self._lose(error)
            return ()

    def _kept_after(self, version: int, latest: int) -> int:
        """Returns ``version``; or, if the commits after it were deleted from the log, the last deleted version."""
        if version >= latest or (first := self._delta.files.first_after(version)) == version + 1:
            return version
        last = latest if first is None else min(first - 1, latest)
        self._lose(self._delta.versions_are_gone(version + 1, last))
        return last

    def _lose(self, error: DataLossError) -> None:
        if self._fail_on_data_loss:
            raise error
        log.warning("Rows of a Delta table are skipped, because option 'failOnDataLoss' is false: %s", error)

    def _made(self, after: int, until: int, files: Sequence[DataFile]) -> Generation:
        order = self._order
        return Generation(after, until, self._waiting(files, order), _name(order))

    @property
    def _begins_with_snapshot(self) -> bool:
        start = self._start
        return start.version is None and start.timestamp is None and not start.latest

    def _new_files(self, commit: Commit) -> Sequence[DataFile]:
        """Returns the files to read of a commit.

        Raises:
            DataLossError: See :func:`is_read`; or the commit belongs to another table.
            SchemaChangedError: The query cannot read all columns of the commit.
        """
        if commit.table not in (None, self._table):
            raise self._delta.is_another()
        if commit.columns is not None and self._columns is not None:
            what = f"Version {commit.version} of the Delta table {self._delta.uri}"
            is_later = commit.version > self._first_seen
            self._columns.check_commit(commit.columns, self._mapping, what, is_later=is_later)
        return (
            self._delta.added(commit, self._mapping) if is_read(commit, self._start, self._delta.uri) else ()
        )

    def _waiting(self, files: Sequence[DataFile], order: EventTimeOrder | None) -> list[BacklogFile]:
        if order is None:
            return [BacklogFile(one.file, None, (one.file.modified, one.name), one.layout) for one in files]
        unknown = [one.file.path for one in files if not one.known]
        read = self._statistics.least(unknown, order, _layouts(files))
        least = [one.least if one.known else read.get(one.file.path) for one in files]
        return [
            BacklogFile(one.file, time, _key(one.name, time), one.layout)
            for one, time in zip(files, least, strict=True)
        ]

    def _column(self) -> str | None:
        return self._order.assigner.column if self._order is not None else None

    # ---- in the planning thread -----------------------------------------------------------------------------------

    def take_in(self, look: list[Generation]) -> None:
        begun = self._state.until is not None and not self._queue and not self._next
        self._next.extend(self._in_order(one) for one in look)
        if begun:
            generation = self._next.popleft()
            processed = self._processed_before(generation.files)
            self._queue = ReadingQueue(one for one in generation.files if one.name not in processed)
            self._switch_order()
        self._advance()

    def _processed_before(self, files: Sequence[BacklogFile]) -> set[str]:
        """Returns the names of the processed files in the generation of the checkpoint."""
        processed: set[str] = set()
        for frontier in self._state.frontiers:
            keys = self._keys(files, frontier.by)
            if frontier.last is not None:
                processed |= {p for p, key in keys.items() if key is None or key <= frontier.last}
        return processed

    def _keys(self, files: Sequence[BacklogFile], by: str | None) -> Mapping[str, OrderKey | None]:
        """Returns each file's place in reading order, by its name; ``None`` if the file is unreadable and skipped."""
        if by is None:
            return {one.name: (one.file.modified, one.name) for one in files}
        known: dict[str, OrderKey | None] = {}
        if self._order is not None and by == self._order.name:
            order = self._order
            known = {one.name: one.key for one in files if one.least is not None}
        else:
            order = self._statistics.order_named(by)
        others = {one.name: one.file.path for one in files if one.name not in known}
        least = self._statistics.surely_least(list(set(others.values())), order, _layouts(files))
        return {
            **known,
            **{name: _key(name, least[path]) if path in least else None for name, path in others.items()},
        }

    def _switch_order(self) -> None:
        by = _name(self._order)
        if self._state.frontiers and self._state.frontiers[-1].by != by:
            self._state = replace(self._state, frontiers=(*self._state.frontiers, Frontier(by)))

    def _advance(self) -> None:
        """Begins the next generation if all files of the present one are processed."""
        by = _name(self._order)
        while not len(self._queue) and (self._next or self._state.until is not None):
            if self._state.until is not None:
                self._state = DeltaState(through=self._state.until)
            if self._next:
                generation = self._next.popleft()
                self._queue = ReadingQueue(generation.files)
                if generation.files:
                    self._state = DeltaState(generation.after, generation.until, (Frontier(by),))
                elif generation.until > self._state.through:
                    self._state = DeltaState(through=generation.until)

    def order_by(self, order: EventTimeOrder) -> None:
        self._order = order
        self._queue = ReadingQueue(self._ordered(self._queue))
        self._next = deque(self._in_order(one) for one in self._next)
        self._switch_order()

    def _in_order(self, one: Generation) -> Generation:
        """Returns the generation in the present order, which may have changed while the look ran."""
        by = _name(self._order)
        return one if one.by == by else replace(one, files=self._ordered(one.files), by=by)

    def _ordered(self, files: Iterable[BacklogFile]) -> list[BacklogFile]:
        return self._waiting([DataFile(one.file, one.layout) for one in files], self._order)

    @property
    def order(self) -> EventTimeOrder | None:
        return self._order

    def head(self) -> BacklogFile | None:
        return self._queue.head()

    def first(self, count: int) -> list[BacklogFile]:
        return self._queue.first(count)

    def move(self, one: BacklogFile, least: int) -> None:
        self._queue.add(one._replace(least=least, key=_key(one.name, least)))

    def take(self, one: BacklogFile) -> None:
        self._queue.discard(one.name)
        *before, active = self._state.frontiers
        self._state = replace(self._state, frontiers=(*before, active.moved(one.key)))
        self._advance()

    def least(self) -> int | None:
        first = self._queue.first_timed()
        return first.least if first is not None else None

    def __len__(self) -> int:
        return len(self._queue) + sum(len(one.files) for one in self._next)

    def layout(self, split: FileSplit) -> FileLayout:
        return split.layout._replace(columns=self._mapping)

    def snapshot(self) -> DeltaState:
        return replace(self._state, table=self._table, columns=self._mapping)


def _key(name: str, least: int | None) -> OrderKey:
    return (NO_TIME if least is None else least), name


def _name(order: EventTimeOrder | None) -> str | None:
    return order.name if order is not None else None


def _layouts(files: Iterable[DataFile | BacklogFile]) -> Mapping[str, FileLayout]:
    return {one.file.path: one.layout for one in files}
