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

from flip27_stream.errors import AlignmentError, shortened
from flip27_stream.time_text import EPOCH
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable, equals

_FEWEST_COMMITS = 200
LOG_REACH_MS = 900_000
"""The age (ms) up to which commits in the log of a table are read: tables of this project keep them as long."""
_NEWEST = (
    'SELECT "group", source, max(recorded_at) AS at, last_value(batch ORDER BY recorded_at, batch) AS batch '
    "FROM recordings"
)
_BY_MEMBER = 'GROUP BY "group", source'
_SPLITS = (
    f'SELECT r."group", r.source, r.split FROM recordings r JOIN ({_NEWEST} {_BY_MEMBER}) n '
    'ON r."group" = n."group" AND r.source = n.source AND r.recorded_at = n.at AND r.batch = n.batch '
    "WHERE r.recorded_at >= '{since}'"
)
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
        commits: The newest commits, newest first. For a path with ``#`` or ``?`` delta-rs (1.6) returns no commits.
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
            commits = _newest_commits(delta, delta.version() - seen)
        self._delta = delta
        return TableChanges(commits, delta.version() > seen, is_another)

    def newest(self, since: int | None = None) -> dict[Member, Recording]:
        """Returns the newest recording of each member.

        With ``since`` (microseconds since the epoch) only recordings from then on count.
        """
        where = f"WHERE recorded_at >= '{_iso(since)}'" if since is not None else ""
        rows = self._query(f"{_NEWEST} {where} {_BY_MEMBER}", "group", "source", "at", "batch")
        for row in rows:
            if None in row or row[-1] < 0:
                raise self._not_ours(
                    f"group {row[0]!r}, source {row[1]!r}, recorded_at {row[2]!r}, batch {row[3]!r}"
                )
        return {Member(group, source): Recording(at, batch) for group, source, at, batch in rows}

    def splits(self, newest: Mapping[Member, Recording]) -> dict[Member, list[str]]:
        """Returns the ids of the splits of these recordings, which are the newest ones of their members."""
        found: dict[Member, list[str]] = {member: [] for member in newest}
        if not newest:
            return found
        sql = _SPLITS.format(since=_iso(min(recording.at for recording in newest.values())))
        for group, source, split in self._query(sql, "group", "source", "split"):
            if Member(group, source) in found and split is not None:
                found[Member(group, source)].append(split)
        return found

    def _query(self, sql: str, *columns: str) -> list[tuple[Any, ...]]:
        """Returns these columns of the result, with times in microseconds since the epoch."""
        with self._table.failing("cannot be read"):
            found = pa.table(QueryBuilder().register("recordings", self._open).execute(sql))
        whole = (found[name] for name in columns)
        numbers = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in whole)
        return list(zip(*(column.to_pylist() for column in numbers), strict=True))

    def rows(self, batches: Mapping[Member, range]) -> pa.Table:
        """Returns the rows of these batches, in the order in which they were recorded.

        If a source was started again without its checkpoint, the rows of its earlier runs are included.
        """
        if not batches:
            return SCHEMA.empty_table()
        predicate = " OR ".join(_is_in(member, numbers) for member, numbers in batches.items())
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


def _newest_commits(delta: DeltaTable, most: int) -> list[dict[str, Any]]:
    """Returns the newest commits, newest first, at most ``most``."""
    limit = min(most, _FEWEST_COMMITS)
    while True:
        commits = delta.history(limit)
        times = [int(commit.get("timestamp", 0)) for commit in commits]
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


def _is_in(member: Member, batches: range) -> str:
    terms = [equals("group", member.group), equals("source", member.source)]
    terms += [f"batch >= {batches[0]}", f"batch <= {batches[-1]}"]
    if batches.step > 1:
        terms.append(f"(batch - {batches[0]}) % {batches.step} = 0")
    return f"({' AND '.join(terms)})"


def _iso(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
