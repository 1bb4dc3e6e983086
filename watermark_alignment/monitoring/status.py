"""The status of every split: its newest row in the split-watermark table, and metrics over its newest batches.

Metrics have the names that Flink gives them: ``currentWatermark``, ``activeTimeMsPerSecond``,
``pausedTimeMsPerSecond`` and ``idleTimeMsPerSecond`` of FLIP-513 (split-level watermark metrics),
``numRecordsInPerSecond`` and ``watermarkLag`` of FLIP-33 (source metrics), ``watermarkAlignmentDrift`` of
FLIP-182 (class ``MetricNames``). :mod:`watermark_alignment.monitoring.dashboard` computes the same with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from watermark_alignment.group.member_info import MemberInfo, groups_in, members_in
from watermark_alignment.monitoring.source_names import source_names
from watermark_alignment.planner import GROUP
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.recordings import (
    LOG_REACH_MS,
    Member,
    Recording,
    Recordings,
    latest_run,
    natural,
)
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

BATCHES = 10
"""The number of a source's newest batches over which rates are taken."""

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class SplitMetrics:
    """The metrics of one split, as its source last recorded them. Times are in ms; ``None`` if unknown.

    Attributes:
        group: The group with which it is aligned.
        source: The source's id in the group.
        split: The split's id.
        status: The status in the newest batch; ``PAUSED`` also if the split waits after a last plan that read nothing.
        batch: The number of that batch.
        recorded_at: The time at which the batch was recorded (since the epoch).
        watermark: The event time up to which no more records are expected from the split (``currentWatermark``).
        lag: The time by which the watermark is behind the clock (``watermarkLag``).
        drift: The time by which the read records are ahead of the slowest split (``watermarkAlignmentDrift``).
        rows_per_second: The rate over the newest batches (``numRecordsInPerSecond``).
        per_second: By status, the milliseconds of each second in which the split had it, over the same batches
            (``activeTimeMsPerSecond``, ``pausedTimeMsPerSecond``, ``idleTimeMsPerSecond``).
    """

    group: str
    source: str
    split: str
    status: SplitStatus
    batch: int
    recorded_at: int
    watermark: int | None
    lag: int | None
    drift: int | None
    rows_per_second: float | None
    per_second: Mapping[SplitStatus, int | None]

    @property
    def member(self) -> Member:
        return Member(self.group, self.source)


class Wait(NamedTuple):
    """Splits of one source that wait for another split.

    Attributes:
        member: The source.
        splits: The number of its splits that wait.
        holder: The split for which they wait, of this source or of another source in its group.
    """

    member: Member
    splits: int
    holder: SplitMetrics


@dataclass(frozen=True)
class Status:
    """The status of a table.

    Attributes:
        splits: The splits of the newest batch of every source, by group, source and split. Splits that were read to
            their end and retired, or removed, are missing.
        members: The latest reports of sources.
        groups: The group of each source that is in the log, by the lineage of the source. The two sources of a
            self-join are one in ``members``, and two here.
        table_splits: All splits of the table, if ``splits`` are only some of them; names depend on all splits.
    """

    splits: Sequence[SplitMetrics]
    members: Mapping[Member, MemberInfo]
    groups: Mapping[str, str] = field(default_factory=dict)
    table_splits: Sequence[SplitMetrics] = ()

    @cached_property
    def names(self) -> Mapping[Member, str]:
        """The name of each source."""
        splits: dict[Member, list[str]] = {}
        for split in self.table_splits or self.splits:
            splits.setdefault(split.member, []).append(split.split)
        return source_names(self.members, splits)

    def info_of(self, member: Member) -> MemberInfo:
        """Returns the latest reports of a source."""
        return self.members.get(member, MemberInfo())

    def only(self, keep: Callable[[SplitMetrics], bool]) -> Status:
        """Returns the status with only the splits for which ``keep`` is true."""
        return replace(
            self,
            splits=[split for split in self.splits if keep(split)],
            table_splits=self.table_splits or self.splits,
        )

    def is_there(self, member: Member, now: int) -> bool | None:
        """Returns whether a source is alive at ``now`` (ms); ``None`` if this is not known.

        A source without recent reports in the log is gone, because a living source reports several times a minute.
        """
        return is_there(member, self.members, self._recorded_at.get(member, now), now)

    @cached_property
    def _recorded_at(self) -> Mapping[Member, int]:
        return {split.member: split.recorded_at for split in self.splits}

    def waits(self, now: int) -> list[Wait]:
        """Returns the waits of all sources that are alive at ``now`` (ms since the epoch).

        The sources report their waits after each plan. A plan that reads nothing makes no batch, and so no rows.
        """
        there = [split for split in self.splits if self.info_of(split.member).is_there(now)]
        found = []
        for member in dict.fromkeys(split.member for split in there):
            entry = self.info_of(member).entry
            if entry is not None and (holder := _holder(member, entry.held_by, there)) is not None:
                found.append(Wait(member, entry.waiting, holder))
        return found


def is_there(member: Member, infos: Mapping[Member, MemberInfo], recorded_at: int, now: int) -> bool | None:
    """Returns whether a source is alive; ``None`` if this is not known. See :meth:`Status.is_there`.

    Args:
        member: The source.
        infos: The latest reports of all sources of the table.
        recorded_at: The time (ms since the epoch) at which the newest batch of the source was recorded.
        now: The present time (ms since the epoch).
    """
    info = infos.get(member, MemberInfo())
    if info.entry is not None or not infos:
        return info.is_there(now)
    return False if now - recorded_at > LOG_REACH_MS else None


class StatusReader:
    """A reader of the status of a table. Each later read loads only the new rows."""

    def __init__(self, table: SplitWatermarkTable) -> None:
        self.table = table
        self._recordings = Recordings(table)
        self._newest: dict[Member, Recording] = {}
        self._rows: dict[Member, pa.Table] = {}
        self._members: dict[Member, MemberInfo] = {}
        self._groups: dict[str, str] = {}
        self._files: Set[str] = frozenset()
        self._is_behind = False

    def read(self, now: int) -> Status:
        """Returns the status at the time ``now`` (ms since the epoch).

        Raises:
            AlignmentError: The table does not exist, or cannot be read.
        """
        look = self._recordings.look()
        if look.is_another:
            self._newest, self._rows, self._members, self._groups = {}, {}, {}, {}
            self._files = frozenset()
        self._groups |= groups_in(look.commits)
        for member, info in members_in(look.commits).items():
            self._members[member] = info.or_else(self._members.get(member, MemberInfo()))
        self._is_behind |= look.is_new
        if self._is_behind:
            self._take_in_rows()
            self._is_behind = False
        by_split: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for rows in self._rows.values():
            for row in rows.to_pylist():
                by_split.setdefault((row["group"], row["source"], row["split"]), []).append(row)
        splits = [
            self._as_last_planned(_metrics(rows, now), now)
            for (group, source, _), rows in sorted(by_split.items(), key=_in_order)
            if Recording(rows[-1]["recorded_at"], rows[-1]["batch"]) == self._newest[Member(group, source)]
        ]
        return Status(splits, dict(self._members), dict(self._groups))

    def _as_last_planned(self, split: SplitMetrics, now: int) -> SplitMetrics:
        info = self._members.get(split.member)
        waits = (
            split.status is SplitStatus.ACTIVE
            and info is not None
            and info.entry is not None
            and bool(info.is_there(now))
            and info.entry.has_waiting(split.split)
        )
        return replace(split, status=SplitStatus.PAUSED) if waits else split

    def _take_in_rows(self) -> None:
        """Loads the batches that rates need, of each source that has recorded further batches since the last read.

        Such batches are in files that the table did not have at the last read.
        """
        files = self._recordings.files()
        spans = [span for path, span in files.items() if path not in self._files]
        found = self._recordings.newest(self._newest, spans if self._files else None) if spans else {}
        changed = {member: newest for member, newest in found.items() if self._newest.get(member) != newest}
        batches = {m: range(newest.batch - BATCHES, newest.batch + 1) for m, newest in changed.items()}
        rows = _times_as_numbers(self._recordings.rows(batches, changed))
        for member in changed:
            mine = pc.and_(pc.equal(rows["group"], member.group), pc.equal(rows["source"], member.source))
            self._rows[member] = rows.filter(mine)
        self._newest |= changed
        self._files = files.keys()


def _holder(member: Member, held_by: str | None, splits: Iterable[SplitMetrics]) -> SplitMetrics | None:
    """Returns the split for which a member waits.

    If ``held_by`` stands for the whole group, it is the split of the other members that is furthest behind.
    """
    if held_by != GROUP:
        return next((s for s in splits if s.member == member and s.split == held_by), None)
    others = (s for s in splits if s.group == member.group and s.member != member and s.status.counts)
    return min(others, key=lambda s: (s.watermark is None, s.watermark or 0), default=None)


def _in_order(item: tuple[tuple[str, str, str], object]) -> tuple[Any, ...]:
    (group, source, split), _ = item
    return group, source, natural(split)


def _times_as_numbers(rows: pa.Table) -> pa.Table:
    """Returns the rows with times in microseconds."""
    for name in ("watermark", "max_event_time", "recorded_at"):
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.int64()))
    return rows


def _metrics(rows: Sequence[Mapping[str, Any]], now: int) -> SplitMetrics:
    """Returns the metrics of a split from its newest row, with rates over the latest run in ``rows``."""
    rows = rows[latest_run([row["batch"] for row in rows]) :]
    newest = rows[-1]
    took = dict.fromkeys(SplitStatus, 0)
    for before, row in pairwise(rows):
        took[SplitStatus(row["status"])] += row["recorded_at"] - before["recorded_at"]
    elapsed = sum(took.values())
    read = sum(row["rows"] for row in rows[1:])
    watermark = None if newest["watermark"] is None else newest["watermark"] // 1000
    return SplitMetrics(
        group=newest["group"],
        source=newest["source"],
        split=newest["split"],
        status=SplitStatus(newest["status"]),
        batch=newest["batch"],
        recorded_at=newest["recorded_at"] // 1000,
        watermark=watermark,
        lag=None if watermark is None else now - watermark,
        drift=newest["drift_ms"],
        rows_per_second=read * _SECOND / elapsed if elapsed else None,
        per_second={
            status: took[status] * 1000 // elapsed if elapsed else None
            for status in (SplitStatus.ACTIVE, SplitStatus.PAUSED, SplitStatus.IDLE)
        },
    )
