"""Reads selected batches of a split-watermark table, which can have the rows of weeks.

A *recording* is the set of rows that a source wrote in one commit: a row for each of its splits, all with the same
``recorded_at``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from pyarrow.fs import FileSystem

from flip27_stream.errors import AlignmentError, shortened
from flip27_stream.time_text import EPOCH
from flip27_stream.wall_clock import now_ms
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable, equals
from watermark_alignment.table.storage.table_files import commit_times

_FEWEST_COMMITS = 200
LOG_REACH_MS = 900_000
"""The age (ms) up to which commits in the log of a table are read: tables of this project keep them as long."""
STORED_AT = "storedAt"
"""The key of the time (ms since the epoch) at which the store wrote a commit, among what the commit has."""
_LATEST = (
    'SELECT "group", source, max(recorded_at) AS at, last_value(batch ORDER BY recorded_at, batch) AS batch, '
    'max(batch) AS greatest FROM recordings {where} GROUP BY "group", source'
)
_COUNTS = (
    'SELECT "group", source, batch, count(DISTINCT recorded_at) AS times FROM recordings WHERE {where} '
    'GROUP BY "group", source, batch'
)
_SPLITS = 'SELECT "group", source, split FROM recordings WHERE {where}'
_NEAR = 600_000_000
"""Spans with less than this time (microseconds) between them are read as one."""
_NEVER_NULL = ("group", "source", "split", "batch", "rows", "status", "recorded_at")
_ORDER = [(column, "ascending") for column in ("recorded_at", "batch", "group", "source", "split")]


class Member(NamedTuple):
    """A source as a member of a group."""

    group: str
    source: str


class Recording(NamedTuple):
    """The time when a batch was recorded (microseconds since the epoch), and the number of the batch."""

    at: int
    batch: int


class Span(NamedTuple):
    """The times between which rows were recorded (microseconds since the epoch), both included."""

    first: int
    last: int


class _Latest(NamedTuple):
    """The recording of a member with the greatest time, and the greatest number of a batch of it."""

    recording: Recording
    greatest: int


class NothingToShowError(AlignmentError):
    """The table can be read, but has no rows of the requested group or sources."""

    @classmethod
    def of(cls, table: SplitWatermarkTable, whose: str, members: Mapping[Member, str]) -> NothingToShowError:
        """Returns the error that the table has rows of ``members``, but not of ``whose``.

        Args:
            table: The table.
            whose: The requested group or sources, in words.
            members: The members that have rows, with the names of their sources.
        """
        where = f"The split-watermark table at '{table.uri}'"
        if not members:
            return cls(f"{where} is empty. A query writes the rows of a batch when it plans the next one.")
        groups = ", ".join(repr(group) for group in sorted({member.group for member in members}))
        sources = ", ".join(repr(source) for source in sorted(set(members.values())))
        return cls(
            f"{where} has no rows of {whose}. Its groups: {shortened(groups)}. Its sources: {shortened(sources)}."
        )


class TableChanges(NamedTuple):
    """The changes of a table since the last :meth:`Recordings.look`.

    Attributes:
        commits: The newest commits, newest first, with :data:`STORED_AT`. For a path with ``#`` or ``?`` delta-rs (1.6)
            returns no commits.
        is_new: Whether there is a new version.
        is_another: Whether the table was created again.
    """

    commits: list[dict[str, Any]]
    is_new: bool
    is_another: bool


class Recordings:
    """Reads one table at the version of the last :meth:`look`.

    Methods raise :class:`AlignmentError` if the table does not exist, is another table, or cannot be reached.
    """

    def __init__(self, table: SplitWatermarkTable) -> None:
        self._table = table
        self._delta: DeltaTable | None = None

    def look(self) -> TableChanges:
        """Moves to the newest version of the table.

        If the table was deleted and created again since the last call, this call counts as the first one.

        Returns:
            What has changed since the last call. Of the commits since then it has the newest ones: at least 200 if
            there are as many, and all that are at most :data:`LOG_REACH_MS` older than the newest.
        """
        before, delta = self._delta, self._table.load()
        is_another = before is None or before.metadata().id != delta.metadata().id
        seen = -1 if is_another or before is None else before.version()
        with self._table.failing("cannot be read"):
            stored = _store_times(self._table.files(), delta.version()) if delta.version() > seen else {}
            commits = _newest_commits(delta, delta.version() - seen, stored)
        self._delta = delta
        return TableChanges(commits, delta.version() > seen, is_another)

    def files(self) -> dict[str, Span | None]:
        """Returns the data files of the table by their paths, with the span of their rows; ``None`` if unknown."""
        with self._table.failing("cannot be read"):
            actions = pa.table(self._open.get_add_actions(flatten=True))
        bounds = [_micros(actions, f"{bound}.recorded_at") for bound in ("min", "max")]
        return {
            path: None if first is None or last is None else Span(first, last + 999)  # Spark writes whole ms.
            for path, first, last in zip(actions["path"].to_pylist(), *bounds, strict=True)
        }

    def newest(
        self, known: Mapping[Member, Recording] | None = None, within: Sequence[Span | None] | None = None
    ) -> dict[Member, Recording]:
        """Returns the newest recording of each member that has recordings ``within`` these spans.

        The times of two members are not compared, because their clocks may differ. Of one member the recording with
        the latest time is the newest one, unless the member's clock was set back after it; see :meth:`_set_back`.

        Args:
            known: The newest recordings so far. They stay the newest ones if only older ones are found.
            within: The spans to read. By default, and if one of them is unknown, all of the table.
        """
        during = None if within is None or None in within else _during([span for span in within if span])
        found = latest = self._latest(known or {}, during, {})
        while set_back := self._set_back(latest):
            latest = self._latest(known or {}, during, set_back)
            found = found | latest
        return {member: newest.recording for member, newest in found.items()}

    def _latest(
        self, known: Mapping[Member, Recording], during: str | None, after: Mapping[Member, int]
    ) -> dict[Member, _Latest]:
        """Returns the latest recording of each member, or of the members ``after`` only in later batches than these."""
        later = " OR ".join(f"({_of(member)} AND batch > {batch})" for member, batch in after.items())
        terms = [f"({term})" for term in (during, later) if term]
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        found = {}
        for row in self._query(_LATEST.format(where=where), "group", "source", "at", "batch", "greatest"):
            group, source, at, batch, greatest = row
            if None in row or batch < 0:
                raise self._not_ours(
                    f"group {group!r}, source {source!r}, recorded_at {at!r}, batch {batch!r}"
                )
            member, newest = Member(group, source), Recording(at, batch)
            before = known.get(member)
            if before is not None and before.batch > after.get(member, -1):
                newest, greatest = max(newest, before), max(greatest, before.batch)
            found[member] = _Latest(newest, greatest)
        return found

    def _set_back(self, latest: Mapping[Member, _Latest]) -> dict[Member, int]:
        """Returns the members whose clocks were set back after their latest recording, with its batch.

        A batch with a greater number and an earlier time is either later, because the clock was set back, or of a run
        before the latest one, which was started without the checkpoint and counts from 0 again. In the second case the
        next recorded number after the latest recording was recorded less often than its own number. That fails if the
        earlier run did not record the number of the latest recording, as after a restart at this number.
        """
        batches = {m: one.recording.batch for m, one in latest.items() if one.greatest > one.recording.batch}
        if not batches:
            return {}
        where = " OR ".join(f"({_of(m)} AND batch >= {n})" for m, n in batches.items())
        times: dict[Member, dict[int, int]] = {member: {} for member in batches}
        for group, source, batch, count in self._query(
            _COUNTS.format(where=where), "group", "source", "batch", "times"
        ):
            times[Member(group, source)][batch] = count
        own = {m: times[m].pop(n, 0) for m, n in batches.items()}
        return {m: n for m, n in batches.items() if times[m] and own[m] <= times[m][min(times[m])]}

    def splits(self, newest: Mapping[Member, Recording]) -> dict[Member, list[str]]:
        """Returns the ids of the splits of these recordings."""
        found: dict[Member, list[str]] = {member: [] for member in newest}
        if not newest:
            return found
        where = " OR ".join(
            f"({_of(member)} AND batch = {batch} AND recorded_at = '{_iso(at)}')"
            for member, (at, batch) in newest.items()
        )
        for group, source, split in self._query(_SPLITS.format(where=where), "group", "source", "split"):
            if split is not None:
                found[Member(group, source)].append(split)
        return found

    def _query(self, sql: str, *columns: str) -> list[tuple[Any, ...]]:
        """Returns these columns of the result, with times in microseconds since the epoch."""
        with self._table.failing("cannot be read"):
            found = pa.table(QueryBuilder().register("recordings", self._open).execute(sql))
        whole = (found[name] for name in columns)
        numbers = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in whole)
        return list(zip(*(column.to_pylist() for column in numbers), strict=True))

    def rows(self, batches: Mapping[Member, range], newest: Mapping[Member, Recording]) -> pa.Table:
        """Returns the rows of these batches, in the order in which they were recorded.

        If a source was started again without its checkpoint, the rows of its earlier runs are included. Rows with a
        later time than the newest recording are left out: they were recorded before the clock was set back.

        Args:
            batches: The batches to read, by member.
            newest: The newest recordings of these members.
        """
        if not batches:
            return SCHEMA.empty_table()
        predicate = " OR ".join(_is_in(m, numbers, newest[m].at) for m, numbers in batches.items())
        with self._table.failing("cannot be read"):
            found = pa.table(self._open.scan(SCHEMA.names, predicate)).cast(SCHEMA)
        self._check(found)
        return found.sort_by(_ORDER)

    def _check(self, rows: pa.Table) -> None:
        """Checks that rows are valid, since any process can write to the table.

        Raises:
            AlignmentError: A row is not valid.
        """
        ours = pc.is_in(rows["status"], pa.array([str(status) for status in SplitStatus]))
        for name in _NEVER_NULL:
            ours = pc.and_(ours, pc.is_valid(rows[name]))
        for row in rows.filter(pc.invert(ours)).slice(0, 1).to_pylist():
            raise self._not_ours(", ".join(f"{name} {row[name]!r}" for name in _NEVER_NULL[:-1]))

    def _not_ours(self, row: str) -> AlignmentError:
        return AlignmentError(
            f"The split-watermark table at '{self._table.uri}' has a row that no source of this release writes: {row}. "
            f"A status is one of {', '.join(SplitStatus)}, and only times and drift may be unknown. If a later release "
            "wrote the row, read the table with that release; else delete the row."
        )

    @property
    def _open(self) -> DeltaTable:
        if self._delta is None:
            self._delta = self._table.load()
        return self._delta


def _store_times(files: FileSystem, newest: int) -> dict[int, int]:
    """Returns when the store wrote each commit (ms since the epoch), by version. So ages need no clock of a writer.

    If the clock of the store is ahead of that of this machine, which is known by the ``newest`` commit, it is set back.
    """
    times = {version: int(time * 1000) for version, time in commit_times(files).items()}
    ahead = max(times.get(newest, 0) - now_ms(), 0)
    return {version: time - ahead for version, time in times.items()}


def _newest_commits(delta: DeltaTable, most: int, stored: Mapping[int, int]) -> list[dict[str, Any]]:
    """Returns the newest commits, newest first, at most ``most``."""
    limit = min(most, _FEWEST_COMMITS)
    while True:
        commits = [
            {**commit, STORED_AT: stored.get(commit["version"], commit.get("timestamp", 0))}
            for commit in delta.history(limit)
        ]
        times = [int(commit[STORED_AT]) for commit in commits]
        if limit >= most or len(commits) < limit or max(times) - min(times) > LOG_REACH_MS:
            return commits
        limit = min(most, 4 * limit)


def latest_run(batches: Sequence[int]) -> int:
    """Returns the index of the batch where the latest run begins.

    Numbers rise in a run, and fall where another begins.
    """
    return next((n for n in range(len(batches) - 1, 0, -1) if batches[n] < batches[n - 1]), 0)


def natural(name: str) -> list[tuple[int, str]]:
    """Returns a sort key that puts split 2 before split 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]


def _of(member: Member) -> str:
    return f"{equals('group', member.group)} AND {equals('source', member.source)}"


def _is_in(member: Member, batches: range, until: int) -> str:
    terms = [
        _of(member),
        f"batch >= {batches[0]}",
        f"batch <= {batches[-1]}",
        f"recorded_at <= '{_iso(until)}'",
    ]
    if batches.step > 1:
        terms.append(f"(batch - {batches[0]}) % {batches.step} = 0")
    return f"({' AND '.join(terms)})"


def _during(spans: Sequence[Span]) -> str:
    """Returns a condition on the times of spans, one at least, of which those near each other are one."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.first - joined[-1].last < _NEAR:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return " OR ".join(
        f"(recorded_at >= '{_iso(span.first)}' AND recorded_at <= '{_iso(span.last)}')" for span in joined
    )


def _micros(actions: pa.Table, column: str) -> list[int | None]:
    """Returns times in microseconds since the epoch; ``None`` for files without this statistic."""
    if column not in actions.column_names:
        return [None] * len(actions)
    times: list[int | None] = actions[column].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    return times


def _iso(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
