"""The state of a member's reads of its group.

The module is pure: the entries that were read, and the times, are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from watermark_alignment.group.group_view import Entry, GroupView, MemberFilter, every_member
from watermark_alignment.planner import GROUP


@dataclass(frozen=True)
class GroupReads:
    """The entries that a member has read of its group, and the time for which it could read them.

    Other members count as silent only for the time in which their entries could have been read. So the time between two
    reads counts only if both succeeded, none failed between them, and both showed that members can write to the table:
    this member could, or another one has just written. If two reads were more than ``longest_gap_ms`` apart, such as
    while the process was suspended, only ``longest_gap_ms`` counts.

    Attributes:
        own: The entry of this member.
        longest_gap_ms: The greatest time that counts between two reads, which is twice the time between two beats.
        view: The entries of the group.
        at: The member's clock (ms) at the last read that reached the end of the log; ``None`` before the first one.
        readable_ms: The sum (ms) of the times in which the entries of others could be read.
        is_cut: Whether the first entry that was read of some member is not the first one of its checkpoint. The
            earlier ones are too old to be read, or were in a table that was deleted.
    """

    own: Entry
    longest_gap_ms: int
    view: GroupView = field(default_factory=GroupView)
    at: int | None = None
    readable_ms: int = 0
    is_cut: bool = False
    _counts: bool = True
    _others_at: int | None = None

    def after(
        self,
        new_entries: Iterable[tuple[int, Entry]],
        now: int,
        *,
        can_write: bool,
        is_behind: bool = False,
        is_another_table: bool = False,
    ) -> GroupReads:
        """Returns the state after one more successful read.

        Args:
            new_entries: Entries with their versions of the table, in order.
            now: The member's clock (ms).
            can_write: Whether the last attempt of this member to write an entry succeeded.
            is_behind: Whether more entries are left to read. It is then not known yet which members are silent.
            is_another_table: Whether the table was deleted since the last read; the entries are of the new one.
        """
        entries = list(new_entries)
        from_others = any(entry.key != self.own.key for _, entry in entries)
        others_at = now if from_others else self._others_at
        written = can_write or (others_at is not None and now - others_at <= self.longest_gap_ms)
        readable_ms = self.readable_ms
        if self.at is not None and self._counts and written and not is_behind:
            readable_ms += min(now - self.at, self.longest_gap_ms)
        view = self.view.in_another_table() if is_another_table else self.view
        is_cut = self.is_cut
        for version, entry in entries:
            is_cut = is_cut or (entry.key not in view.members and entry.follows_others)
            view = view.after(version, entry, readable_ms)
        view = view.without_expired_members(self.own.key, readable_ms, self.own.timeout_ms)
        counts = self._counts if is_behind else written
        return replace(
            self,
            view=view,
            at=self.at if is_behind else now,
            readable_ms=readable_ms,
            is_cut=is_cut,
            _counts=counts,
            _others_at=others_at,
        )

    def after_failure(self) -> GroupReads:
        """Returns the state after a read that failed.

        The view stays, and the time until the next read does not count.
        """
        return replace(self, _counts=False)

    @property
    def is_current(self) -> bool:
        """Whether the last read succeeded and members could write."""
        return self._counts

    def slowest(self, counts: MemberFilter = every_member) -> Entry | None:
        """Returns the entry with the least watermark of the others that ``counts`` selects; ``None`` without one."""
        return self.view.slowest(self.own.key, self.readable_ms, self.own.timeout_ms, counts)

    def floor(self, counts: MemberFilter = every_member) -> int | None:
        """Returns the watermark (ms) of :meth:`slowest`; ``None`` if no member has one."""
        return self.view.floor(self.own.key, self.readable_ms, self.own.timeout_ms, counts)

    @property
    def others_wait(self) -> bool:
        """Whether another live member waits for a member of the group, which may be this one."""
        return any(
            key != self.own.key and seen.entry.held_by == GROUP and not seen.entry.left
            for key, seen in self.view.members.items()
            if not seen.is_gone(self.readable_ms, self.own.timeout_ms)
        )

    def in_place(self, own: Entry, since: int | None) -> Entry:
        """Returns the entry to publish instead of ``own``, or ``own`` itself.

        Because of wrong clocks, the entry of an earlier run may have a later ``began`` than this run. Other members
        follow the run with the latest ``began``, so the new entry gets a later one.

        Args:
            own: The entry of this member.
            since: The version of the table in which this run was first published; ``None`` before that.
        """
        seen = self.view.members.get(own.key)
        if seen is None or not own.is_before(seen.entry):
            return own
        if since is not None and self.view.successor(own, since) is not None:
            return own
        return own.succeeding(seen.entry).again()
