"""A simulated group around the planner: members with logs, queries with triggers and batches, clocks, and a board.

The board stands for the table in which members publish. It can fail: it may be unreadable, unwritable, or both. While a
batch of a query runs, all members of the query send heartbeats. A query can be stopped, die, be restarted from its
offset and be silent for a long time. A member can be frozen, finish, become idle, and return behind the others.

:mod:`watermark_alignment.group.group_reads` finds out which members are alive and what holds, and ``GroupWait`` how an
AvailableNow run waits. The invariants are checked against what the members really did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from flip27_stream.spark.planning.group.group_wait import GroupWait
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.invariants import checks
from tests.watermark_alignment.support.simulator import Round, SimulatedMember, front
from watermark_alignment.group import group_view as group
from watermark_alignment.group.group_reads import GroupReads
from watermark_alignment.group.group_view import Entry
from watermark_alignment.planner import GROUP, Plan

TIMEOUT = 60
BEAT = TIMEOUT // 4
_TICK_S = 0.1


@dataclass
class Seat:
    """One member: its source, the times of its plans, and its view of the others.

    Attributes:
        member: The source.
        said: The entry that it publishes.
        interval: The trigger interval of its query.
        length: The duration of a batch that reads some of its rows.
        stale: The greatest age of the group's minimum.
        offset: The difference of its clock to that of the world.
        holds: Whether an AvailableNow run leaves rows that are held back to the next run.
        counting: Since when each of its splits has counted in all its plans.
        told: By split, the version of the board that first had it.
        knew: The version of the board that its last plan knew.
        covered: The splits of others that it knows, and must not pass by more than is allowed.
        fronts: The fronts of its splits that counted in its last plan, also in a former run.
        waited: By member, how long plans have waited for it since it last moved.
    """

    member: SimulatedMember
    said: Entry
    interval: int = 1
    length: int = 1
    stale: int = 0
    offset: int = 0
    holds: bool = False
    update_ms: int = 100
    number: int = 0
    since: int | None = None
    next_version: int = 0
    knew: int = 0
    looked_at: int | None = None
    next_beat: int = 0
    said_at: int = 0
    has_joined: bool = False
    is_first: bool = True
    looks_first: bool = True
    is_unpublished: bool = False
    can_write: bool = True
    is_there: bool = True
    frozen_until: int = 0
    mute_until: int = 0
    alive_at: int = 0
    gap: int = 0
    wrote_at: int = -1
    moved_at: int = 0
    last: Round | None = None
    read_max: int | None = None
    counting: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    fronts: dict[str, int] = field(default_factory=dict)
    waited: dict[str, int] = field(default_factory=dict)
    waits_since: int | None = None

    def __post_init__(self) -> None:
        self.hear_anew()

    def hear_anew(self) -> None:
        self.group_reads = GroupReads(self.said, longest_gap_ms=2 * BEAT)

    @property
    def name(self) -> str:
        return self.said.source

    def bound(self, other: Seat) -> int:
        """Returns how far ahead of a front of ``other`` this member may read."""
        own, its = self.member.settings, other.member.settings
        return own.max_drift + own.out_of_orderness - its.out_of_orderness


@dataclass
class GroupQuery:
    """The sources of a query. Spark asks them in turn, and runs their batches together."""

    seats: Sequence[Seat]
    turn: int = 0
    length: int = 1
    asked_at: int = 0
    next_round: int = 0


class GroupWorld:
    """Runs the members, and records every breach of an invariant."""

    def __init__(self, seats: Sequence[Seat], queries: Sequence[GroupQuery] | None = None) -> None:
        self.seats = seats
        self.queries = queries or [GroupQuery([seat]) for seat in seats]
        self.board: list[Entry] = []
        self.is_readable = self.is_writable = True
        self.down_at = -1
        self.breaches: list[str] = []
        self.now = 0
        self.batches: list[Round] = []
        self._waits: dict[str, GroupWait] = {}

    def tick(self) -> None:
        """Advances the time by one unit. Members that are due send a heartbeat or plan."""
        self.now += 1
        self.down_at = self.down_at if self.is_readable and self.is_writable else self.now
        for seat in self.seats:
            if self._runs(seat):
                seat.gap = max(seat.gap, self.now - seat.alive_at)
                seat.alive_at = self.now
                if seat.has_joined and self.now >= seat.next_beat:
                    self._say(seat, seat.said.again())
        for query in self.queries:
            if self.now >= query.next_round:
                self._ask(query)

    def plan(self, seat: Seat) -> Round | None:
        """Plans and reads a batch.

        Returns ``None`` while the plan waits for others, when Spark asks no other source.
        """
        if seat.looks_first or seat.looked_at is None or self.now - seat.looked_at > seat.stale:
            self._look(seat)
        if self._would_hold(seat) and seat.looked_at != self.now:
            self._look(seat)
        waits = self._waits_in_vain(seat)
        if waits and not self._is_answered(seat):
            return None
        seat.waits_since, seat.knew = None, seat.next_version
        batch = seat.member.round(self.now, self._floor(seat), hold=seat.is_first)
        self.breaches += checks(batch, seat.last)
        if batch.plan.held_by == GROUP and seat.looked_at != self.now and self.is_readable:
            self.breaches.append(f"I11 {seat.name} is held by what it read before")
        self._publish(seat, batch)
        if not seat.is_first:
            self._read(seat, batch)
        seat.looks_first = seat.is_first or batch.plan.held_by == GROUP
        seat.last, seat.is_first = batch, False
        return self._note(seat, batch, waits)

    def stop(self, query: GroupQuery, *, says_so: bool) -> None:
        """Stops a query. It publishes that it leaves, if the board is writable, or dies without that."""
        for seat in query.seats:
            seat.is_there = False
            if says_so and seat.has_joined:
                seat.told, seat.fronts = {}, {}
                if self.is_writable:
                    self.board.append(seat.said.leaving())

    def restart(self, query: GroupQuery, mute_for: int = 0, clock: int = 1000) -> None:
        """Starts another run from the offset.

        The run has read nothing of the board yet, and cannot publish for ``mute_for``.
        """
        query.turn, query.next_round = 0, self.now
        for seat in query.seats:
            seat.member.restart()
            began = self.now + seat.offset + clock
            seat.said = entry(seat.name, run=str(self.now), began=began, timeout_ms=TIMEOUT)
            seat.next_version, seat.looked_at, seat.since = 0, None, None
            seat.is_unpublished, seat.can_write, seat.waits_since = False, True, None
            seat.has_joined, seat.is_first, seat.is_there, seat.last = False, True, True, None
            seat.looks_first = True
            seat.counting, seat.covered, seat.waited = {}, set(), {}
            seat.mute_until = self.now + mute_for
            seat.hear_anew()
            self._waits.pop(seat.name, None)
            self._stand(seat)

    def breached(self, *invariants: str) -> list[str]:
        """Returns the breaches of some invariants."""
        return [breach for breach in self.breaches if breach.split()[0] in invariants]

    def runs_again(self) -> None:
        """Makes the board readable and writable."""
        self.is_readable = self.is_writable = True

    def _runs(self, seat: Seat) -> bool:
        return seat.is_there and self.now >= seat.frozen_until

    def _ask(self, query: GroupQuery) -> None:
        """Asks the sources in turn. The batch runs once all have answered."""
        while self._runs(query.seats[query.turn]):
            seat = query.seats[query.turn]
            if self.now >= seat.mute_until:
                batch = self.plan(seat)
                if batch is None:
                    return
                query.length = max(query.length, seat.length if batch.moved() and not batch.held else 1)
            query.turn += 1
            if query.turn == len(query.seats):
                query.next_round = self.now + max(query.length, *(s.interval for s in query.seats))
                query.turn, query.length = 0, 1
                return

    def _note(self, seat: Seat, batch: Round, waits: bool) -> Round:
        seat.number += 1
        self.batches.append(batch)
        readable = any(v.position < v.end for v in batch.views.values())
        ends = seat.member.frozen is not None and not seat.holds and not batch.moved() and not waits
        if ends and readable and not batch.held:
            self.breaches.append(f"I11 the run of {seat.name} ends before its ends")
        return batch

    # ---- the board --------------------------------------------------------------------------------------------------

    def _look(self, seat: Seat) -> None:
        """Writes the entry if it is not written yet, then reads the board, as the member's thread does."""
        if seat.is_unpublished:
            seat.can_write = self.is_writable
            if self.is_writable:
                self._write(seat)
        if not self.is_readable:
            seat.group_reads = seat.group_reads.after_failure()
            return
        news = list(enumerate(self.board))[seat.next_version :]
        clock = self.now + seat.offset
        seat.group_reads = seat.group_reads.after(news, clock, can_write=seat.can_write)
        seat.next_version, seat.looked_at = len(self.board), self.now
        said = seat.group_reads.in_place(seat.said, seat.since)
        if seat.has_joined and said is not seat.said:
            self._say(seat, said)

    def _write(self, seat: Seat) -> None:
        version = len(self.board)
        seat.since = version if seat.since is None else seat.since
        self.board.append(seat.said)
        seat.is_unpublished, seat.wrote_at, seat.gap = False, self.now, 0
        seat.told = {split: seat.told.get(split, version) for split in seat.counting} or seat.told

    def _say(self, seat: Seat, said: Entry) -> None:
        if not seat.has_joined:
            seen = seat.group_reads.view.members.get(said.key)
            said = said.succeeding(seen.entry if seen is not None else None)
        seat.said, seat.has_joined, seat.is_unpublished = said, True, True
        seat.next_beat = self.now + BEAT
        self._look(seat)
        seat.said_at = self.now

    def _stand(self, seat: Seat) -> None:
        """Publishes the position of the former run."""
        self._look(seat)
        former = seat.group_reads.view.former(seat.said)
        read = [kept.read_max for kept in seat.member.kept.values() if kept.read_max is not None]
        bound = seat.member.settings.out_of_orderness
        watermark, progress = group.resumed_progress(former, read, bound, seat.number)
        if former is not None or read:
            self._say(seat, seat.said.next(watermark, progress=progress))

    def _publish(self, seat: Seat, batch: Round) -> None:
        watermark = group.watermark_to_publish(batch.plan, seat.said.watermark, no_more=True)
        moves = bool(batch.moved()) and not batch.held
        seat.moved_at = self.now if moves else seat.moved_at
        progress = seat.number + 1 if moves else seat.said.progress
        counted = {v.id for v in batch.counted}
        seat.counting = {split: seat.counting.get(split, self.now) for split in counted}
        seat.told = {split: at for split, at in seat.told.items() if split in counted}
        seat.fronts = {v.id: at for v in batch.counted if (at := front(v)) is not None}
        said = seat.said.next(watermark, progress=progress)
        if not seat.has_joined or said.member_progress != seat.said.member_progress:
            self._say(seat, said)
        elif not seat.is_unpublished:
            seat.told = {split: seat.told.get(split, len(self.board) - 1) for split in seat.counting}

    # ---- waits for other members --------------------------------------------------------------------------------

    def _wait_of(self, seat: Seat) -> GroupWait:
        options: Any = SimpleNamespace(source_timeout_ms=TIMEOUT, update_interval_ms=seat.update_ms)
        return self._waits.setdefault(seat.name, GroupWait(options, lambda: self.now * _TICK_S))

    def _floor(self, seat: Seat) -> int | None:
        return seat.group_reads.floor(self._wait_of(seat).counts)

    def _would_hold(self, seat: Seat) -> bool:
        return self._foreseen(seat).held_by == GROUP

    def _foreseen(self, seat: Seat) -> Plan:
        member = seat.member
        names = [s for s in member.logs if member.frozen is None or s in member.frozen]
        views = [member.view(s, self.now, answered=True) for s in names]
        return member.ask(views, self.now, self._floor(seat), [])

    def _waits_in_vain(self, seat: Seat) -> bool:
        """Returns whether only other members hold back an AvailableNow run that must be complete."""
        if seat.member.frozen is None or seat.holds or seat.is_first:
            return False
        plan = self._foreseen(seat)
        moves = any(
            end > seat.member.kept[s].position for s, end in plan.ends.items() if s in seat.member.kept
        )
        return plan.held_by == GROUP and not moves

    def _is_answered(self, seat: Seat) -> bool:
        """Returns whether the plan stops waiting: it continues without a member, or with an empty batch."""
        wait, slowest = self._wait_of(seat), seat.group_reads.slowest(self._wait_of(seat).counts)
        heard = seat.looked_at == self.now
        self._count_wait(seat, heard)
        listened = seat.group_reads.readable_ms if heard else None
        if slowest is not None and wait.gives_up(slowest, seat.number, self.now, listened):
            self._check_given_up(seat, slowest)
            return True
        others = {
            k: s.entry.member_progress for k, s in seat.group_reads.view.members.items() if k != seat.said.key
        }
        return wait.is_enough(seat.number, slowest, others)

    def _count_wait(self, seat: Seat, heard: bool) -> None:
        passed = self.now - seat.waits_since if seat.waits_since is not None else 0
        seat.waits_since = self.now
        for other in self.seats:
            before = seat.waited.get(other.name, 0) if other.moved_at < self.now - passed else 0
            seat.waited[other.name] = before + (passed if heard else 0)

    def _check_given_up(self, seat: Seat, slowest: Entry) -> None:
        waited = seat.waited.get(slowest.source, 0)
        if waited <= TIMEOUT:
            self.breaches.append(f"I11 {seat.name} gives {slowest.source} up after {waited} at {self.now}")

    # ---- the invariants -----------------------------------------------------------------------------------------

    def _read(self, seat: Seat, batch: Round) -> None:
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
        """Returns the splits that ``seat`` knows to count, and that it had not passed when it learned of them."""
        if not self._is_member(other) or self._has_given_up(seat, other):
            return set()
        known = {s for s, version in other.told.items() if version < seat.knew and s in other.fronts}
        near = {s for s in known if read_max is None or read_max - other.fronts[s] <= seat.bound(other)}
        return near | (known & seat.covered)

    def _is_member(self, other: Seat) -> bool:
        """Returns whether a member is alive, and was never silent until its timeout since it last published.

        If the board has failed since, other members may notice a beat late.
        """
        longest = BEAT if self.down_at >= other.wrote_at else TIMEOUT - BEAT
        return other.is_there and max(other.gap, self.now - other.alive_at) <= longest

    def _has_given_up(self, seat: Seat, other: Seat) -> bool:
        seen = seat.group_reads.view.members.get(other.said.key)
        return seen is not None and not self._wait_of(seat).counts(seen.entry)

    def _i3(self, seat: Seat) -> Iterator[str]:
        for other in self.seats:
            for split in seat.covered & set(other.told) & set(other.fronts):
                assert seat.read_max is not None
                if seat.read_max - other.fronts[split] > seat.bound(other):
                    yield f"I3 {seat.name} has read {seat.read_max} at {self.now}, {split} is at {other.fronts[split]}"
