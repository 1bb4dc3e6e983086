"""The backlog of a Delta table: first a snapshot, then what commits add."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from flip27_stream.connectors.files.backlog import NO_TIME, Backlog, ReadingQueue, Waiting
from flip27_stream.connectors.files.delta_log import Commit, DataFile, DeltaLog, parse_time
from flip27_stream.connectors.files.seen import Frontier, OrderKey
from flip27_stream.connectors.files.split import Partition
from flip27_stream.connectors.files.statistics import EventTimeOrder, FileStatistics
from flip27_stream.errors import DataLossError, OptionError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaStart:
    """Where reading begins, and what becomes of commits that do not only add rows.

    Attributes:
        version: read only what this version and later ones added; ``None`` for a snapshot first.
        latest: read only what is added from now on.
        timestamp: begin with the first version that was committed then or later.
        ignore_deletes: commits that only remove rows are passed over.
        ignore_changes: what commits add that also remove rows is read, rows that were there before included.
        skip_change_commits: commits that remove rows are passed over, with what they add.
    """

    version: int | None = None
    latest: bool = False
    timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False


@dataclass(frozen=True)
class DeltaState:
    """The checkpoint of :class:`DeltaFiles`: the log knows all the rest.

    Attributes:
        through: all that versions up to this one added was taken; -1 for nothing yet.
        until: the version up to which is being read; the snapshot of it, if ``through`` is -1.
        frontiers: how far the files that are being read were taken, in their order.
        table: tells the table from one that is made later in its place; ``None`` before the first look.
    """

    through: int = -1
    until: int | None = None
    frontiers: tuple[Frontier, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Generation:
    """Files that are read in one order.

    Attributes:
        after: the version behind which they were added; -1 for a snapshot.
        until: the version up to which they were.
        files: those that were not taken yet.
        by: the event-time column whose order the files know their places in; ``None`` for modification time.
    """

    after: int
    until: int
    files: Sequence[Waiting] = field(default=(), repr=False)
    by: str | None = None


class DeltaFiles(Backlog[list[Generation], DeltaState]):
    """Data files of a Delta table, in the order of least event time, or of modification time.

    One generation is read after the other: the snapshot, then what was added meanwhile.

    Args:
        delta: the table's log.
        statistics: reads event times that the log does not tell.
        state: where to go on.
        start: where to begin, and what becomes of changes.
        order: how event time is found; ``None`` for the order of modification times.
    """

    def __init__(
        self,
        delta: DeltaLog,
        statistics: FileStatistics,
        state: DeltaState,
        start: DeltaStart | None = None,
        order: EventTimeOrder | None = None,
    ) -> None:
        self._delta = delta
        self._statistics = statistics
        self._state = state
        self._start = start or DeltaStart()
        self._order = order
        self._table = state.table
        self._seen_version: int | None = None
        self._queue = ReadingQueue()
        self._next: deque[Generation] = deque()

    # ---- in a worker thread ---------------------------------------------------------------------------------------

    def look(self) -> list[Generation] | None:
        before = self._seen_version
        if before is None:
            table = self._delta.table_id()
            if self._table not in (None, table):
                raise self._delta.is_another()
            self._table = table
        found = self._first_look() if before is None else self._added_after(before)
        if found:
            self._seen_version = found[-1].until
        return found or None

    def _first_look(self) -> list[Generation]:
        """What the checkpoint says is being read, and all that came after it."""
        state = self._state
        if state.until is not None:
            begun = self._generation(state.through, state.until)
            return [begun, *self._added_after(state.until, first=True)]
        if state.through >= 0:
            return self._begin_after(state.through)
        first = self._first_version()
        if first is not None:
            return self._begin_after(first - 1)
        version, files = self._delta.snapshot(None, self._column())
        return [self._made(-1, version, files)]

    def _first_version(self) -> int | None:
        """The first version whose additions are read; ``None`` for a snapshot."""
        start = self._start
        if start.latest:
            return self._delta.latest_version() + 1
        if start.timestamp is not None:
            return self._delta.version_at(parse_time("startingTimestamp", start.timestamp))
        latest = self._delta.latest_version()
        if start.version is not None and start.version > latest + 1:
            raise OptionError.of("startingVersion", start.version, f"The table's latest version is {latest}.")
        return start.version

    def _begin_after(self, version: int) -> list[Generation]:
        return self._added_after(version, first=True) or [Generation(version, version)]

    def _added_after(self, version: int, *, first: bool = False) -> list[Generation]:
        """What versions behind ``version`` added; the ``first`` time it is seen to that none is missing."""
        if first:
            self._delta.check_next(version)
        commits = list(self._delta.commits(version))
        if not commits:
            return []
        files = [file for commit in commits for file in self._new_files(commit)]
        return [self._made(version, commits[-1].version, files)]

    def _generation(self, after: int, until: int) -> Generation:
        """One that was found before."""
        if after < 0 and self._begins_with_snapshot:
            return self._made(after, until, self._delta.snapshot(until, self._column())[1])
        self._delta.check_next(after)
        commits = list(islice(self._delta.commits(after), until - after))
        files = [file for commit in commits for file in self._new_files(commit)]
        return self._made(after, until, files)

    def _made(self, after: int, until: int, files: Sequence[DataFile]) -> Generation:
        order = self._order
        return Generation(after, until, self._waiting(files, order), _name(order))

    @property
    def _begins_with_snapshot(self) -> bool:
        start = self._start
        return start.version is None and start.timestamp is None and not start.latest

    def _new_files(self, commit: Commit) -> Sequence[DataFile]:
        """What is read of a commit.

        Raises:
            DataLossError: it removes rows, and no option says what to do about it.
        """
        start = self._start
        if commit.changes_schema:
            log.warning(
                "Version %d of the Delta table %s changes its schema or settings: the query goes on with the columns "
                "that it began with",
                commit.version,
                self._delta.uri,
            )
        if not commit.removes or start.ignore_changes:
            return commit.added
        if start.skip_change_commits or (start.ignore_deletes and not commit.added):
            return ()
        raise DataLossError(
            f"Version {commit.version} of the Delta table {self._delta.uri} "
            f"{'changes' if commit.added else 'removes'} rows, which a stream of additions cannot tell. Set option "
            "skipChangeCommits to true to pass over such commits, ignoreDeletes to pass over those that only remove "
            "rows, or ignoreChanges to read again the files that were rewritten."
        )

    def _waiting(self, files: Sequence[DataFile], order: EventTimeOrder | None) -> list[Waiting]:
        if order is None:
            return [
                Waiting(one.file, None, (one.file.modified, one.file.path), one.partition) for one in files
            ]
        unknown = [one.file.path for one in files if not one.known]
        read = self._statistics.least(unknown, order, _partitions(files))
        least = [one.least if one.known else read.get(one.file.path) for one in files]
        return [
            Waiting(one.file, time, _key(one.file.path, time), one.partition)
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
            taken = self._taken_before(generation.files)
            self._queue = ReadingQueue(one for one in generation.files if one.file.path not in taken)
            self._switch_order()
        self._advance()

    def _taken_before(self, files: Sequence[Waiting]) -> set[str]:
        """The files of the generation in the checkpoint that were taken."""
        taken: set[str] = set()
        for frontier in self._state.frontiers:
            keys = self._keys(files, frontier.by)
            if frontier.last is not None:
                taken |= {p for p, key in keys.items() if key is None or key <= frontier.last}
        return taken

    def _keys(self, files: Sequence[Waiting], by: str | None) -> Mapping[str, OrderKey | None]:
        """Places in an order; ``None`` for a file that cannot be read, and is to be skipped."""
        if by is None:
            return {one.file.path: (one.file.modified, one.file.path) for one in files}
        told: dict[str, OrderKey | None] = {}
        if self._order is not None and by == self._order.name:
            order = self._order
            told = {one.file.path: one.key for one in files if one.least is not None}
        else:
            order = self._statistics.order_named(by)
        paths = [one.file.path for one in files if one.file.path not in told]
        least = self._statistics.surely_least(paths, order, _partitions(files))
        return {**told, **{path: _key(path, least[path]) if path in least else None for path in paths}}

    def _switch_order(self) -> None:
        by = _name(self._order)
        if self._state.frontiers and self._state.frontiers[-1].by != by:
            self._state = replace(self._state, frontiers=(*self._state.frontiers, Frontier(by)))

    def _advance(self) -> None:
        """Where a generation is finished the next one begins."""
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
        """The order may have been changed while a look was under way."""
        by = _name(self._order)
        return one if one.by == by else replace(one, files=self._ordered(one.files), by=by)

    def _ordered(self, files: Iterable[Waiting]) -> list[Waiting]:
        return self._waiting([DataFile(one.file, one.partition) for one in files], self._order)

    @property
    def order(self) -> EventTimeOrder | None:
        return self._order

    def head(self) -> Waiting | None:
        return self._queue.head()

    def first(self, count: int) -> list[Waiting]:
        return self._queue.first(count)

    def move(self, one: Waiting, least: int) -> None:
        self._queue.add(Waiting(one.file, least, _key(one.file.path, least), one.partition))

    def take(self, one: Waiting) -> None:
        self._queue.discard(one.file.path)
        *before, active = self._state.frontiers
        self._state = replace(self._state, frontiers=(*before, active.moved(one.key)))
        self._advance()

    def least(self) -> int | None:
        first = self._queue.first_timed()
        return first.least if first is not None else None

    def __len__(self) -> int:
        return len(self._queue) + sum(len(one.files) for one in self._next)

    def snapshot(self) -> DeltaState:
        return replace(self._state, table=self._table)


def _key(path: str, least: int | None) -> OrderKey:
    return (NO_TIME if least is None else least), path


def _name(order: EventTimeOrder | None) -> str | None:
    return order.name if order is not None else None


def _partitions(files: Iterable[DataFile | Waiting]) -> Mapping[str, Partition]:
    return {one.file.path: one.partition for one in files}
