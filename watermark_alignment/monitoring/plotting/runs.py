"""The newest batches of sources as arrays, with a row for each split and a column for each batch. Plots use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.wall_clock import now_ms
from watermark_alignment.group.member_info import MemberInfo, members_in
from watermark_alignment.monitoring.plotting.timeline import (
    SHORTEST_GAP,
    Pause,
    SourceTimes,
    Span,
    begins,
    clipped,
    joined,
    longest_usual,
    source_times,
    usual_interval,
)
from watermark_alignment.monitoring.source_names import named_by_splits, source_names
from watermark_alignment.monitoring.status import is_there
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.recordings import (
    Member,
    NothingToShowError,
    Recording,
    Recordings,
    latest_run,
    natural,
)
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_COLUMNS = 2000
_AHEAD = 600_000_000
"""A recording this much later (microseconds) than now is of a machine whose clock is ahead."""
STATES = tuple(SplitStatus)
"""The states, in the order of their numbers in :attr:`Run.states`."""


@dataclass(frozen=True)
class SourceRun:
    """The latest run of one source.

    Attributes:
        member: The source as a member of its group.
        splits: The ids of its splits, in natural order.
        times: The time at which each batch was recorded, ``datetime64[us]``.
        batches: The numbers of the batches.
        watermarks: The watermark of each split after each batch, ``datetime64[us]``; NaT if unknown.
        states: The state of each split in each batch, as an index of :data:`STATES`; -1 if the split did not exist.
        max_drift_ms: The drift (ms) that was allowed in the newest batch; ``None`` if it is unknown.
        name: The name of the source.
        pauses: The recent times in which splits waited.
        lives: The known times in which its query ran.
        is_there: Whether it is in its group now; ``None`` if this is not known.
        starts: The known times at which its query was started.
        plans: The time at which each batch was planned; NaT if unknown.
        now: The time at which the run was read.
    """

    member: Member
    splits: Sequence[str]
    times: NDArray[np.datetime64]
    batches: NDArray[np.int64]
    watermarks: NDArray[np.datetime64]
    states: NDArray[np.int8]
    max_drift_ms: int | None
    name: str
    pauses: Sequence[Pause] = ()
    lives: Sequence[Span] = ()
    is_there: bool | None = None
    starts: NDArray[np.datetime64] | None = None
    plans: NDArray[np.datetime64] | None = None
    now: np.datetime64 | None = None

    @cached_property
    def begins(self) -> NDArray[np.datetime64]:
        """The estimated time at which each batch began."""
        return begins(self.times, self.starts, self.plans)

    @property
    def silence(self) -> np.timedelta64 | None:
        """The time since the newest batch was recorded; ``None`` if it is not known."""
        return None if self.now is None else self.now - self.times[-1]

    @property
    def silent_until(self) -> np.datetime64 | None:
        """The end of the time after the newest batch that is drawn; ``None`` if no such time is drawn.

        As far as the source is known to have been alive. If it is not known to be alive: now, if the silence is longer
        than 10 s and not longer than all batches took. More of a longer silence is not drawn, because the query was
        perhaps stopped for good.
        """
        known = self.alive_after[len(self.times) - 1]
        is_alive = self.now is not None and any(life.end >= self.now for life in self.lives)
        took = self.times[-1] - self.times[0]
        if self.silence is not None and not is_alive and SHORTEST_GAP < self.silence <= took:
            return self.now
        return known[-1].end if known else None

    @property
    def ends_early(self) -> bool:
        """Whether the picture ends long before now."""
        until = self.silent_until
        shown = self.times[-1] if until is None else until
        return self.now is not None and bool(self.now - shown > SHORTEST_GAP)

    @property
    def gaps(self) -> NDArray[np.intp]:
        """The indices of the batches that no other batch followed for a long time."""
        return np.flatnonzero(self.begins[1:] > self.times[:-1])

    @cached_property
    def alive_after(self) -> Mapping[int, Sequence[Span]]:
        """The times in which the source is known to have been alive after a batch and before the next one began.

        By the index of the batch before; there is an entry for each of :attr:`gaps` and for the newest batch. After
        the newest batch, a usual time without a batch does not count, unless splits wait.
        """
        newest, usual = len(self.times) - 1, usual_interval(self.times[1:] - self.begins[1:])
        now = self.times[-1] if self.now is None else self.now
        found = {
            batch: self._alive_between(
                self.times[batch], self.begins[batch + 1], SHORTEST_GAP, self.begins[batch + 1]
            )
            for batch in self.gaps.tolist()
        }
        return {**found, newest: self._alive_between(self.times[-1], now, longest_usual(usual))}

    def _alive_between(
        self,
        last: np.datetime64,
        end: np.datetime64,
        longest: np.timedelta64,
        border: np.datetime64 | None = None,
    ) -> Sequence[Span]:
        """Returns the times between two times in which the source lived for more than ``longest``, or splits waited.

        A time that begins at most 10 s after ``last`` begins at ``last``; one that ends at most 10 s before ``border``
        ends there.
        """
        lives = [life for life in clipped(self.lives, last, end) if life.end - life.begin > longest]
        known = [*lives, *clipped(self.pauses, last, end)]
        borders = [Span(time, time) for time in (last, border) if time is not None]
        return [span for span in joined([*borders, *known]) if span.begin < span.end] if known else []

    @property
    def last_wait(self) -> Pause | None:
        """The wait after the newest batch; ``None`` if no split is known to have waited then."""
        waits = [pause for pause in self.pauses if pause.begin < pause.end and pause.end > self.times[-1]]
        return waits[-1] if waits else None

    @property
    def counting(self) -> NDArray[np.datetime64]:
        """The watermarks of the splits that count; NaT for the others."""
        counts = np.isin(self.states, [n for n, state in enumerate(STATES) if state.counts])
        return np.where(counts, self.watermarks, np.datetime64("NaT"))

    @property
    def floor(self) -> NDArray[np.datetime64]:
        """The least watermark of the splits that count, after each batch."""
        return least(self.counting)


def least(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Returns the least known value of each column."""
    found: NDArray[np.datetime64] = np.fmin.reduce(times, axis=0)
    return found


def read_runs(
    table: SplitWatermarkTable, group: str | None, sources: Sequence[str] | None, batches: int
) -> list[SourceRun]:
    """Returns the latest run of each source, with its newest batches, at most ``batches``.

    Raises:
        AlignmentError: The table cannot be read.
        NothingToShowError: The table has no rows of these sources.
    """
    recordings = Recordings(table)
    commits = recordings.look().commits
    infos = members_in(commits)
    now = now_ms()
    there = recordings.newest()
    by_splits = recordings.splits({m: there[m] for m in named_by_splits(infos, there)})
    names = source_names(infos, {m: by_splits.get(m, ()) for m in there})
    newest = {m: r for m, r in there.items() if group in (None, m.group)}
    if sources is None:
        members = sorted(
            _overlapping(newest, batches, recordings, infos, now), key=lambda member: natural(names[member])
        )
    else:
        members = _named(newest, sources, names)
    missing = {s for s in sources or () if not any(s in (m.source, names[m]) for m in members)}
    if missing or not members:
        whose = f"source {min(missing)!r}" if missing else "any source"
        where = f" in group {group!r}" if group is not None else ""
        raise NothingToShowError.of(table, whose + where, {m: names[m] for m in there})
    rows = recordings.rows({m: _range(newest[m], batches) for m in members}, newest)
    runs = [_run(member, names[member], _of(rows, member), infos.get(member)) for member in members]
    return [
        _informed(run, source_times(commits, run.member, run.splits, run.batches.tolist(), now), infos, now)
        for run in runs
    ]


def _informed(run: SourceRun, times: SourceTimes, infos: Mapping[Member, MemberInfo], now: int) -> SourceRun:
    """Returns the run with the times of its source, at the time ``now`` (ms since the epoch)."""
    recorded_at = int(run.times[-1].astype("datetime64[ms]").astype(np.int64))
    return replace(
        run,
        pauses=times.pauses,
        lives=times.lives,
        starts=times.starts,
        plans=times.plans,
        is_there=is_there(run.member, infos, recorded_at, now),
        now=np.datetime64(now, "ms"),
    )


def _named(
    newest: Mapping[Member, Recording], sources: Sequence[str], names: Mapping[Member, str]
) -> list[Member]:
    return [m for source in sources for m in sorted(newest) if source in (m.source, names[m])]


def _overlapping(
    newest: Mapping[Member, Recording],
    batches: int,
    recordings: Recordings,
    infos: Mapping[Member, MemberInfo],
    now: int,
) -> list[Member]:
    """Returns the sources that ran at the same time as the newest one, also if they recorded no batch then.

    Sources whose clocks are ahead of ``now`` (ms since the epoch) hide no others.
    """
    if not newest:
        return []
    ahead = {member for member, recording in newest.items() if recording.at > now * 1000 + _AHEAD}
    latest = max(newest.keys() - ahead or newest, key=lambda member: newest[member].at)
    rows = _latest(recordings.rows({latest: _range(newest[latest], batches)}, newest))
    begin = rows["recorded_at"][0].cast(pa.int64()).as_py()
    last = {m: max(r.at, infos.get(m, MemberInfo()).known_until * 1000) for m, r in newest.items()}
    return [member for member, at in last.items() if at >= begin]


def _range(newest: Recording, batches: int) -> range:
    """Returns the batches to draw, counted back from the newest, which is always included."""
    count = min(batches, newest.batch + 1)
    step = -(-count // _MOST_COLUMNS)
    return range(newest.batch - (count - 1) // step * step, newest.batch + 1, step)


def _of(rows: pa.Table, member: Member) -> pa.Table:
    mine = pc.and_(pc.equal(rows["group"], member.group), pc.equal(rows["source"], member.source))
    return _latest(rows.filter(mine))


def _latest(rows: pa.Table) -> pa.Table:
    return rows.slice(latest_run(rows["batch"].to_pylist()))


def _run(member: Member, name: str, rows: pa.Table, info: MemberInfo | None) -> SourceRun:
    splits = sorted(rows["split"].unique().to_pylist(), key=natural)
    places = {split: n for n, split in enumerate(splits)}
    row_of = np.array([places[split] for split in rows["split"].to_pylist()])
    batches, first, column_of = np.unique(rows["batch"].to_numpy(), return_index=True, return_inverse=True)
    watermarks = np.full((len(splits), len(batches)), np.datetime64("NaT"), "datetime64[us]")
    watermarks[row_of, column_of] = _naive(rows["watermark"])
    states = np.full(watermarks.shape, -1, np.int8)
    numbers = {str(state): n for n, state in enumerate(STATES)}
    states[row_of, column_of] = [numbers[status] for status in rows["status"].to_pylist()]
    return SourceRun(
        member,
        splits,
        times=_naive(rows["recorded_at"])[first],
        batches=batches,
        watermarks=watermarks,
        states=states,
        max_drift_ms=info.max_drift_of_batch_ms if info is not None else None,
        name=name,
    )


def _naive(times: pa.ChunkedArray) -> NDArray[Any]:
    """Returns times without a time zone. NumPy takes them as UTC."""
    return np.asarray(times.cast(pa.timestamp("us")).to_numpy())
