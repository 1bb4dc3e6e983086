"""What one member has heard of its group, and for how long it has listened. Pure: what was read, and when, goes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from watermark_alignment.group.group_view import Entry, GroupView, Heeds, everybody


@dataclass(frozen=True)
class Hearing:
    """What a member has heard.

    Others are silent only while they could be heard. So only time is counted between two looks at the group of which
    both succeeded, none failed between them, and each showed that members can write: the member itself could, or
    another one has just done so. A process that stood still between two looks counts as little as one that is punctual.

    Attributes:
        own: what the member says of itself.
        longest_gap_ms: how much time is counted between two looks, at most; twice that between two beats.
        view: the group.
        at: the member's clock (ms) at the last look after which nothing was left to be read; ``None`` before the first.
        listened_ms: how long it has listened; the clock by which others are silent.
    """

    own: Entry
    longest_gap_ms: int
    view: GroupView = field(default_factory=GroupView)
    at: int | None = None
    listened_ms: int = 0
    _counts: bool = True
    _others_at: int | None = None

    def after(
        self, news: Iterable[tuple[int, Entry]], now: int, *, can_speak: bool, is_behind: bool = False
    ) -> Hearing:
        """The hearing after one more look.

        Args:
            news: entries with their versions of the table, in order.
            now: the member's clock (ms).
            can_speak: whether the last entry that the member was to write is written.
            is_behind: whether there is more to be read; then nobody's silence is known yet.
        """
        told = list(news)
        from_others = any(entry.key != self.own.key for _, entry in told)
        others_at = now if from_others else self._others_at
        written = can_speak or (others_at is not None and now - others_at <= self.longest_gap_ms)
        listened_ms = self.listened_ms
        if self.at is not None and self._counts and written and not is_behind:
            listened_ms += min(now - self.at, self.longest_gap_ms)
        view = self.view
        for version, entry in told:
            view = view.after(version, entry, listened_ms)
        view = view.without_the_dead(self.own.key, listened_ms, self.own.timeout_ms)
        counts = self._counts if is_behind else written
        return replace(
            self,
            view=view,
            at=self.at if is_behind else now,
            listened_ms=listened_ms,
            _counts=counts,
            _others_at=others_at,
        )

    def after_failure(self) -> Hearing:
        """The hearing after a look that failed: what was last known stands, and nobody was silent meanwhile."""
        return replace(self, _counts=False)

    @property
    def hears(self) -> bool:
        """Whether the last look succeeded and members could write."""
        return self._counts

    def slowest(self, heeds: Heeds = everybody) -> Entry | None:
        """Who has the least watermark of the others that ``heeds`` accepts; ``None`` if nobody holds."""
        return self.view.slowest(self.own.key, self.listened_ms, self.own.timeout_ms, heeds)

    def floor(self, heeds: Heeds = everybody) -> int | None:
        """The watermark of the slowest."""
        return self.view.floor(self.own.key, self.listened_ms, self.own.timeout_ms, heeds)

    def in_place(self, own: Entry, since: int | None) -> Entry:
        """What the member is to say in place of ``own``, which was first told in version ``since`` of the table.

        A former run that is seen late may have begun later by its clock. It is followed, for others heed the later one.
        """
        seen = self.view.members.get(own.key)
        if seen is None or not own.is_before(seen.entry):
            return own
        if since is not None and self.view.successor(own, since) is not None:
            return own
        return own.succeeding(seen.entry).again()
