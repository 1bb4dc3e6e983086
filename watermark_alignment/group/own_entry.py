"""The entry that a member publishes in its group, and the time at which it must be renewed."""

from __future__ import annotations

import time
from typing import Final

from flip27_stream.wall_clock import now_ms
from watermark_alignment.group.group_reads import GroupReads
from watermark_alignment.group.group_view import Entry, Waits

_BEATS_PER_TIMEOUT: Final = 4
LONGEST_BEAT_S: Final = 15.0
"""The longest time between two entries of a member, in seconds, also for a member with a long timeout.

A new member reads only the entries of a limited time, and must find all live members in them.
"""
ALL_RENEWED_S: Final = LONGEST_BEAT_S + 5.0
"""The time (s) after which each live member has an entry in a table that was deleted and created again.

A member learns of it with its next entry at the latest, and has some time to write that.
"""


class OwnEntry:
    """The newest entry of a member, and whether it has to be published.

    If several threads use it, the caller holds a lock.

    Args:
        entry: The first entry of the member, without a watermark.

    Attributes:
        entry: The last entry that was published or is about to be published.
        has_joined: Whether the member is in the group.
        is_unpublished: Whether :attr:`entry` has to be published.
        beat_s: The time (s) after which an entry is renewed.
        beat_at: When the entry must be renewed (seconds of the monotonic clock).
        since: The version of the table in which this run was first published; ``None`` if it was not yet.
        can_write: Whether the last attempt to publish succeeded.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.has_joined = self.is_unpublished = False
        self.beat_s = min(entry.timeout_ms / 1000 / _BEATS_PER_TIMEOUT, LONGEST_BEAT_S)
        self.beat_at = 0.0
        self.since: int | None = None
        self.can_write = True

    def announce(
        self,
        last: Entry | None,
        watermark: int | None,
        *,
        waiting: int,
        held_by: str | None,
        progress: int | None,
        waits: Waits,
    ) -> bool:
        """Creates the next entry. Returns whether it must be published; an entry without changes is not published.

        Args:
            last: The newest entry of the member in the group; ``None`` if it has none.
            watermark: The field of :class:`Entry` with this name; so are the further arguments.
            waiting: See :class:`Entry`.
            held_by: See :class:`Entry`.
            progress: See :class:`Entry`.
            waits: See :class:`Entry`.
        """
        entry = self.entry
        said = (
            entry.watermark,
            entry.waiting,
            entry.held_by,
            entry.progress,
            (entry.waits, entry.waits_all_but),
        )
        says = watermark, waiting, held_by, progress, waits
        if self.has_joined and said == says and not self.is_unpublished:
            return False
        if not self.has_joined:
            entry = entry.succeeding(last)
        self.entry = entry.next(
            watermark, waiting=waiting, held_by=held_by, progress=progress, waits=waits, now=now_ms()
        )
        self.has_joined = self.is_unpublished = True
        return True

    def leave(self) -> None:
        """Creates the last entry, with which the member leaves the group. Does nothing if the member has not joined."""
        if self.has_joined:
            self.entry = self.entry.leaving()
            self.is_unpublished = True

    def seconds_to_beat(self) -> float:
        """Returns the time (s) until the entry must be renewed, or until a member that has not joined looks again."""
        return max(self.beat_at - time.monotonic(), 0.0) if self.has_joined else self.beat_s

    def to_publish(self) -> Entry | None:
        """Returns the entry to publish now, which is renewed if that is due; ``None`` if nothing is to be published."""
        if self.has_joined and not self.is_unpublished and self.seconds_to_beat() == 0.0:
            self.entry = self.entry.again()
            self.is_unpublished = True
        return self.entry if self.is_unpublished else None

    def begin_publishing(self) -> None:
        """Counts the time to the next renewal from now on, also if publishing fails."""
        self.beat_at = time.monotonic() + self.beat_s

    def record_version(self, version: int) -> None:
        """Records that an entry was published in this version of the table."""
        self.since = version if self.since is None else min(self.since, version)

    def record_published(self, entry: Entry | None) -> None:
        """Records that ``entry`` is in the table; a newer one that was made meanwhile has still to be published."""
        self.is_unpublished = self.is_unpublished and self.entry is not entry

    def follow(self, reads: GroupReads) -> None:
        """Makes an entry that other members follow, if they would follow a former run; see :meth:`in_place`."""
        entry = reads.in_place(self.entry, self.since)
        if self.has_joined and entry is not self.entry:
            self.entry = entry
            self.is_unpublished = True
            self.beat_at = 0.0
