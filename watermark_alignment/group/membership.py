"""The membership of a source in its group: a thread renews the source's entry and reads the entries of others.

With a thread, a member stays alive even if a batch takes long or batches are rare, and a table that does not respond
delays a plan only for a limited time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from flip27_stream.threads import start
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_reads import GroupReads
from watermark_alignment.group.group_view import (
    NOBODY_WAITS,
    Entry,
    GroupView,
    Key,
    MemberFilter,
    MemberProgress,
    Waits,
    every_member,
)
from watermark_alignment.group.own_entry import OwnEntry

log = logging.getLogger(__name__)

_TIME_LIMIT_S = 5.0


class Membership:
    """One member of a group. Its thread starts with the first :meth:`look` or :meth:`announce`.

    The entry of the member is in the group from the first :meth:`announce` on.

    Args:
        log: Writes and reads entries; only the thread uses it.
        entry: The first entry of the member, without a watermark.
        clock: A monotonic clock (ms), which measures the silence of others.
        on_commit: Called with the version of the table after each commit.
    """

    def __init__(
        self,
        log: GroupLog,
        entry: Entry,
        clock: Callable[[], int],
        on_commit: Callable[[int], None] = lambda version: None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._on_commit = on_commit
        self._own = OwnEntry(entry)
        self._group_reads = GroupReads(entry, longest_gap_ms=int(2 * self._own.beat_s * 1000))
        self._closing = self._failing = self._late = False
        self._asked = self._done = self._tables = 0
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._parent = os.getppid()

    @property
    def entry(self) -> Entry:
        """The last entry that was published or is about to be published."""
        return self._own.entry

    @property
    def has_published(self) -> bool:
        """Whether :meth:`announce` was called."""
        return self._own.has_joined

    @property
    def view(self) -> GroupView:
        """The group as it was last read."""
        return self._group_reads.view

    @property
    def looked_at(self) -> int | None:
        """The time at which the group was last read, by the member's clock (ms); ``None`` before the first read."""
        return self._group_reads.at

    @property
    def failure(self) -> Exception | None:
        """The error of the last attempt to read the group; ``None`` if it succeeded, or has not ended yet."""
        return self._failure

    @property
    def readable_ms(self) -> int | None:
        """The time (ms) for which entries of others could be read; ``None`` while they cannot be read.

        See :class:`GroupReads`.
        """
        return self._group_reads.readable_ms if self._group_reads.is_current else None

    @property
    def complete_in_s(self) -> float:
        """The time (s) after which each live member has an entry in the table.

        It is 0 unless the table that this run found was created a moment before, in place of one that was deleted.
        """
        complete_at = self._log.complete_at
        if complete_at is None or not self._group_reads.is_cut:
            return 0.0
        return max(complete_at - time.monotonic(), 0.0)

    def age_ms(self) -> int | None:
        """Returns the time since the group was last read (ms); ``None`` before the first read."""
        return None if self._group_reads.at is None else self._clock() - self._group_reads.at

    def slowest(self, counts: MemberFilter = every_member) -> Entry | None:
        """Returns the entry with the least watermark of the others that ``counts`` selects; ``None`` without one.

        While the table cannot be read or written, the result is that of the last read.
        """
        return self._group_reads.slowest(counts)

    def floor(self, counts: MemberFilter = every_member) -> int | None:
        """Returns the watermark (ms) of :meth:`slowest`; ``None`` if no member has one."""
        return self._group_reads.floor(counts)

    @property
    def others_wait(self) -> bool:
        """Whether another live member waits for a member of the group, which may be this one."""
        return self._group_reads.others_wait

    def others(self) -> dict[Key, MemberProgress]:
        """Returns the watermark and the progress of each other member, as they were last read."""
        return {k: s.entry.member_progress for k, s in self.view.members.items() if k != self.entry.key}

    def former(self) -> Entry | None:
        """Returns the last entry of the former run of this member; ``None`` without such a run, or if it left."""
        return self.view.former(self.entry)

    def duplicate(self) -> Entry | None:
        """Returns another live member with the same source id that joined before; ``None`` without one."""
        return self.view.duplicate(self.entry)

    def successor(self) -> Entry | None:
        """Returns the entry of a run of the same lineage that joined after this run and has moved a split.

        Returns ``None`` without such a run, and before this run has published an entry.
        """
        since = self._own.since
        return None if since is None else self.view.reading_successor(self.entry, since)

    def look(self) -> None:
        """Reads the group in the thread, and waits up to a time limit until it is read.

        Raises:
            ConnectorError: The thread cannot be started. Failures of the table are not raised.
        """
        with self._changed:
            self._ask()

    def announce(
        self,
        watermark: int | None,
        *,
        waiting: int = 0,
        held_by: str | None = None,
        progress: int | None = None,
        waits: Waits = NOBODY_WAITS,
    ) -> None:
        """Publishes an entry in the thread, and waits up to a time limit until it is written.

        An entry that cannot be written in time is written later, unless a newer entry has replaced it. An entry without
        changes is not published again. The arguments are described at :class:`Entry`.

        Raises:
            ConnectorError: As :meth:`look`.
        """
        with self._changed:
            last = self.view.members.get(self.entry.key)
            if self._own.announce(
                last.entry if last is not None else None,
                watermark,
                waiting=waiting,
                held_by=held_by,
                progress=progress,
                waits=waits,
            ):
                self._ask()

    def leave(self, timeout_s: float = 2.0) -> None:
        """Publishes that the member leaves, within ``timeout_s`` seconds, and ends the thread. Never raises.

        If the Spark process above this one has died, nothing is published: the query was not stopped, so the other
        members wait for its restart.
        """
        with self._changed:
            self._part()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _ask(self) -> None:
        """Waits until the thread has accessed the table once.

        Does not wait if the thread hangs in an earlier access, unless the group was never read.
        """
        if self._closing:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="flip27-group", daemon=True)
            start(thread)
            self._thread = thread
        self._asked += 1
        asked = self._asked
        self._changed.notify_all()
        # Without a first read, a member would not know for which others to wait. So this waits for the first read.
        gives_up_at_once = self._late and self.looked_at is not None
        time_limit_s = 0 if gives_up_at_once else _TIME_LIMIT_S
        self._late = not self._changed.wait_for(lambda: self._done >= asked, time_limit_s) or self._late

    def _part(self) -> None:
        if self._is_orphan():
            self._own.is_unpublished = False
        elif not self._closing:
            self._own.leave()
        self._closing = True

    def _is_orphan(self) -> bool:
        return os.getppid() != self._parent

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, self._own.seconds_to_beat())
                if self._is_orphan():
                    self._part()
                turn, over = self._asked, self._closing
                entry = self._own.to_publish()
            succeeded = self._go(entry)
            with self._changed:
                self._late = self._late and not succeeded
                self._done = self._done if self._log.is_behind else turn
                self._changed.notify_all()
            if over:
                return

    def _has_work(self) -> bool:
        return self._asked > self._done or self._closing or self._log.is_behind

    def _go(self, entry: Entry | None) -> bool:
        """Publishes ``entry`` and reads the log.

        Returns whether both succeeded. The log is read even if publishing fails.

        One call reads a limited number of commits, so that the entry is renewed in time even if many commits wait.
        """
        unpublished = None if entry is None else self._publish(entry)
        try:
            new_entries = self._log.new_entries()
        except Exception as error:  # noqa: BLE001 - the thread has to survive
            self._warn_of(error, "the last known state of the group is used")
            with self._changed:
                self._group_reads, self._failure = self._group_reads.after_failure(), error
            return False
        if unpublished is not None:
            self._warn_of(unpublished, "the other members get no news of this source")
        self._failing = unpublished is not None
        with self._changed:
            self._failure = None
            self._group_reads = self._group_reads.after(
                new_entries,
                self._clock(),
                can_write=self._own.can_write,
                is_behind=self._log.is_behind,
                is_another_table=self._log.tables != self._tables,
            )
            self._tables = self._log.tables
            if unpublished is None:
                self._own.record_published(entry)
            if not self._closing:
                self._own.follow(self._group_reads)
        return unpublished is None

    def _publish(self, entry: Entry) -> Exception | None:
        """Publishes ``entry``. Returns the error; ``None`` if it succeeded."""
        self._own.begin_publishing()
        try:
            version = self._log.publish(entry)
            self._own.record_version(version)
            self._on_commit(version)
        except Exception as error:  # noqa: BLE001 - as in _go
            self._own.can_write = False
            return error
        self._own.can_write = True
        return None

    def _warn_of(self, error: Exception, consequence: str) -> None:
        """Logs a warning. Further warnings are suppressed until publishing and reading have succeeded again."""
        if not self._failing:
            log.warning("%s. Meanwhile %s.", error, consequence)
        self._failing = True
