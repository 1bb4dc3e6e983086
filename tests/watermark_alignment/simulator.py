"""A small world around the planner: growing logs, the coordinator's loop, Spark's watermark, and I1 to I12.

A :class:`Member` does what the coordinator of one source does: snapshot, plan, read, keep what an offset keeps. A
:class:`World` runs members of one query round by round and notes every breach of an invariant of DESIGN section 2
in :attr:`World.breaches`, each beginning with its number. :func:`random_world` draws a whole life from one source
of randomness. Truth is always taken from the logs, never from the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from watermark_alignment import planner
from watermark_alignment.planner import GROUP, Plan, PositionsAt, SplitView
from watermark_alignment.states import SplitStatus


@dataclass(frozen=True)
class Hidden:
    """What an index by time shows and no row counts for: a marker, an aborted or an implausible record."""

    time: int


Entry = int | Hidden | None
"""The event time of a record; ``None`` for a record without one."""


@dataclass
class Log:
    """One split's data; the last ``open`` entries belong to a transaction that is not decided yet."""

    entries: list[Entry] = field(default_factory=list)
    open: int = 0

    @property
    def stable(self) -> int:
        return len(self.entries) - self.open

    def times(self, start: int, end: int) -> list[int]:
        return [e for e in self.entries[start:end] if isinstance(e, int)]

    def first(self, start: int, end: int, time: int) -> int:
        """The first position from ``start`` on with event time >= ``time``, or ``end``."""
        found = (p for p in range(start, end) if isinstance(e := self.entries[p], int) and e >= time)
        return next(found, end)


@dataclass(frozen=True)
class Settings:
    """``budget``: ``at`` stops at the limit; ``exact_reach``: the greatest event time, else that of the last."""

    limit: int | None = None
    max_drift: int = 5
    out_of_orderness: int = 0
    idle_timeout: int = 10
    budget: bool = False
    exact_reach: bool = True


@dataclass(frozen=True)
class Kept:
    """What the offset document keeps of a split."""

    position: int = 0
    read_max: int | None = None
    quiet_since: int | None = None


class SparkWatermark:
    """The watermark of one ``withWatermark`` (WatermarkTracker, WatermarkSupport, IncrementalExecution).

    A row is late when its event time is <= the watermark (also one that equals it). Rows are filtered with the
    watermark of the batch before; a batch without data, which Spark may run between any two, brings it up to date.
    """

    def __init__(self, delay: int) -> None:
        self._delay, self._filter, self._newest = delay, 0, 0

    def batch(self, times: Sequence[int]) -> list[int]:
        """Run a batch of rows; the rows that are dropped."""
        dropped = [t for t in times if t <= self._filter]
        self._filter = self._newest
        self._newest = max([self._newest, *(t - self._delay for t in times)])
        return dropped

    def no_data_batch(self) -> None:
        self.batch([])


@dataclass(frozen=True)
class Batch:
    """One round of a member: what the planner saw, what it said, and what was so."""

    settings: Settings
    logs: dict[str, Log]
    ends_of_logs: dict[str, int]
    now: int
    floor: int | None
    views: dict[str, SplitView]
    plan: Plan
    rows: dict[str, list[int]]
    calls: int
    sightings: dict[str, list[tuple[int, int]]]

    def cost(self, ends: dict[str, int]) -> int:
        return sum(end - self.views[s].position for s, end in ends.items())

    def moved(self) -> int:
        return self.cost(dict(self.plan.ends))

    def ends_at(self, horizon: float) -> dict[str, int]:
        """Where the splits stop that read to their first record >= ``horizon``."""
        time = int(min(horizon, 2**62))
        return {s: self.logs[s].first(v.position, v.end, time) for s, v in self.views.items()}

    def counted(self) -> list[SplitView]:
        """The splits that count: something known of them, not finished, not proven idle."""
        return [v for v in self.views.values() if front(v) is not None and not resting(v, self)]

    def cap(self) -> float:
        """The cap of rule 2, and infinity if there is none."""
        reaches = [greatest(v.read_max, v.next, v.reach) for v in self.counted() if not v.final]
        caps = [reach + self.settings.max_drift + 1 for reach in reaches if reach is not None]
        if self.floor is not None:
            caps.append(self.floor + self.settings.out_of_orderness + self.settings.max_drift + 2)
        return min(caps, default=float("inf"))

    def front_after(self, view: SplitView) -> int | None:
        """The front of a split once the batch has run; ``None`` if it has come to its end for good."""
        end = self.plan.ends[view.id]
        rest = self.logs[view.id].times(end, view.end)
        if view.final and not rest:
            return None
        unanswered_next = view.next if end == view.position else None
        return greatest(view.read_max, *self.rows[view.id], *rest[:1], unanswered_next)


def greatest(*times: int | None) -> int | None:
    return max((t for t in times if t is not None), default=None)


def front(view: SplitView) -> int | None:
    return greatest(view.read_max, view.next)


def resting(view: SplitView, batch: Batch) -> bool:
    """Finished or proven idle, told from the sightings of the log end and not from the view's own moment."""
    if view.position < view.end or view.final:
        return view.position >= view.end and view.final
    timeout = batch.settings.idle_timeout
    end = batch.ends_of_logs[view.id]
    proven = any(at == end and batch.now - moment > timeout for moment, at in batch.sightings[view.id])
    return timeout > 0 and view.quiet_since is not None and view.position == end and proven


class Member:
    """One source: its logs and the coordinator's loop over them."""

    def __init__(self, settings: Settings, logs: dict[str, Log]) -> None:
        self.settings, self.logs = settings, logs
        self.kept: dict[str, Kept] = {}
        self.stored: dict[str, Kept] = {}
        self.sightings: dict[str, list[tuple[int, int]]] = {}
        self.frozen: dict[str, int] | None = None
        self.published: int | None = None
        self._last_next: dict[str, tuple[int, int | None]] = {}

    def freeze(self) -> None:
        """Begin an AvailableNow run."""
        self.frozen = {s: log.stable for s, log in self.logs.items()}

    def thaw(self) -> None:
        self.frozen = None

    def restart(self) -> None:
        """Lose the memory; the offset stays."""
        self.kept, self._last_next = dict(self.stored), {}

    def view(self, split: str, now: int, answered: bool) -> SplitView:
        kept, log = self.kept.get(split, Kept()), self.logs[split]
        position = kept.position
        if not answered:
            at, last = self._last_next.get(split, (0, None))
            return SplitView(split, position, position, kept.read_max, last if position <= at else None)
        end = log.stable if self.frozen is None else max(position, min(log.stable, self.frozen[split]))
        ahead = log.times(position, end)
        reach = max(ahead, default=None) if self.settings.exact_reach else (ahead or [None])[-1]
        quiet = kept.quiet_since
        if quiet is not None:
            quiet = min(quiet, now) if position == len(log.entries) else None
            self.kept[split] = replace(kept, quiet_since=quiet)
        self._last_next[split] = (log.first(position, end, 0), ahead[0] if ahead else None)
        final = self.frozen is not None
        return SplitView(split, position, end, kept.read_max, (ahead or [None])[0], reach, quiet, final)

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

    def round(self, now: int, floor: int | None = None, unanswered: frozenset[str] = frozenset()) -> Batch:
        """Plan and read one batch; publish on the way."""
        names = [s for s in self.logs if self.frozen is None or s in self.frozen]
        views = {s: self.view(s, now, s not in unanswered) for s in names}
        asked: list[int] = []
        plan = self.ask(list(views.values()), now, floor, asked)
        resting_words = (SplitStatus.IDLE, SplitStatus.FINISHED)
        if plan.floor is not None or all(s in resting_words for s in plan.states.values()):
            self.published = plan.floor
        rows = {s: self.logs[s].times(v.position, plan.ends[s]) for s, v in views.items()}
        ends = {s: len(self.logs[s].entries) for s in views}
        seen = {s: list(self.sightings.get(s, [])) for s in views}
        for s, v in views.items():
            self._keep(v, plan.ends[s], rows[s], now, s not in unanswered)
        if any(plan.ends[s] != v.position for s, v in views.items()):
            self.stored = dict(self.kept)
        return Batch(self.settings, self.logs, ends, now, floor, views, plan, rows, len(asked), seen)

    def _keep(self, view: SplitView, end: int, rows: list[int], now: int, answered: bool) -> None:
        at_log_end = answered and end == len(self.logs[view.id].entries)
        quiet = self.kept.get(view.id, Kept()).quiet_since
        if answered:
            stood = quiet if end == view.position else None
            quiet = (now if stood is None else stood) if at_log_end else None
        if at_log_end:
            self.sightings.setdefault(view.id, []).append((now, end))
        self.kept[view.id] = Kept(end, greatest(view.read_max, *rows), quiet)


class World:
    """Members whose rows meet in one query with one watermark, ``delay`` by default the least that is safe."""

    def __init__(self, members: Sequence[Member], delay: int | None = None, no_data_batches: bool = True) -> None:
        self.members = list(members)
        safe = max(m.settings.max_drift + m.settings.out_of_orderness + 1 for m in self.members)
        self.spark = SparkWatermark(safe if delay is None else delay)
        self.breaches: list[str] = []
        self.batches: list[Batch] = []
        self._no_data_batches = no_data_batches
        self._read_max: int | None = None
        self._covered: set[str] = set()
        self._last: dict[int, Batch] = {}

    def floor_for(self, member: Member) -> int | None:
        others = [m.published for m in self.members if m is not member and m.published is not None]
        return min(others, default=None)

    def round(self, now: int, member: int = 0, unanswered: frozenset[str] = frozenset()) -> Batch:
        m = self.members[member]
        batch = m.round(now, self.floor_for(m), unanswered)
        before, times = self._read_max, [t for rows in batch.rows.values() for t in rows]
        self._read_max = greatest(before, *times)
        covered = self._cover(batch, before)
        self.breaches += checks(batch, self._last.get(member))
        self.breaches += i3(batch, before, self._read_max)
        if self._no_data_batches:
            self.spark.no_data_batch()
        dropped = set(self.spark.batch(times))
        lost = {s: [t for t in batch.rows[s] if t in dropped and t > 0] for s in covered}
        self.breaches += [f"I4 {s} lost {times}" for s, times in lost.items() if times]
        self._last[member] = batch
        self.batches.append(batch)
        return batch

    def _cover(self, batch: Batch, read_max: int | None) -> set[str]:
        """The splits of the batch that count since before the others passed them."""
        counted = {v.id: f for v in batch.counted() if (f := front(v)) is not None}
        drift = batch.settings.max_drift
        now = {s for s, f in counted.items() if read_max is None or read_max - f <= drift}
        covered = now | (self._covered & set(counted))
        self._covered = (self._covered - set(batch.views)) | covered
        return covered


def checks(b: Batch, last: Batch | None) -> Iterator[str]:
    """Breaches of what one plan, or two in a row, must hold."""
    limit, horizon, ends = b.settings.limit, b.plan.horizon, b.plan.ends
    for s, v in b.views.items():
        if not v.position <= ends[s] <= v.end:
            yield f"I1 {s} reads {v.position}..{ends[s]}, may read to {v.end}"
        if horizon is not None and any(t >= horizon for t in b.rows[s]):
            yield f"I1 {s} read {b.rows[s]} at horizon {horizon}"
    if limit is not None and b.moved() > limit:
        yield f"I2 cost {b.moved()} > {limit}"
    yield from i5(b)
    if b.moved() == 0 and any(
        v.position < v.end and (v.next is None or v.next < b.cap()) for v in b.views.values()
    ):
        yield f"I6 nothing moves below {b.cap()}"
    if not (b.settings.budget and b.moved() == limit):
        yield from i7(b)
    shuffled = dict(reversed(b.views.items())).values()
    if Member(b.settings, b.logs).ask(list(shuffled), b.now, b.floor, []) != b.plan:
        yield "I8 the order of splits matters"
    for s, v in b.views.items():
        if b.plan.states[s] in (SplitStatus.IDLE, SplitStatus.FINISHED) and not resting(v, b):
            yield f"I9 {s} is {b.plan.states[s]} at {b.now}: {v}"
        fallen = last is not None and s in {w.id for w in last.counted()} and s in {w.id for w in b.counted()}
        if (b.plan.fronts[s] is None) != (front(v) is None):
            yield f"I10 front of {s} is {b.plan.fronts[s]}: {v}"
        elif fallen and last is not None and (b.plan.fronts[s] or 0) < (last.plan.fronts[s] or 0):
            yield f"I10 front of {s} fell from {last.plan.fronts[s]} to {b.plan.fronts[s]}"
    readable = any(v.position < v.end for v in b.views.values())
    if readable and b.moved() == 0 and b.plan.held_by not in holders(b):
        yield f"I11 nothing moves, held by {b.plan.held_by}, not by one of {holders(b)}"


def holders(b: Batch) -> set[str]:
    """Those that are behind the earliest readable record by more than max-drift."""
    behind = {v.id for v in b.counted() if not v.final and v.position == v.end}
    if b.floor is not None:
        behind.add(GROUP)
    return behind


def i3(b: Batch, before: int | None, after: int | None) -> Iterator[str]:
    """At the boundary nobody that counts is left behind by more than max-drift, unless it came back so."""
    if after is None or after == before:
        return
    for v in b.counted():
        reached = b.front_after(v)
        if reached is not None and after - reached > b.settings.max_drift:
            yield f"I3 {v.id} at {reached}, {after} was read"
    if b.floor is not None and after - (b.floor + b.settings.out_of_orderness + 1) > b.settings.max_drift:
        yield f"I3 group at watermark {b.floor}, {after} was read"


def i5(b: Batch) -> Iterator[str]:
    """PAUSED has a witness; the earliest is paused only by a named holder that is far enough behind."""
    horizon = b.plan.horizon
    paused = {s for s, state in b.plan.states.items() if state is SplitStatus.PAUSED}
    for s in paused:
        v = b.views[s]
        witness = b.logs[s].times(v.position, v.end)[:1]
        if b.plan.ends[s] != v.position or horizon is None or not witness or witness[0] < horizon:
            yield f"I5 {s} is paused at {horizon} before {witness}"
    known = [v.next for v in b.views.values() if v.position < v.end and v.next is not None]
    earliest = [v.id for v in b.views.values() if v.position < v.end and v.next == min(known, default=None)]
    if paused & set(earliest) and (b.plan.held_by is None or b.cap() > min(known)):
        yield f"I5 earliest {earliest} is paused, held by {b.plan.held_by}, cap {b.cap()}"
    expected = {v.id: greatest(v.read_max, v.next, v.reach) for v in b.counted() if not v.final}
    reach = expected.get(b.plan.held_by or "")
    if b.plan.held_by not in (None, GROUP) and (reach is None or reach + b.settings.max_drift + 1 != b.cap()):
        yield f"I5 held by {b.plan.held_by}, which does not set the cap {b.cap()}"


def i7(b: Batch) -> Iterator[str]:
    """The ends are those of the greatest horizon that fits; else the smallest step is shared to the last unit."""
    limit = float("inf") if b.settings.limit is None else b.settings.limit
    times = {t for v in b.views.values() for t in b.logs[v.id].times(v.position, v.end)}
    earliest = min((v.next for v in b.views.values() if v.position < v.end and v.next is not None), default=0)
    borders = sorted(times | {t + 1 for t in times})
    steps = [*(t for t in borders if earliest < t < b.cap()), b.cap()]
    fitting = [step for step in steps if b.cost(b.ends_at(step)) <= limit]
    if fitting:
        if b.ends_at(fitting[-1]) != dict(b.plan.ends):
            yield f"I7 ends {b.plan.ends}, not {b.ends_at(fitting[-1])} of horizon {fitting[-1]}"
        return
    most = b.ends_at(steps[0])
    given = {s: b.plan.ends[s] - v.position for s, v in b.views.items()}
    unfed = [given[s] for s, end in most.items() if b.plan.ends[s] < end]
    if b.moved() != limit or any(b.plan.ends[s] > end for s, end in most.items()):
        yield f"I7 the smallest step takes {b.moved()} of {limit}"
    if max(given.values()) - min(unfed) > 1:
        yield f"I7 the limit is not shared equally: {given}"


def random_world(rng: Random, rounds: int = 12, **fixed: object) -> World:
    """A life of up to four splits of one source; ``fixed`` overrides settings."""
    settings = Settings(
        limit=rng.choice([None, 1, 2, 3, 5, 9]),
        max_drift=rng.choice([0, 1, 3, 8]),
        out_of_orderness=rng.choice([0, 0, 2]),
        idle_timeout=rng.choice([0, 5, 20]),
        budget=rng.random() < 0.25,
        exact_reach=rng.random() < 0.7,
    )
    settings = replace(settings, **fixed)  # type: ignore[arg-type]
    member = Member(settings, {})
    world = World([member])
    now = 1000
    for turn in range(rounds):
        if turn == 0 or rng.random() < 0.1:
            for _ in range(rng.randrange(1, 4) if turn == 0 else 1):
                member.logs[f"s{len(member.logs)}"] = Log([rng.randrange(1, 25)] if rng.random() < 0.8 else [])
        for log in member.logs.values():
            if rng.random() < 0.5:
                grow(rng, log, settings.out_of_orderness)
        now += rng.choice([0, 1, 4, 15, 40]) if rng.random() < 0.95 else -30
        event = rng.random()
        if event < 0.1:
            member.restart()
        elif event < 0.2:
            member.freeze()
        elif event < 0.3:
            member.thaw()
        silent = [s for s in member.logs if event > 0.3 and rng.random() < 0.1]
        for _ in range(rng.randrange(1, 4)):
            world.round(now, unanswered=frozenset(silent))
    return world


def grow(rng: Random, log: Log, out_of_orderness: int) -> None:
    """Append some records, as disordered as is allowed; sometimes leave a transaction open."""
    stable = log.stable
    top = max(log.times(0, len(log.entries)), default=rng.randrange(1, 25))
    for _ in range(rng.choice([1, 2, 5])):
        kind = rng.random()
        if kind < 0.8:
            top += rng.choice([0, 0, 1, 2, 12])
            fallen_back = rng.randrange(out_of_orderness + 1)
            log.entries.append(max(1, top - fallen_back))
            top = max(log.times(0, len(log.entries)))
        else:
            log.entries.append(None if kind < 0.85 else Hidden(rng.choice([0, top, top + 3, 10**9])))
    log.open = rng.choice([0, 0, 0, rng.randrange(len(log.entries) - stable + 1)])
