"""A group as one of its members sees it: who belongs to it, who is alive, and the least watermark of the others.

Pure: what was read of the shared table, and when, goes in. A member is a source of a query, known by its id and the
lineage of its checkpoint; a restarted query is the same member in another run. Flink keeps this in a job-wide store
(``CoordinatorStore``); here members share a table, and each judges by its own clock who is still there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus

Key = tuple[str, str]
"""Source id and lineage."""

Waits = tuple[tuple[str, ...], bool]
""":attr:`Entry.waits` and :attr:`Entry.waits_all_but`."""
NOBODY_WAITS: Waits = ((), False)
_MOST_NAMED = 100

Mark = tuple[int | None, int | None]
"""Where a member stands: its watermark and its progress. One that has not moved has the same mark."""


@dataclass(frozen=True)
class Entry:
    """What a member says of itself.

    Attributes:
        group: the group.
        source: id of the source.
        lineage: of its checkpoint.
        run: drawn by each process that plans for it.
        began: grows from run to run of a lineage: the clock (ms) when this one began, or later.
        definition: drawn for each DataFrame that was defined, and so the same for two processes that a self-join has.
        where: the process and what it reads, in words.
        timeout_ms: after how long a silence it takes others for gone, and wants to be taken so itself.
        watermark: nothing at or before it can still come (ms since the epoch); ``None`` where it holds nobody.
        waiting: how many of its splits wait for another to come nearer; for people who look on.
        held_by: as in :class:`watermark_alignment.planner.Plan`; ``None`` if none waits.
        beat: counts what the run has said.
        left: it is gone.
        progress: number of its newest batch that moved a split; it moves while the watermark stands in many rows of one
            event time. ``None`` if there was no such batch, and in entries of releases that did not tell.
        waits: ids of the splits that wait, or with ``waits_all_but`` of those that do not; empty if both are many.
        waits_all_but: see ``waits``.
        reads: what it reads, in few words, for people; empty in entries of releases that did not tell.
    """

    group: str
    source: str
    lineage: str
    run: str
    began: int
    definition: str
    where: str
    timeout_ms: int
    watermark: int | None = None
    waiting: int = 0
    held_by: str | None = None
    beat: int = 0
    left: bool = False
    progress: int | None = None
    reads: str = ""
    waits: tuple[str, ...] = ()
    waits_all_but: bool = False

    @property
    def key(self) -> Key:
        return self.source, self.lineage

    @property
    def mark(self) -> Mark:
        return self.watermark, self.progress

    def next(
        self,
        watermark: int | None,
        *,
        waiting: int = 0,
        held_by: str | None = None,
        progress: int | None = None,
        waits: Waits = NOBODY_WAITS,
    ) -> Entry:
        """What the same run says after this."""
        return replace(
            self,
            watermark=watermark,
            waiting=waiting,
            held_by=held_by,
            progress=progress,
            waits=waits[0],
            waits_all_but=waits[1],
            beat=self.beat + 1,
        )

    def has_waiting(self, split: str) -> bool:
        """Whether a split waits for another to come nearer, as far as the entry names those that do."""
        return bool(self.waits) and (split in self.waits) != self.waits_all_but

    def again(self) -> Entry:
        """The same, renewed."""
        return replace(self, beat=self.beat + 1)

    def leaving(self) -> Entry:
        """What the run says as it goes."""
        return replace(self.next(None), left=True)

    def succeeding(self, last: Entry | None) -> Entry:
        """This entry as the first of a run that follows the one of ``last``, by whatever clock that began."""
        return self if last is None else replace(self, began=max(self.began, last.began + 1))

    def is_before(self, other: Entry) -> bool:
        """Whether it is of a run that ``other``, of the same lineage, has taken the place of."""
        return (self.began, self.run) < (other.began, other.run)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> Entry:
        """Fields that a later version may have added are left out.

        Raises:
            ValueError, TypeError: ``text`` is no entry.
        """
        told = json.loads(text)
        entry = Entry(**{f.name: told[f.name] for f in fields(Entry) if f.name in told})
        entry = replace(entry, waits=tuple(entry.waits))
        optional = entry.watermark or 0, entry.progress or 0
        numbers = entry.timeout_ms, entry.waiting, entry.beat, entry.began, *optional
        if not all(type(n) is int for n in numbers):
            raise ValueError(f"not all of {numbers} are whole numbers")
        texts = (
            entry.group,
            *entry.key,
            entry.run,
            entry.definition,
            entry.where,
            entry.reads,
            entry.held_by or "",
            *entry.waits,
        )
        if not all(type(t) is str for t in texts):
            raise ValueError(f"not all of {texts} are texts")
        return entry


Heeds = Callable[[Entry], bool]
"""Whether a member is waited for, by its newest entry."""


def everybody(entry: Entry) -> bool:
    """The :data:`Heeds` of a plan that waits for every member."""
    return True


@dataclass(frozen=True)
class Sighting:
    """The newest entry of a member.

    Attributes:
        entry: it.
        version: the version of the table that brought it.
        first: the one with the first entry that was seen of this run.
        seen_at: the reader's clock (ms) when it first saw this entry.
    """

    entry: Entry
    version: int
    first: int
    seen_at: int

    def is_gone(self, now: int, timeout_ms: int) -> bool:
        """Whether it has been silent, at ``now`` (ms), for longer than both timeouts: the given one and its own."""
        return now - self.seen_at > max(timeout_ms, self.entry.timeout_ms)


@dataclass(frozen=True)
class GroupView:
    """What one member has seen of its group."""

    members: Mapping[Key, Sighting] = field(default_factory=dict)

    def after(self, version: int, entry: Entry, now: int) -> GroupView:
        """The view once ``entry`` was found in a version of the table, the reader's clock being ``now`` (ms).

        A run that began later than another of the same lineage takes its place; what that still says counts no more,
        unless the later one left, or has been silent for so long that it is gone: its clock was ahead.
        """
        last = self.members.get(entry.key)
        if last is None:
            seen = Sighting(entry, version, version, now)
        elif last.entry.run == entry.run:
            seen = replace(last, entry=entry, version=version, seen_at=now)
        elif entry.is_before(last.entry) and not (last.entry.left or last.is_gone(now, entry.timeout_ms)):
            return self
        else:
            seen = Sighting(entry, version, version, now)
        return GroupView({**self.members, entry.key: seen})

    def without_the_dead(self, own: Key, now: int, timeout_ms: int) -> GroupView:
        """The view without members that have been gone for twice as long as it takes to be taken for gone."""
        kept = {
            key: seen
            for key, seen in self.members.items()
            if key == own or now - seen.seen_at <= 2 * max(timeout_ms, seen.entry.timeout_ms)
        }
        return self if len(kept) == len(self.members) else GroupView(kept)

    def floor(self, own: Key, now: int, timeout_ms: int, heeds: Heeds = everybody) -> int | None:
        """The least watermark of the other members that ``heeds`` accepts; ``None`` if nobody holds."""
        return min(self._holding(own, now, timeout_ms, heeds), default=None)

    def slowest(self, own: Key, now: int, timeout_ms: int, heeds: Heeds = everybody) -> Entry | None:
        """The member that sets the floor."""
        holding = self._holding(own, now, timeout_ms, heeds)
        return holding[min(holding)] if holding else None

    def rival(self, own: Entry) -> Entry | None:
        """Another live holder of the same id that was there before ``own`` joined.

        Only one that has said something since then: an entry may outlive who wrote it. The processes of a self-join
        are none, they come from one definition.
        """
        mine = self.members.get(own.key)
        if mine is None or mine.entry.run != own.run:
            return None
        for key, seen in sorted(self.members.items()):
            other = seen.entry
            clashes = key != own.key and other.source == own.source and other.definition != own.definition
            if clashes and not other.left and seen.first < mine.first < seen.version:
                return other
        return None

    def successor(self, own: Entry, since: int = -1) -> Entry | None:
        """The run that has taken the place of ``own``, which was first told in version ``since`` of the table.

        Only one that came after that: a former run may have begun later by its clock, and be seen late.
        """
        seen = self.members.get(own.key)
        return seen.entry if seen is not None and own.is_before(seen.entry) and seen.first > since else None

    def former(self, own: Entry) -> Entry | None:
        """The newest entry of another run of the lineage of ``own``; ``None`` if there is none, or it left."""
        seen = self.members.get(own.key)
        is_another = seen is not None and seen.entry.run != own.run and not seen.entry.left
        return seen.entry if seen is not None and is_another else None

    def _holding(self, own: Key, now: int, timeout_ms: int, heeds: Heeds) -> dict[int, Entry]:
        """The others that are there and hold, by their watermarks."""
        return {
            seen.entry.watermark: seen.entry
            for key, seen in self.members.items()
            if key != own and not seen.entry.left and not seen.is_gone(now, timeout_ms)
            if seen.entry.watermark is not None and heeds(seen.entry)
        }


def where_it_stood(former: Entry | None, read: Collection[int], bound: int, batch: int | None) -> Mark:
    """Where a run stands that goes on from an offset, until it can speak for itself.

    Args:
        former: the last entry of the run before; ``None`` where it left, or that is too long ago to be found.
        read: greatest event times read (ms), of the splits in the offset of which it is known.
        bound: the out-of-orderness (ms).
        batch: the number of the last batch; ``None`` if there was no batch.
    """
    return former.mark if former is not None else (min(read) - bound - 1 if read else None, batch)


def who_waits(plan: Plan) -> Waits:
    """Which splits of a plan wait for :attr:`Plan.held_by`: those, or where these are fewer all but the others."""
    if not plan.waiting:
        return NOBODY_WAITS
    waiting = tuple(sorted(split for split, state in plan.states.items() if state is SplitStatus.PAUSED))
    others = tuple(sorted(plan.states.keys() - set(waiting)))
    if others and len(others) < len(waiting):
        return (others, True) if len(others) <= _MOST_NAMED else NOBODY_WAITS
    return (waiting, False) if len(waiting) <= _MOST_NAMED else NOBODY_WAITS


def watermark_to_publish(
    plan: Plan, last: int | None, *, has_pending: bool = False, no_more: bool = False
) -> int | None:
    """What a member is to say after a plan.

    While no split counts, its last watermark stands, unless all are at rest: a source may have none for a moment.

    Args:
        plan: the plan, and what is still to be assigned is in its floor.
        last: what it said before.
        has_pending: whether it has splits that are not assigned yet.
        no_more: whether it has said that no more splits will come.
    """
    if plan.floor is not None:
        return plan.floor
    is_over = not any(state.counts for state in plan.states.values()) if plan.states else no_more
    return None if is_over and not has_pending else last
