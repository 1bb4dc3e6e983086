"""A source's place in its group: its entry is renewed, and those of the others are read, in a thread of its own.

So a member stays alive however long a batch takes or how seldom one is planned, and a table that does not answer
holds up a plan for a bounded time only.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from flip27_stream.threads import start
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import (
    NOBODY_WAITS,
    Entry,
    GroupView,
    Heeds,
    Key,
    Mark,
    Waits,
    everybody,
)
from watermark_alignment.group.hearing import Hearing

_LOG = logging.getLogger(__name__)

_BEATS_PER_TIMEOUT = 4
LONGEST_BEAT_S = 15.0
"""Also of a member with a long timeout: who joins looks only so far back for those who are there."""
_PATIENCE_S = 5.0


class Membership:
    """One member; its thread starts with the first look, its entry is in the group from the first announcement on.

    Args:
        log: where the group meets; used by the thread alone.
        entry: what the member first says, but for the watermark.
        clock: ms, monotonic; how long others have been silent is measured by it.
        on_commit: called with the version of the table that each commit made.
    """

    def __init__(
        self,
        log: GroupLog,
        entry: Entry,
        clock: Callable[[], int],
        on_commit: Callable[[int], None] = lambda version: None,
    ) -> None:
        self._log = log
        self._entry = entry
        self._clock = clock
        self._on_commit = on_commit
        self._joined = self._unpublished = self._closing = self._failing = self._late = False
        self._asked = self._done = 0
        self._beat_at = 0.0
        self._beat_s = min(entry.timeout_ms / 1000 / _BEATS_PER_TIMEOUT, LONGEST_BEAT_S)
        self._hearing = Hearing(entry, longest_gap_ms=int(2 * self._beat_s * 1000))
        self._can_speak = True
        self._failure: Exception | None = None
        self._since: int | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._parent = os.getppid()

    @property
    def entry(self) -> Entry:
        """What the member last said, or is about to say."""
        return self._entry

    @property
    def has_spoken(self) -> bool:
        """Whether it has announced anything."""
        return self._joined

    @property
    def view(self) -> GroupView:
        """The group as it was last seen."""
        return self._hearing.view

    @property
    def looked_at(self) -> int | None:
        """The clock (ms) when the group was last seen; ``None`` if it never was."""
        return self._hearing.at

    @property
    def failure(self) -> Exception | None:
        """Why the last attempt to read the group failed; ``None`` if it did not, or has not ended yet."""
        return self._failure

    @property
    def listened_ms(self) -> int | None:
        """For how long others could be heard; ``None`` while they cannot be. See :class:`Hearing`."""
        return self._hearing.listened_ms if self._hearing.hears else None

    def age_ms(self) -> int | None:
        """How long ago the group was last seen; ``None`` if it never was."""
        return None if self._hearing.at is None else self._clock() - self._hearing.at

    def slowest(self, heeds: Heeds = everybody) -> Entry | None:
        """Who has the least watermark of the others that ``heeds`` accepts; ``None`` if nobody holds.

        While the table cannot be read, or nobody can write it, what was last seen stands.
        """
        return self._hearing.slowest(heeds)

    def floor(self, heeds: Heeds = everybody) -> int | None:
        """The watermark of the slowest."""
        return self._hearing.floor(heeds)

    def others(self) -> dict[Key, Mark]:
        """Where the other members stand, as they were last seen."""
        return {k: s.entry.mark for k, s in self.view.members.items() if k != self._entry.key}

    def former(self) -> Entry | None:
        """The last entry of the former run of this member, if it was seen and did not leave."""
        return self.view.former(self._entry)

    def rival(self) -> Entry | None:
        """Another live holder of the id that was there before."""
        return self.view.rival(self._entry)

    def successor(self) -> Entry | None:
        """A run of the same lineage that has joined the group after this one; ``None`` before this one has."""
        return None if self._since is None else self.view.successor(self._entry, self._since)

    def look(self) -> None:
        """See the group anew, if the table answers in time.

        Raises:
            ConnectorError: the member's thread cannot be started; the table itself never is a reason.
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
        """Let the group know these, see :class:`Entry`, if the table takes it in time.

        What it does not take now it is told later, as long as it is the newest. Nothing new is not told again.

        Raises:
            ConnectorError: as :meth:`look`.
        """
        with self._changed:
            entry = self._entry
            said = (entry.watermark, entry.waiting, entry.held_by, entry.progress)
            if self._joined and said == (watermark, waiting, held_by, progress) and not self._unpublished:
                return
            if not self._joined:
                last = self.view.members.get(entry.key)
                entry = entry.succeeding(last.entry if last is not None else None)
            self._entry = entry.next(
                watermark, waiting=waiting, held_by=held_by, progress=progress, waits=waits
            )
            self._joined = self._unpublished = True
            self._ask()

    def leave(self, timeout_s: float = 2.0) -> None:
        """Say good-bye, as far as it goes in ``timeout_s``, and end the thread. Never raises.

        A member whose Spark has died says nothing: it was not stopped, and the others wait for its restart.
        """
        with self._changed:
            self._part()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _ask(self) -> None:
        """Wait for the thread to go to the table once; not again for one that is stuck there, if it has seen it."""
        if self._closing:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="flip27-group", daemon=True)
            start(thread)
            self._thread = thread
        self._asked += 1
        asked = self._asked
        self._changed.notify_all()
        gives_up_at_once = self._late and self.looked_at is not None  # who never saw the group would pass it
        patience_s = 0 if gives_up_at_once else _PATIENCE_S
        self._late = not self._changed.wait_for(lambda: self._done >= asked, patience_s) or self._late

    def _part(self) -> None:
        if self._is_orphan():
            self._unpublished = False
        elif self._joined and not self._closing:
            self._entry = self._entry.leaving()
            self._unpublished = True
        self._closing = True

    def _is_orphan(self) -> bool:
        return os.getppid() != self._parent

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, self._until_beat())
                if self._is_orphan():
                    self._part()
                turn, over = self._asked, self._closing
                entry = self._to_publish()
            succeeded = self._go(entry)
            with self._changed:
                self._late = self._late and not succeeded
                self._done = self._done if self._log.is_behind else turn
                self._changed.notify_all()
            if over:
                return

    def _has_work(self) -> bool:
        return self._asked > self._done or self._closing or self._log.is_behind

    def _until_beat(self) -> float:
        return max(self._beat_at - time.monotonic(), 0.0) if self._joined else self._beat_s

    def _to_publish(self) -> Entry | None:
        if self._joined and not self._unpublished and self._until_beat() == 0.0:
            self._entry = self._entry.again()
            self._unpublished = True
        return self._entry if self._unpublished else None

    def _go(self, entry: Entry | None) -> bool:
        """Once to the table and back, whether both succeeded; who cannot speak listens all the same.

        One look reads a bounded part of the log, so that the entry is renewed in time while there is more to read.
        """
        unpublished = None if entry is None else self._publish(entry)
        try:
            news = self._log.news()
        except Exception as error:  # noqa: BLE001 - the thread has to survive
            self._warn_of(error, "what was last known of the group stands")
            with self._changed:
                self._hearing, self._failure = self._hearing.after_failure(), error
            return False
        if unpublished is not None:
            self._warn_of(unpublished, "the group hears nothing of this source")
        self._failing = unpublished is not None
        with self._changed:
            self._failure = None
            self._hearing = self._hearing.after(
                news, self._clock(), can_speak=self._can_speak, is_behind=self._log.is_behind
            )
            if unpublished is None:
                self._unpublished = self._unpublished and self._entry is not entry
            self._take_place()
        return unpublished is None

    def _take_place(self) -> None:
        entry = self._hearing.in_place(self._entry, self._since)
        if self._joined and not self._closing and entry is not self._entry:
            self._entry = entry
            self._unpublished = True
            self._beat_at = 0.0

    def _publish(self, entry: Entry) -> Exception | None:
        """Why that cannot be done."""
        self._beat_at = time.monotonic() + self._beat_s  # also after a failure
        try:
            version = self._log.publish(entry)
            self._since = version if self._since is None else min(self._since, version)
            self._on_commit(version)
        except Exception as error:  # noqa: BLE001 - as in _go
            self._can_speak = False
            return error
        self._can_speak = True
        return None

    def _warn_of(self, error: Exception, consequence: str) -> None:
        """Once, until all is well again."""
        if not self._failing:
            _LOG.warning("%s. Meanwhile %s.", error, consequence)
        self._failing = True
