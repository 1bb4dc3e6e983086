"""The state of a group as one member knows it: the members, which of them are alive, and the least watermark of others.

This module does no I/O: the entries that were read from the shared table, and the times, are arguments. A member is a
source of a query, identified by its id and its *lineage*, the random id of its checkpoint. A restarted query is the
same member in another run. Flink keeps the state of a group in a store of the job (``CoordinatorStore``). Here the
members share a table, and each of them decides by its own clock which others are alive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus

Key = tuple[str, str]
"""Source id and lineage, which identify a member."""

Waits = tuple[tuple[str, ...], bool]
"""The fields :attr:`Entry.waits` and :attr:`Entry.waits_all_but`."""
NOBODY_WAITS: Waits = ((), False)
_MOST_NAMED = 100

MemberProgress = tuple[int | None, int | None]
"""Watermark (ms) and progress of a member, which do not change while the member does not move."""


@dataclass(frozen=True)
class Entry:
    """The state that a member publishes to its group.

    Attributes:
        group: The name of the group.
        source: The id of the source.
        lineage: The lineage of its checkpoint.
        run: A random id of the process that plans for the source.
        began: A number that increases from run to run of a lineage: the time (ms) when this run began, or later.
        definition: A random id of the DataFrame, which is the same for the two processes of a self-join.
        where: A description of the process and of the topics or paths that it reads.
        timeout_ms: The silence, in ms, after which this member treats others as gone, and after which the others may
            treat this member as gone.
        watermark: The time (ms since the epoch) at or before which the member will read no more event times; ``None``
            if the member does not hold others back.
        waiting: The number of its splits that wait for another split, for monitoring.
        held_by: As in :class:`watermark_alignment.planner.Plan`; ``None`` if no split waits.
        beat: The number of entries that the run has published.
        left: Whether the member has left the group.
        progress: The number of its newest batch that moved a split; it increases even if the watermark does not, as
            with many rows of one event time. ``None`` before the first batch, and in entries of older releases.
        waits: The ids of the splits that wait; if ``waits_all_but`` is set, those of the splits that do not wait. If
            more than 100 splits wait and more than 100 do not, 100 of those that wait.
        waits_all_but: See ``waits``.
        reads: A short name of the topics or paths that are read; empty in entries of older releases.
        waiting_since: The time (ms since the epoch) since which the same splits have waited for the same split. The log
            of the table can be shorter than the wait. ``None`` if no split waits, and in entries of older releases.
        max_drift_ms: The option ``scan.watermark.alignment.max-drift``; ``None`` in entries of older releases.
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
    waiting_since: int | None = None
    max_drift_ms: int | None = None

    @property
    def key(self) -> Key:
        """The key of the member."""
        return self.source, self.lineage

    @property
    def member_progress(self) -> MemberProgress:
        """The watermark and the progress of the member."""
        return self.watermark, self.progress

    @property
    def follows_others(self) -> bool:
        """Whether the checkpoint surely has earlier entries. A first batch, number 0, can be in the first entry."""
        return self.beat > 1 or (self.progress or 0) > 0

    def next(
        self,
        watermark: int | None,
        *,
        waiting: int = 0,
        held_by: str | None = None,
        progress: int | None = None,
        waits: Waits = NOBODY_WAITS,
        now: int | None = None,
    ) -> Entry:
        """Returns the next entry of the same run. The arguments are described at :class:`Entry`.

        ``now`` is the present time (ms since the epoch). It becomes :attr:`waiting_since` unless the same splits wait
        for the same split as in this entry.
        """
        is_same_wait = (waiting, held_by, waits) == (
            self.waiting,
            self.held_by,
            (self.waits, self.waits_all_but),
        )
        since = self.waiting_since if is_same_wait else now
        return replace(
            self,
            watermark=watermark,
            waiting=waiting,
            held_by=held_by,
            progress=progress,
            waits=waits[0],
            waits_all_but=waits[1],
            waiting_since=since if waiting else None,
            beat=self.beat + 1,
        )

    def has_waiting(self, split: str) -> bool:
        """Returns whether a split is known to wait for another split."""
        return bool(self.waits) and (split in self.waits) != self.waits_all_but

    def again(self) -> Entry:
        """Returns the same entry, to be published once more: its ``beat`` is greater by 1."""
        return replace(self, beat=self.beat + 1)

    def leaving(self) -> Entry:
        """Returns the last entry of the run, with which the member leaves the group.

        The entry keeps the watermark for the next run of the member. It no longer holds back other members.
        """
        return replace(self.next(self.watermark, progress=self.progress), left=True)

    def succeeding(self, last: Entry | None) -> Entry:
        """Returns this entry as the first one of a run after that of ``last``, even if the clock went back."""
        return self if last is None else replace(self, began=max(self.began, last.began + 1))

    def is_before(self, other: Entry) -> bool:
        """Returns whether this entry is of an earlier run than ``other``, which has the same lineage."""
        return (self.began, self.run) < (other.began, other.run)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> Entry:
        """Returns the entry in a text. Unknown fields, which a later version may have added, are ignored.

        Raises:
            ValueError, TypeError: ``text`` is not an entry.
        """
        document = json.loads(text)
        entry = Entry(**{f.name: document[f.name] for f in fields(Entry) if f.name in document})
        entry = replace(entry, waits=tuple(entry.waits))
        optional = entry.watermark, entry.progress, entry.waiting_since, entry.max_drift_ms
        given = (number for number in optional if number is not None)
        numbers = entry.timeout_ms, entry.waiting, entry.beat, entry.began, *given
        if not all(type(n) is int for n in numbers):
            raise ValueError(f"the fields {numbers} must be whole numbers")
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
            raise ValueError(f"the fields {texts} must be strings")
        return entry


MemberFilter = Callable[[Entry], bool]
"""A function that returns whether a plan waits for a member, given its newest entry."""


def every_member(entry: Entry) -> bool:
    """Returns ``True``. It is the :data:`MemberFilter` of a plan that waits for every member."""
    return True


@dataclass(frozen=True)
class SeenEntry:
    """The newest known entry of a member, with the time at which it was read.

    Attributes:
        entry: The entry.
        version: The version of the table that has the entry.
        first: The version of the table with the first known entry of this run.
        first_here: As ``first``, without the entries of a table that was deleted; ``None`` before the first other one.
        seen_at: The time at which this entry was first read, by the reader's clock (ms).
        has_moved: Whether the run has moved a split since its first known entry.
        before: The newest entry of the run that this one replaced; ``None`` without one, or if it had left.
    """

    entry: Entry
    version: int
    first: int
    first_here: int | None
    seen_at: int
    has_moved: bool = False
    before: SeenEntry | None = None

    def is_gone(self, now: int, timeout_ms: int) -> bool:
        """Returns whether the member has been silent for too long.

        The silence until ``now`` (ms) must be longer than ``timeout_ms`` and than the member's own timeout.
        """
        return now - self.seen_at > max(timeout_ms, self.entry.timeout_ms)


@dataclass(frozen=True)
class GroupView:
    """The entries of a group that one member has read.

    Attributes:
        members: The newest entry of each member.
    """

    members: Mapping[Key, SeenEntry] = field(default_factory=dict)

    def after(self, version: int, entry: Entry, now: int) -> GroupView:
        """Returns the view with one more entry.

        A run that began later replaces an earlier run of its lineage, until it has left or is gone: its clock may have
        been ahead. If it leaves and has moved no split, the earlier run counts again.

        Args:
            version: The version of the table that has the entry.
            entry: The entry.
            now: The reader's clock (ms).
        """
        last = self.members.get(entry.key)
        if last is None:
            seen = SeenEntry(entry, version, version, version, now)
        elif last.entry.run == entry.run:
            first_here = version if last.first_here is None else last.first_here
            has_moved = last.has_moved or entry.progress != last.entry.progress
            seen = SeenEntry(entry, version, last.first, first_here, now, has_moved, last.before)
            seen = last.before if entry.left and not has_moved and last.before is not None else seen
        elif entry.is_before(last.entry) and not (last.entry.left or last.is_gone(now, entry.timeout_ms)):
            if last.before is None or last.before.entry.run != entry.run:
                return self
            seen = replace(last, before=replace(last.before, entry=entry, version=version, seen_at=now))
        else:
            before = None if last.entry.left else replace(last, before=None)
            seen = SeenEntry(entry, version, version, version, now, before=before)
        return GroupView({**self.members, entry.key: seen})

    def in_another_table(self) -> GroupView:
        """Returns the view after the table was deleted: the versions of the new one begin at 0 again."""
        return GroupView({key: replace(seen, first_here=None) for key, seen in self.members.items()})

    def without_expired_members(self, own: Key, now: int, timeout_ms: int) -> GroupView:
        """Returns the view without the members that were silent for twice the timeout.

        The timeout is ``timeout_ms``, or the member's own timeout if that is longer.

        Args:
            own: The key of the reader, which is kept.
            now: The reader's clock (ms).
            timeout_ms: The timeout of the reader.
        """
        kept = {
            key: seen
            for key, seen in self.members.items()
            if key == own or now - seen.seen_at <= 2 * max(timeout_ms, seen.entry.timeout_ms)
        }
        return self if len(kept) == len(self.members) else GroupView(kept)

    def floor(self, own: Key, now: int, timeout_ms: int, counts: MemberFilter = every_member) -> int | None:
        """Returns the least watermark (ms) of the others that ``counts`` selects; ``None`` if no member has one."""
        return min(self._holding(own, now, timeout_ms, counts), default=None)

    def slowest(
        self, own: Key, now: int, timeout_ms: int, counts: MemberFilter = every_member
    ) -> Entry | None:
        """Returns the newest entry of the member with the watermark :meth:`floor`; ``None`` if no member has one."""
        holding = self._holding(own, now, timeout_ms, counts)
        return holding[min(holding)] if holding else None

    def duplicate(self, own: Entry) -> Entry | None:
        """Returns another live member with the same source id that joined before ``own``; ``None`` without one.

        The other member must have published an entry after ``own`` joined, because old entries remain after their
        process has ended. After the table was deleted, the member that wrote first to the new one joined before.
        The two processes of a self-join have the same definition and are no duplicates.
        """
        mine = self.members.get(own.key)
        if mine is None or mine.entry.run != own.run or mine.first_here is None:
            return None
        for key, seen in sorted(self.members.items()):
            other = seen.entry
            clashes = key != own.key and other.source == own.source and other.definition != own.definition
            if not clashes or other.left or seen.first_here is None:
                continue
            if seen.first_here < mine.first_here < seen.version:
                return other
        return None

    def successor(self, own: Entry, since: int = -1) -> Entry | None:
        """Returns the newest entry of the run that has replaced the run of ``own``; ``None`` without such a run.

        Only runs that have not left and whose first known entry is after version ``since`` of the table, in which
        ``own`` was first published, count: an earlier run may have a later ``began`` because of its clock.
        """
        seen = self.members.get(own.key)
        if seen is None or seen.entry.left or not own.is_before(seen.entry):
            return None
        return seen.entry if seen.first > since else None

    def reading_successor(self, own: Entry, since: int = -1) -> Entry | None:
        """Returns the :meth:`successor` if it has moved a split; a query that was started twice ends before it does."""
        successor = self.successor(own, since)
        return successor if successor is not None and self.members[own.key].has_moved else None

    def former(self, own: Entry) -> Entry | None:
        """Returns the newest entry of another run of the lineage of ``own``; ``None`` without one."""
        seen = self.members.get(own.key)
        return seen.entry if seen is not None and seen.entry.run != own.run else None

    def _holding(self, own: Key, now: int, timeout_ms: int, counts: MemberFilter) -> dict[int, Entry]:
        """Returns the other live members that have a watermark and that ``counts`` selects, by their watermarks."""
        return {
            seen.entry.watermark: seen.entry
            for key, seen in self.members.items()
            if key != own and not seen.entry.left and not seen.is_gone(now, timeout_ms)
            if seen.entry.watermark is not None and counts(seen.entry)
        }


def resumed_progress(
    former: Entry | None, read: Collection[int], bound: int, batch: int | None
) -> MemberProgress:
    """Returns the watermark and the progress to publish for a run that continues from an offset, before its first plan.

    Args:
        former: The last entry of the run before; ``None`` without such a run, or if the entry is too old to be found.
        read: The known greatest event times read (ms) of the splits in the offset.
        bound: The out-of-orderness (ms).
        batch: The number of the last batch; ``None`` if there was no batch.
    """
    if former is not None and _is_of_offset(former, batch):
        return former.member_progress
    return min(read) - bound - 1 if read else None, batch


def _is_of_offset(former: Entry, batch: int | None) -> bool:
    """Returns whether a run that continues from ``batch`` is where ``former`` was, or one batch behind it.

    A run whose checkpoint was restored from a copy is further behind. Entries of older releases have no progress.
    """
    if former.left and former.watermark is None:
        return False
    return former.progress is None or former.progress <= (-1 if batch is None else batch) + 1


def who_waits(plan: Plan) -> Waits:
    """Returns the splits of a plan that wait for :attr:`Plan.held_by`, or all others if these are fewer."""
    if not plan.waiting:
        return NOBODY_WAITS
    waiting = tuple(sorted(split for split, state in plan.states.items() if state is SplitStatus.PAUSED))
    others = tuple(sorted(plan.states.keys() - set(waiting)))
    if others and len(others) < len(waiting):
        return (others, True) if len(others) <= _MOST_NAMED else (waiting[:_MOST_NAMED], False)
    return waiting[:_MOST_NAMED], False


def watermark_to_publish(
    plan: Plan, last: int | None, *, has_pending: bool = False, no_more: bool = False
) -> int | None:
    """Returns the watermark that a member publishes after a plan (ms); ``None`` if it holds no others back.

    If the plan has no watermark, the last one is published again, because a source may have no split for a moment. It
    is ``None`` if all splits are idle or finished, or if no split will come.

    Args:
        plan: The plan; its own watermark includes splits that are not assigned yet.
        last: The watermark that the member published before.
        has_pending: Whether the source has splits that are not assigned yet.
        no_more: Whether the source has announced that no more splits will come.
    """
    if plan.own_watermark is not None:
        return plan.own_watermark
    is_over = not any(state.counts for state in plan.states.values()) if plan.states else no_more
    return None if is_over and not has_pending else last
