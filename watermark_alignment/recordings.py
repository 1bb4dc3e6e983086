"""What to read of a split-watermark table that may hold weeks of batches.

A *recording* is what a source wrote at once: a row for each of its splits, all with one ``recorded_at``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from watermark_alignment.table import SCHEMA, SplitWatermarkTable

_MOST_COMMITS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEWEST = (
    'SELECT "group", source, max(recorded_at) AS at, last_value(batch ORDER BY recorded_at, batch) AS batch '
    "FROM recordings"
)
_BY_MEMBER = 'GROUP BY "group", source'
_ORDER = [(column, "ascending") for column in ("recorded_at", "batch", "group", "source", "split")]


class Member(NamedTuple):
    """A source as a member of a group."""

    group: str
    source: str


class Recording(NamedTuple):
    """When a batch was recorded (microseconds since the epoch), and its number."""

    at: int
    batch: int


class Look(NamedTuple):
    """What has become of a table since it was last looked at."""

    commits: list[dict[str, Any]]
    is_another: bool


class Recordings:
    """Reads one table, as it was when it was last looked at.

    Methods raise :class:`AlignmentError` where the table does not exist, is another, or is out of reach.
    """

    def __init__(self, table: SplitWatermarkTable) -> None:
        self._table = table
        self._delta: DeltaTable | None = None

    def look(self) -> Look:
        """Take up the newest version.

        The newest of the commits since the last look come first; at the first look, and where many were made, they
        are not all told. Whoever made the table anew has it begin again.
        """
        before, self._delta = self._delta, self._table.load()
        is_another = before is None or before.metadata().id != self._delta.metadata().id
        seen = -1 if is_another or before is None else before.version()
        try:
            commits = self._delta.history(min(self._delta.version() - seen, _MOST_COMMITS))
        except Exception as error:  # noqa: BLE001 - delta-rs raises plain Exception, too
            raise self._table.failure("cannot be read", error) from None
        return Look(commits, is_another)

    def newest(self, since: int | None = None) -> dict[Member, Recording]:
        """The newest recording of each member that has one, or has one from ``since`` (microseconds) on."""
        where = f"WHERE recorded_at >= '{_iso(since)}'" if since is not None else ""
        sql = f"{_NEWEST} {where} {_BY_MEMBER}"
        try:
            found = pa.table(QueryBuilder().register("recordings", self._open).execute(sql))
        except Exception as error:  # noqa: BLE001 - as in look
            raise self._table.failure("cannot be read", error) from None
        columns = (found["group"], found["source"], found["at"].cast(pa.int64()), found["batch"])
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return {Member(group, source): Recording(at, batch) for group, source, at, batch in rows}

    def rows(self, batches: Mapping[Member, range]) -> pa.Table:
        """The rows of these batches, in the order they were recorded.

        Where a source was started anew without its checkpoint, those of its earlier runs are among them.
        """
        if not batches:
            return SCHEMA.empty_table()
        predicate = " OR ".join(_is_in(member, numbers) for member, numbers in batches.items())
        try:
            found = pa.table(self._open.scan(SCHEMA.names, predicate)).cast(SCHEMA)
        except Exception as error:  # noqa: BLE001 - as in look
            raise self._table.failure("cannot be read", error) from None
        return found.sort_by(_ORDER)

    @property
    def _open(self) -> DeltaTable:
        if self._delta is None:
            self._delta = self._table.load()
        return self._delta


def latest_run(batches: Sequence[int]) -> int:
    """Where the latest run begins in batch numbers: a run's only rise; where they fall another has begun."""
    return next((n for n in range(len(batches) - 1, 0, -1) if batches[n] < batches[n - 1]), 0)


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts split 2 before split 10."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def _is_in(member: Member, batches: range) -> str:
    terms = [_equals("group", member.group), _equals("source", member.source)]
    terms += [f"batch >= {batches[0]}", f"batch <= {batches[-1]}"]
    if batches.step > 1:
        terms.append(f"(batch - {batches[0]}) % {batches.step} = 0")
    return f"({' AND '.join(terms)})"


def _equals(column: str, value: str) -> str:
    """Quoted, since `group` is a word of SQL and a source's name may hold anything."""
    return f'"{column}" = ' + "'" + value.replace("'", "''") + "'"


def _iso(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
