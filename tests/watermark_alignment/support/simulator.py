"""A simulation around the planner: growing logs, the coordinator's loop over them, and Spark's watermark.

A :class:`SimulatedMember` does what the coordinator of one source does: it takes a snapshot, plans, reads, and keeps
what an offset keeps. A :class:`Round` is one round of it, with the contents of the logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from watermark_alignment import planner
from watermark_alignment.planner import Plan, PositionsAt, SparsePositions, SplitView
from watermark_alignment.states import SplitStatus


@dataclass(frozen=True)
class Hidden:
    """An entry that an index by time shows and that is not a row: a marker, an aborted record or an implausible one."""

    time: int


Entry = int | Hidden | None
"""The event time of a record, ``None`` for a record without one, or a hidden entry."""


@dataclass
class SplitLog:
    """The data of one split. The last ``open`` entries belong to a transaction that is not decided yet."""

    entries: list[Entry] = field(default_factory=list)
    open: int = 0

    @property
    def stable(self) -> int:
        return len(self.entries) - self.open

    def times(self, start: int, end: int) -> list[int]:
        return [e for e in self.entries[start:end] if isinstance(e, int)]

    def first(self, start: int, end: int, time: int) -> int:
        """Returns the first position from ``start`` on with event time >= ``time``, or ``end``."""
        found = (p for p in range(start, end) if isinstance(e := self.entries[p], int) and e >= time)
        return next(found, end)


@dataclass(frozen=True)
class LifeSettings:
    """The settings that vary between lives.

    ``budget``: ``at`` stops at the limit. ``exact_reach``: ``reach`` is the greatest event time, not that of the last
    record. ``reports``: planning learns all event times that tasks read, otherwise only the first one of each range.
    ``sparse``: positions are like sequence numbers of 56 digits, and costs are ``estimate`` times the true ones.
    """

    limit: int | None = None
    max_drift: int = 5
    out_of_orderness: int = 0
    idle_timeout: int = 10
    budget: bool = False
    exact_reach: bool = True
    reports: bool = True
    sparse: bool = False
    estimate: float = 1.0


@dataclass(frozen=True)
class Kept:
    """The part of a split in the offset document."""

    position: int = 0
    read_max: int | None = None
    quiet_since: int | None = None


_FIRST = 4967 * 10**52
_STEP = 2**70 + 6


def sparse(position: int) -> int:
    """Returns a number of 56 digits for a position. Like the numbers of AWS they are even and far apart."""
    return _FIRST + position * _STEP


def dense_of(number: int) -> int:
    position, rest = divmod(number - _FIRST, _STEP)
    assert rest == 0, f"the planner made up the position {number}"
    return position


class SparkWatermark:
    """The watermark of one ``withWatermark`` (WatermarkTracker, WatermarkSupport, IncrementalExecution).

    A row is late when its event time is <= the watermark (also one that equals it). Rows are filtered with the
    watermark of the batch before; a batch without data, which Spark may run between any two, brings it up to date.
    """

    def __init__(self, delay: int) -> None:
        self._delay, self._filter, self._newest = delay, 0, 0

    def batch(self, times: Sequence[int]) -> list[int]:
        """Runs a batch of rows, and returns the rows that are dropped."""
        dropped = [t for t in times if t <= self._filter]
        self._filter = self._newest
        self._newest = max([self._newest, *(t - self._delay for t in times)])
        return dropped

    def no_data_batch(self) -> None:
        self.batch([])


@dataclass(frozen=True)
class Round:
    """One round of a member: the planner's input, its plan, and the contents of the logs.

    If ``held`` is true, nothing was read.
    """

    settings: LifeSettings
    logs: dict[str, SplitLog]
    ends_of_logs: dict[str, int]
    now: int
    floor: int | None
    views: dict[str, SplitView]
    plan: Plan
    rows: dict[str, list[int]]
    calls: int
    held: bool
    sightings: dict[str, list[tuple[int, int]]]

    def cost(self, ends: dict[str, int]) -> int:
        return sum(end - self.views[s].position for s, end in ends.items())

    def moved(self) -> int:
        return self.cost(dict(self.plan.ends))

    def ends_at(self, horizon: float) -> dict[str, int]:
        """Returns the positions where the splits stop if each reads to its first record >= ``horizon``."""
        time = int(min(horizon, 2**62))
        return {s: self.logs[s].first(v.position, v.end, time) for s, v in self.views.items()}

    @cached_property
    def counted(self) -> list[SplitView]:
        """The splits that count: their event times are known, and they are neither finished nor proven idle."""
        return [v for v in self.views.values() if front(v) is not None and not resting(v, self)]

    def caps(self) -> Iterator[tuple[str, int]]:
        """Yields the cap of rule 2 from each split, by id, and from the group."""
        for v in self.counted:
            reach = greatest(v.read_max, v.next, v.reach)
            if not v.final and reach is not None:
                yield v.id, reach + self.settings.max_drift + 1
        if self.floor is not None:
            yield planner.GROUP, self.floor + self.settings.out_of_orderness + self.settings.max_drift + 2

    @cached_property
    def cap(self) -> float:
        """The cap of rule 2, or infinity without a cap."""
        return min((cap for _, cap in self.caps()), default=float("inf"))

    def front_after(self, view: SplitView) -> int | None:
        """Returns the front of a split after the batch, or ``None`` if no event time is left before its final end."""
        end = self.plan.ends[view.id]
        rest = self.logs[view.id].times(end, view.end)
        if view.final and not rest:
            return None
        unanswered_next = view.next if end == view.position else None
        return greatest(view.read_max, *self.rows[view.id], *rest[:1], unanswered_next)


def greatest(*times: int | None) -> int | None:
    return max([t for t in times if t is not None], default=None)


def front(view: SplitView) -> int | None:
    return greatest(view.read_max, view.next)


def resting(view: SplitView, batch: Round) -> SplitStatus | None:
    """Returns FINISHED or IDLE for a split that rests, otherwise ``None``.

    This repeats the rule independently of the planner.
    """
    if view.position < view.end or view.final:
        return SplitStatus.FINISHED if view.position == view.end else None
    timeout, since = batch.settings.idle_timeout, view.quiet_since
    return SplitStatus.IDLE if timeout > 0 and since is not None and batch.now - since > timeout else None


def proven_quiet(view: SplitView, batch: Round) -> bool:
    """Returns whether the same log end was observed at the position more than idle-timeout ago and now."""
    end = batch.ends_of_logs[view.id]
    seen = (moment for moment, at in batch.sightings[view.id] if at == end == view.position)
    answered = view.quiet_since is not None
    return answered and any(batch.now - moment > batch.settings.idle_timeout for moment in seen)


class SimulatedMember:
    """One source: its logs, and the coordinator's loop over them."""

    def __init__(self, settings: LifeSettings, logs: dict[str, SplitLog]) -> None:
        self.settings, self.logs = settings, logs
        self.kept: dict[str, Kept] = {}
        self.stored: dict[str, Kept] = {}
        self.sightings: dict[str, list[tuple[int, int]]] = {}
        self.frozen: dict[str, int] | None = None
        self.published: int | None = None
        self._last_next: dict[str, tuple[int, int | None]] = {}

    def freeze(self) -> None:
        """Begins an AvailableNow run."""
        self.frozen = {s: log.stable for s, log in self.logs.items()}

    def thaw(self) -> None:
        self.frozen = None

    def restart(self) -> None:
        """Drops everything that is in memory only. The offset is kept."""
        self.kept, self._last_next = dict(self.stored), {}

    def view(self, split: str, now: int, answered: bool) -> SplitView:
        kept, log = self.kept.get(split, Kept()), self.logs[split]
        position = kept.position
        if not answered:
            at, last = self._last_next.get(split, (0, None))
            return SplitView(split, position, position, kept.read_max, last if position <= at else None)
        end = log.stable if self.frozen is None else max(position, min(log.stable, self.frozen[split]))
        ahead = log.times(position, end)
        reach = greatest(*(ahead if self.settings.exact_reach else ahead[-1:]))
        quiet = kept.quiet_since
        if quiet is not None:
            quiet = min(quiet, now) if position == len(log.entries) else None
            self.kept[split] = replace(kept, quiet_since=quiet)
        self._last_next[split] = (log.first(position, end, 0), ahead[0] if ahead else None)
        final = self.frozen is not None
        return SplitView(split, position, end, kept.read_max, greatest(*ahead[:1]), reach, quiet, final)

    def positions(self, views: Sequence[SplitView], asked: list[int]) -> PositionsAt:
        def at(horizon: int) -> dict[str, tuple[int, int]]:
            asked.append(horizon)
            answer = {}
            for v in views:
                if v.position < v.end:
                    end = self.logs[v.id].first(v.position, v.end, horizon)
                    if self.settings.budget and self.settings.limit is not None:
                        end = min(end, v.position + self.settings.limit)
                    answer[v.id] = (end, end - v.position)
            return answer

        return at

    def ask(self, views: Sequence[SplitView], now: int, floor: int | None, asked: list[int]) -> Plan:
        s = self.settings
        if s.sparse:
            return self._ask_sparse(views, now, floor, asked)
        return planner.plan(
            views,
            self.positions(views, asked),
            limit=s.limit,
            max_drift=s.max_drift,
            out_of_orderness=s.out_of_orderness,
            idle_timeout=s.idle_timeout,
            now=now,
            floor=floor,
        )

    def _ask_sparse(self, views: Sequence[SplitView], now: int, floor: int | None, asked: list[int]) -> Plan:
        s, dense = self.settings, self.positions(views, asked)
        starts = {v.id: v.position for v in views}

        def rows_before(horizon: int) -> dict[str, int]:
            rows = {split: end - starts[split] for split, (end, _) in dense(horizon).items()}
            return {split: math.ceil(n * s.estimate) for split, n in rows.items()}

        def at(horizon: int) -> dict[str, tuple[int, int]]:
            rows = rows_before(horizon)
            return {split: (sparse(end), rows[split]) for split, (end, _) in dense(horizon).items()}

        def after(rows: Mapping[str, int]) -> dict[str, int]:
            return {split: sparse(starts[split] + n) for split, n in rows.items()}

        plan = planner.plan(
            [replace(v, position=sparse(v.position), end=sparse(v.end)) for v in views],
            at,
            limit=s.limit,
            max_drift=s.max_drift,
            out_of_orderness=s.out_of_orderness,
            idle_timeout=s.idle_timeout,
            now=now,
            floor=floor,
            sparse=SparsePositions(rows_before, after),
        )
        return replace(plan, ends={split: dense_of(end) for split, end in plan.ends.items()})

    def round(
        self, now: int, floor: int | None = None, unanswered: frozenset[str] = frozenset(), hold: bool = False
    ) -> Round:
        """Plans, publishes and reads one batch.

        ``hold`` is for the first plan of a run in a group, which reads nothing.
        """
        names = [s for s in self.logs if self.frozen is None or s in self.frozen]
        views = {s: self.view(s, now, s not in unanswered) for s in names}
        asked: list[int] = []
        plan = self.ask(list(views.values()), now, floor, asked)
        self._publish(plan)
        ends = {s: v.position if hold else plan.ends[s] for s, v in views.items()}
        rows = {s: self.logs[s].times(v.position, ends[s]) for s, v in views.items()}
        seen = {s: list(self.sightings.get(s, [])) for s in views}
        for s, v in views.items():
            self._keep(v, ends[s], rows[s], now, s not in unanswered)
        if any(ends[s] != v.position for s, v in views.items()):
            self.stored = dict(self.kept)
        log_ends = {s: len(self.logs[s].entries) for s in views}
        return Round(
            self.settings, self.logs, log_ends, now, floor, views, plan, rows, len(asked), hold, seen
        )

    def _publish(self, plan: Plan) -> None:
        """Publishes the floor. While no split counts, the last floor is kept, unless all splits rest."""
        at_rest = all(s in (SplitStatus.IDLE, SplitStatus.FINISHED) for s in plan.states.values())
        if plan.own_watermark is not None or at_rest:
            self.published = plan.own_watermark

    def _keep(self, view: SplitView, end: int, rows: list[int], now: int, answered: bool) -> None:
        at_log_end = answered and end == len(self.logs[view.id].entries)
        quiet = self.kept.get(view.id, Kept()).quiet_since
        if answered:
            stood = quiet if end == view.position else None
            quiet = (now if stood is None else stood) if at_log_end else None
        if at_log_end:
            self.sightings.setdefault(view.id, []).append((now, end))
        seen = rows if self.settings.reports else rows[:1]
        self.kept[view.id] = Kept(end, greatest(view.read_max, *seen), quiet)
