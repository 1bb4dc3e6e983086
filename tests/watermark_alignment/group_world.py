"""A group around the planner: members with logs, triggers, batches and clocks of their own, who meet on a board.

A member's heart beats while a batch of it runs. It may be stopped or frozen, die, be restarted from its offset, finish,
fall idle, and come back behind. Who is there, and what holds, is found from entries by
:mod:`watermark_alignment.group`; what must hold is checked against what the members really did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.watermark_alignment.group_entries import entry
from tests.watermark_alignment.invariants import checks, grow, random_settings
from tests.watermark_alignment.simulator import Batch, Log, Member, front
from watermark_alignment import group
from watermark_alignment.group import Entry, GroupView
from watermark_alignment.planner import GROUP

TIMEOUT = 60
BEAT = TIMEOUT // 4
LONG_AGO = -(10**6)


@dataclass
class Seat:
    """One member: its source, when it plans, and what it has seen of the others.

    Attributes:
        member: the source.
        said: what it says of itself.
        interval: of its trigger.
        length: of a batch that reads something.
        stale: how old the group's minimum may be.
        offset: of its clock from that of the world.
        counting: since when each of its splits has counted in all its plans.
        covered: splits of others that it must not pass by more than is allowed, as far as it knows of them.
    """

    member: Member
    said: Entry
    interval: int = 1
    length: int = 1
    stale: int = 0
    offset: int = 0
    view: GroupView = field(default_factory=GroupView)
    next_version: int = 0
    looked_at: int = LONG_AGO
    next_plan: int = 0
    next_beat: int = 0
    said_at: int = 0
    has_announced: bool = False
    is_there: bool = True
    frozen_until: int = 0
    last: Batch | None = None
    read_max: int | None = None
    counting: dict[str, int] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.said.source

    def bound(self, other: Seat) -> int:
        """How far ahead of a front of ``other`` this one may read."""
        own, its = self.member.settings, other.member.settings
        return own.max_drift + own.out_of_orderness - its.out_of_orderness


class GroupWorld:
    """Notes every breach of an invariant."""

    def __init__(self, seats: list[Seat]) -> None:
        self.seats = seats
        self.board: list[Entry] = []
        self.breaches: list[str] = []
        self.now = 0
        self.batches: list[Batch] = []

    def tick(self) -> None:
        """One unit of time: whoever is due beats or plans."""
        self.now += 1
        for seat in self.seats:
            if seat.is_there and self.now >= seat.frozen_until:
                if seat.has_announced and self.now >= seat.next_beat:
                    self._say(seat, seat.said.watermark)
                if self.now >= seat.next_plan:
                    self.plan(seat)

    def plan(self, seat: Seat) -> Batch:
        """A plan and its batch; the next plan is due when the batch has run and the trigger says so."""
        seat.is_there = True
        was_held = seat.last is not None and seat.last.plan.held_by == GROUP
        if was_held or self.now - seat.looked_at > seat.stale:
            self._look(seat)
        if self._would_hold(seat) and seat.looked_at != self.now:
            self._look(seat)
        announces = not seat.has_announced
        batch = seat.member.round(self.now, self._floor(seat), hold=announces)
        self.breaches += checks(batch, seat.last)
        if batch.plan.held_by == GROUP and seat.looked_at != self.now:
            self.breaches.append(f"I11 {seat.name} is held by what it read before")
        self._publish(seat, batch)
        if not announces:
            self._read(seat, batch)
        seat.looked_at = LONG_AGO if announces else seat.looked_at
        seat.last = batch
        seat.next_plan = self.now + max(seat.interval, seat.length if batch.moved() else 1)
        self.batches.append(batch)
        return batch

    def stop(self, seat: Seat, *, says_so: bool) -> None:
        """It is stopped, and says good-bye, or dies."""
        seat.is_there = False
        if says_so and seat.has_announced:
            self.board.append(seat.said.leaving())

    def restart(self, seat: Seat) -> None:
        """Another run, from the offset; it has seen nothing yet."""
        seat.member.restart()
        seat.said = entry(
            seat.name, run=str(self.now), began=self.now + seat.offset + 1000, timeout_ms=TIMEOUT
        )
        seat.view, seat.next_version, seat.looked_at = GroupView(), 0, LONG_AGO
        seat.has_announced, seat.is_there, seat.last, seat.next_plan = False, True, None, self.now
        seat.counting, seat.covered = {}, set()

    def _look(self, seat: Seat) -> None:
        clock = self.now + seat.offset
        for version in range(seat.next_version, len(self.board)):
            seat.view = seat.view.after(version, self.board[version], clock)
        seat.view = seat.view.without_the_dead(seat.said.key, clock, TIMEOUT)
        seat.next_version, seat.looked_at = len(self.board), self.now

    def _floor(self, seat: Seat) -> int | None:
        return seat.view.floor(seat.said.key, seat.looked_at + seat.offset, TIMEOUT)

    def _would_hold(self, seat: Seat) -> bool:
        member = seat.member
        names = [s for s in member.logs if member.frozen is None or s in member.frozen]
        views = [member.view(s, self.now, answered=True) for s in names]
        return member.ask(views, self.now, self._floor(seat), []).held_by == GROUP

    def _publish(self, seat: Seat, batch: Batch) -> None:
        watermark = group.watermark_to_publish(batch.plan, seat.said.watermark, no_more=True)
        if not seat.has_announced or watermark != seat.said.watermark:
            self._say(seat, watermark)
        seat.has_announced = True
        counted = {v.id for v in batch.counted()}
        seat.counting = {split: seat.counting.get(split, self.now) for split in counted}

    def _say(self, seat: Seat, watermark: int | None) -> None:
        seat.said = seat.said.next(watermark)
        seat.said_at, seat.next_beat = self.now, self.now + BEAT
        self.board.append(seat.said)

    def _read(self, seat: Seat, batch: Batch) -> None:
        before = seat.read_max
        times = [t for rows in batch.rows.values() for t in rows]
        seat.read_max = max([*times, *([] if before is None else [before])], default=None)
        covered = set()
        for other in self.seats:
            if other is not seat:
                covered |= self._cover(seat, other, before)
        seat.covered = covered
        if times:
            self.breaches += self._i3(seat)

    def _cover(self, seat: Seat, other: Seat, read_max: int | None) -> set[str]:
        """Splits that ``seat`` knows to count, and that it had not passed when it came to know it."""
        is_member = other.is_there and other.has_announced and self.now - other.said_at <= TIMEOUT
        if not is_member or other.last is None:
            return set()
        known = {s for s, since in other.counting.items() if since <= seat.looked_at}
        near = {s for s in known if read_max is None or read_max - fronts(other)[s] <= seat.bound(other)}
        return near | (known & seat.covered)

    def _i3(self, seat: Seat) -> Iterator[str]:
        for other in self.seats:
            for split in seat.covered & set(other.counting):
                assert seat.read_max is not None
                if seat.read_max - fronts(other)[split] > seat.bound(other):
                    yield f"I3 {seat.name} has read {seat.read_max} at {self.now}, {split} is at {fronts(other)[split]}"


def fronts(seat: Seat) -> dict[str, int]:
    """Of the splits that counted in its last plan, as they were then."""
    assert seat.last is not None
    return {v.id: at for v in seat.last.counted() if (at := front(v)) is not None}


def random_group(rng: Random, ticks: int, **fixed: object) -> GroupWorld:
    """A life of two to four members, with all that befalls them."""
    seats = []
    for number in range(rng.randrange(2, 5)):
        settings = random_settings(rng, {"budget": False, **fixed})
        logs = {f"{number}-{i}": Log([rng.randrange(1, 25)]) for i in range(rng.randrange(1, 3))}
        seats.append(
            Seat(
                Member(settings, logs),
                entry(f"m{number}", timeout_ms=TIMEOUT),
                interval=rng.choice([1, 1, 5, 100]),
                length=rng.choice([1, 3, 100]),
                stale=rng.choice([0, 1, 10]),
                offset=rng.randrange(-50, 50),
            )
        )
    world = GroupWorld(seats)
    for _ in range(ticks):
        for seat in seats:
            befall(rng, world, seat)
        world.tick()
    return world


def befall(rng: Random, world: GroupWorld, seat: Seat) -> None:
    """Data come; now and then something happens to the member."""
    for log in seat.member.logs.values():
        if rng.random() < 0.1:
            grow(rng, log, seat.member.settings.out_of_orderness)
    if rng.random() > 0.03:
        return
    what = rng.randrange(6)
    if what < 2 and seat.is_there:
        world.stop(seat, says_so=what == 0)
    elif what == 2 and not seat.is_there:
        world.restart(seat)
    elif what == 3:
        seat.frozen_until = world.now + rng.choice([5, TIMEOUT // 2, 3 * TIMEOUT])
    elif what == 4:
        seat.member.freeze() if seat.member.frozen is None else seat.member.thaw()
    elif what == 5:
        seat.member.logs[f"{seat.name[1:]}-{len(seat.member.logs)}"] = Log([rng.randrange(1, 25)])
