"""Checks the invariants I1 to I12 in every round of a :class:`AlignedMembers`, against the contents of the logs.

Every breach begins with the number of the invariant. I11 and I12 also have tests over whole lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from tests.watermark_alignment.support.simulator import (
    Entry,
    Hidden,
    LifeSettings,
    Round,
    SimulatedMember,
    SparkWatermark,
    SplitLog,
    front,
    greatest,
    proven_quiet,
    resting,
)
from watermark_alignment.planner import SplitView
from watermark_alignment.states import SplitStatus


class AlignedMembers:
    """Members whose rows are read by one query with one watermark. By default ``delay`` is the least safe delay."""

    def __init__(
        self, members: Sequence[SimulatedMember], delay: int | None = None, no_data_batches: bool = True
    ) -> None:
        self.members = list(members)
        safe = max(m.settings.max_drift + m.settings.out_of_orderness + 1 for m in self.members)
        self.spark = SparkWatermark(safe if delay is None else delay)
        self.breaches: list[str] = []
        self.batches: list[Round] = []
        self._no_data_batches = no_data_batches
        self._read_max: int | None = None
        self._covered: set[str] = set()
        self._last: dict[int, Round] = {}
        self._started: set[int] = set()

    def floor_for(self, member: SimulatedMember) -> int | None:
        others = [m.published for m in self.members if m is not member and m.published is not None]
        return min(others, default=None)

    def restart(self, member: int) -> None:
        self.members[member].restart()
        self._started.discard(member)

    def round(self, now: int, member: int = 0, unanswered: frozenset[str] = frozenset()) -> Round:
        """Runs one round of a member, and Spark's watermark over its rows.

        In a group, a member's first round only publishes.
        """
        m = self.members[member]
        if len(self.members) > 1 and member not in self._started:
            m.round(now, self.floor_for(m), unanswered, hold=True)
        self._started.add(member)
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

    def breached(self, *invariants: str) -> list[str]:
        """Returns the breaches of some invariants."""
        return [breach for breach in self.breaches if breach.split()[0] in invariants]

    def _cover(self, batch: Round, read_max: int | None) -> set[str]:
        """Returns the splits of the batch whose rows Spark must not drop as late (I4).

        They count for the horizon, and have done so since the other splits were at most max-drift ahead of them.
        """
        counted = {v.id: f for v in batch.counted if (f := front(v)) is not None}
        drift = batch.settings.max_drift
        now = {s for s, f in counted.items() if read_max is None or read_max - f <= drift}
        covered = now | (self._covered & set(counted))
        finished = {s for s, v in batch.views.items() if v.final and batch.front_after(v) is None}
        self._covered = (self._covered - set(batch.views)) | (covered - finished)
        return covered


def checks(b: Round, last: Round | None) -> Iterator[str]:
    """Yields breaches of the invariants of one plan, or of two consecutive plans."""
    limit, horizon, ends = b.settings.limit, b.plan.horizon, b.plan.ends
    for s, v in b.views.items():
        if not v.position <= ends[s] <= v.end:
            yield f"I1 {s} reads {v.position}..{ends[s]}, may read to {v.end}"
        if horizon is not None and any(t >= horizon for t in b.rows[s]):
            yield f"I1 {s} read {b.rows[s]} at horizon {horizon}"
    by_estimates = b.settings.sparse and b.settings.estimate != 1.0
    if limit is not None and b.moved() > limit and not by_estimates:
        yield f"I2 cost {b.moved()} > {limit}"
    yield from i5(b)
    if b.moved() == 0 and any(
        v.position < v.end and (v.next is None or v.next < b.cap) for v in b.views.values()
    ):
        yield f"I6 nothing moves below {b.cap}"
    if not by_estimates and not (b.settings.budget and b.moved() == limit):
        yield from i7(b)
    if limit is None and not b.settings.sparse:
        yield from i12(b)
    shuffled = dict(reversed(b.views.items())).values()
    if SimulatedMember(b.settings, b.logs).ask(list(shuffled), b.now, b.floor, []) != b.plan:
        yield "I8 the order of splits matters"
    resting_words = {SplitStatus.IDLE, SplitStatus.FINISHED}
    went_on_counting = {v.id for v in b.counted} & {v.id for v in (last.counted if last is not None else ())}
    for s, v in b.views.items():
        if (b.plan.states[s] if b.plan.states[s] in resting_words else None) != resting(v, b):
            yield f"I9 {s} is {b.plan.states[s]} at {b.now}: {v}"
        if b.plan.states[s] is SplitStatus.IDLE and not proven_quiet(v, b):
            yield f"I9 {s} is idle at {b.now}, seen {b.sightings[s]}"
        if (b.plan.fronts[s] is None) != (front(v) is None):
            yield f"I10 front of {s} is {b.plan.fronts[s]}: {v}"
        elif (
            s in went_on_counting
            and last is not None
            and (b.plan.fronts[s] or 0) < (last.plan.fronts[s] or 0)
        ):
            yield f"I10 front of {s} fell from {last.plan.fronts[s]} to {b.plan.fronts[s]}"
    least = min((f for v in b.counted if (f := front(v)) is not None), default=None)
    if b.plan.own_watermark != (None if least is None else least - b.settings.out_of_orderness - 1):
        yield f"I11 others are told the floor {b.plan.own_watermark}, the least front that counts is {least}"
    readable = any(v.position < v.end for v in b.views.values())
    if readable and b.moved() == 0 and b.plan.held_by not in holders(b):
        yield f"I11 nothing moves, held by {b.plan.held_by}, not by one of {holders(b)}"


def holders(b: Round) -> set[str]:
    """Returns the splits and members that hold the others: those by whose reach or floor the cap is set."""
    return {name for name, cap in b.caps() if cap == b.cap}


def i3(b: Round, before: int | None, after: int | None) -> Iterator[str]:
    """Yields the breaches of I3.

    After the batch no split that counts is behind by more than max-drift, unless it became active so far behind.
    """
    if after is None or after == before:
        return
    for v in b.counted:
        reached = b.front_after(v)
        if reached is not None and after - reached > b.settings.max_drift:
            yield f"I3 {v.id} at {reached}, {after} was read"
    if b.floor is not None and after - (b.floor + b.settings.out_of_orderness + 1) > b.settings.max_drift:
        yield f"I3 group at watermark {b.floor}, {after} was read"


def i5(b: Round) -> Iterator[str]:
    """Yields the breaches of I5.

    Each PAUSED split has a record after the horizon. The earliest split is paused only by a named holder far behind.
    """
    horizon = b.plan.horizon
    paused = {s for s, state in b.plan.states.items() if state is SplitStatus.PAUSED}
    for s in paused:
        v = b.views[s]
        witness = b.logs[s].times(v.position, v.end)[:1]
        if b.plan.ends[s] != v.position or horizon is None or not witness or witness[0] < horizon:
            yield f"I5 {s} is paused at {horizon} before {witness}"
    known = [v.next for v in b.views.values() if v.position < v.end and v.next is not None]
    earliest = [v.id for v in b.views.values() if v.position < v.end and v.next == min(known, default=None)]
    if paused & set(earliest) and (b.plan.held_by is None or b.cap > min(known)):
        yield f"I5 earliest {earliest} is paused, held by {b.plan.held_by}, cap {b.cap}"
    if b.plan.held_by is not None and b.plan.held_by not in holders(b):
        yield f"I5 held by {b.plan.held_by}, which does not set the cap {b.cap}"


def i7(b: Round) -> Iterator[str]:
    """Yields the breaches of I7.

    The ends are those of the greatest horizon that fits. If none fits, the smallest step is shared evenly.
    """
    limit = float("inf") if b.settings.limit is None else b.settings.limit
    times = {t for v in b.views.values() for t in b.logs[v.id].times(v.position, v.end)}
    earliest = min((v.next for v in b.views.values() if v.position < v.end and v.next is not None), default=0)
    borders = sorted(times | {t + 1 for t in times})
    steps = [*(t for t in borders if earliest < t < b.cap), b.cap]
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


def i12(b: Round) -> Iterator[str]:
    """Yields the breaches of I12 in a plan without a limit; a limit would count all entries.

    The plan for logs that have records alone has the same horizon and reads the same records. The state of a split that
    has other entries to read may differ: it is ACTIVE while it reads them, and neither IDLE nor FINISHED, so that a
    split with nothing else counts. Plans with such a split are left out.
    """
    logs = {s: SplitLog([*log.times(0, len(log.entries))]) for s, log in b.logs.items()}

    def records(split: str, position: int) -> int:
        return len(b.logs[split].times(0, position))

    views = [
        replace(v, position=records(v.id, v.position), end=records(v.id, v.end)) for v in b.views.values()
    ]
    if any(resting(v, b) != resting(b.views[v.id], b) for v in views):
        return
    plan = SimulatedMember(b.settings, logs).ask(views, b.now, b.floor, [])
    expected = replace(
        b.plan,
        ends={s: records(s, end) for s, end in b.plan.ends.items()},
        states={**b.plan.states, **{v.id: plan.states[v.id] for v in views if is_littered(b.views[v.id], v)}},
        held_by=plan.held_by,
    )
    if plan != expected:
        yield f"I12 {plan} without the entries that do not count, not {expected}"


def is_littered(view: SplitView, records_alone: SplitView) -> bool:
    """Returns whether a split has entries to read that do not count."""
    return view.end - view.position > records_alone.end - records_alone.position


def what_others_see(batch: Round, littered: str) -> tuple[object, ...]:
    """Returns what is the same with and without entries that do not count in the log of a split, save its own state."""
    plan = batch.plan
    states = {s: state for s, state in plan.states.items() if s != littered}
    return batch.rows, plan.horizon, plan.fronts, plan.own_watermark, plan.cut, states


def littered_world(rng: Random) -> AlignedMembers:
    """Runs a life without and with entries that do not count in the log of one split, and returns the latter.

    Its breaches include rounds in which the other splits were planned in another way.
    """
    drawn = LifeSettings(max_drift=rng.randrange(6), idle_timeout=10, exact_reach=rng.random() < 0.5)
    plain, littered = ({f"s{i}": SplitLog() for i in range(3)} for _ in range(2))
    without, world = (AlignedMembers([SimulatedMember(drawn, logs)]) for logs in (plain, littered))
    now = 1000
    for _ in range(8):
        now += rng.randrange(8)
        for s, log in plain.items():
            had = len(log.entries)
            if rng.random() < 0.6:
                grow(rng, log, 0)
                log.entries[had:], log.open = log.times(had, len(log.entries)), 0
            arrived = log.entries[had:]
            littered[s].entries += litter(rng, arrived) if s == "s1" and arrived else arrived
        first, second = (what_others_see(each.round(now), "s1") for each in (without, world))
        if first != second:
            world.breaches.append(f"I12 {second} with entries that do not count, not {first}")
    world.breaches += without.breaches
    return world


def litter(rng: Random, arrived: list[Entry]) -> list[Entry]:
    """Returns the same records with up to five entries that do not count before, between and after them."""
    littered = list(arrived)
    for _ in range(rng.randrange(6)):
        entry = rng.choice([None, Hidden(0), Hidden(20), Hidden(10**9)])
        littered.insert(rng.randrange(len(littered) + 1), entry)
    return littered


def random_world(rng: Random, rounds: int = 10, members: int = 1, **fixed: object) -> AlignedMembers:
    """Runs a random life of sources with up to four splits each. ``fixed`` overrides settings."""
    world = AlignedMembers([SimulatedMember(random_settings(rng, fixed), {}) for _ in range(members)])
    now = 1000
    for turn in range(rounds):
        now += rng.choice([0, 1, 4, 15, 40]) if rng.random() < 0.95 else -30
        for number, m in enumerate(world.members):
            for _ in range(rng.randrange(1, 4) if turn == 0 else rng.random() < 0.1):
                start: list[Entry] = [rng.randrange(1, 25)] if rng.random() < 0.8 else []
                m.logs[f"{number}-{len(m.logs)}"] = SplitLog(start)
            for log in m.logs.values():
                if rng.random() < 0.5:
                    grow(rng, log, m.settings.out_of_orderness)
            event = rng.random()
            if event < 0.1:
                world.restart(number)
            elif event < 0.3:
                m.freeze() if event < 0.2 else m.thaw()
            silent = frozenset(s for s in m.logs if event > 0.3 and rng.random() < 0.1)
            for _ in range(rng.randrange(1, 4)):
                world.round(now, number, silent)
    return world


def endless_ties(rng: Random) -> AlignedMembers:
    """Runs splits with many records of one millisecond and a limit below their number. No split may starve."""
    names = [f"s{i}" for i in range(rng.randrange(2, 6))]
    settings = LifeSettings(limit=rng.randrange(1, len(names)))
    member = SimulatedMember(settings, {s: SplitLog([7] * rng.randrange(60, 80)) for s in names})
    world = AlignedMembers([member])
    rounds = [world.round(1000) for _ in range(4 * len(names))]
    for i in range(len(rounds) - len(names)):
        fed = {s for b in rounds[i : i + len(names)] for s in names if b.rows[s]}
        world.breaches += [f"I6 {s} starves from batch {i} on" for s in names if s not in fed]
    return world


def random_settings(rng: Random, fixed: Mapping[str, object]) -> LifeSettings:
    drawn = LifeSettings(
        limit=rng.choice([None, 1, 2, 3, 5, 9]),
        max_drift=rng.choice([0, 1, 3, 8]),
        out_of_orderness=rng.choice([0, 0, 2]),
        idle_timeout=rng.choice([0, 5, 20]),
        budget=rng.random() < 0.25,
        exact_reach=rng.random() < 0.7,
        reports=rng.random() < 0.8,
    )
    return replace(drawn, **fixed)  # type: ignore[arg-type]


def grow(rng: Random, log: SplitLog, out_of_orderness: int) -> None:
    """Appends some records, as disordered as allowed. Sometimes a transaction is left open."""
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
