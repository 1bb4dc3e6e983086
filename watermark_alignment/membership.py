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

from watermark_alignment.group import Entry, GroupView, Key
from watermark_alignment.group_log import GroupLog

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
        self._view = GroupView()
        self._looked_at: int | None = None
        self._heard_ms = 0
        self._joined = self._unpublished = self._closing = self._failing = self._late = False
        self._asked = self._done = 0
        self._beat_at = 0.0
        self._beat_s = min(entry.timeout_ms / 1000 / _BEATS_PER_TIMEOUT, LONGEST_BEAT_S)
        self._longest_gap_ms = int(2 * self._beat_s * 1000)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def entry(self) -> Entry:
        """What the member last said, or is about to say."""
        return self._entry

    @property
    def view(self) -> GroupView:
        """The group as it was last seen."""
        return self._view

    def age_ms(self) -> int | None:
        """How long ago the group was last seen; ``None`` if it never was."""
        return None if self._looked_at is None else self._clock() - self._looked_at

    def slowest(self, above: int | None = None) -> Entry | None:
        """Who has the least watermark of the others, or of those that are ``above`` one; ``None`` if nobody holds.

        While the table cannot be read, what was last seen stands.
        """
        if self._looked_at is None:
            return None
        return self._view.slowest(self._entry.key, self._heard_ms, self._entry.timeout_ms, above)

    def floor(self, above: int | None = None) -> int | None:
        """The watermark of the slowest."""
        if self._looked_at is None:
            return None
        return self._view.floor(self._entry.key, self._heard_ms, self._entry.timeout_ms, above)

    def others(self) -> dict[Key, int | None]:
        """The watermarks of the other members, as they were last seen."""
        return {k: s.entry.watermark for k, s in self._view.members.items() if k != self._entry.key}

    def look(self) -> None:
        """See the group anew, if the table answers in time; never raises."""
        with self._changed:
            self._ask()

    def announce(self, watermark: int | None, *, waiting: int = 0, held_by: str | None = None) -> None:
        """Let the group know these, see :class:`Entry`, if the table takes it in time; never raises.

        What it does not take now it is told later, as long as it is the newest. Nothing new is not told again.
        """
        with self._changed:
            said = (self._entry.watermark, self._entry.waiting, self._entry.held_by)
            if self._joined and said == (watermark, waiting, held_by) and not self._unpublished:
                return
            if not self._joined:
                last = self._view.members.get(self._entry.key)
                self._entry = self._entry.succeeding(last.entry if last is not None else None)
            self._entry = self._entry.next(watermark, waiting=waiting, held_by=held_by)
            self._joined = self._unpublished = True
            self._ask()

    def leave(self, timeout_s: float = 1.0) -> None:
        """Say good-bye, as far as it goes in ``timeout_s``, and end the thread. Never raises."""
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
            self._thread = threading.Thread(target=self._run, name="flip27-group", daemon=True)
            self._thread.start()
        self._asked += 1
        asked = self._asked
        self._changed.notify_all()
        gives_up_at_once = self._late and self._looked_at is not None  # who never saw the group would pass it
        patience_s = 0 if gives_up_at_once else _PATIENCE_S
        self._late = not self._changed.wait_for(lambda: self._done >= asked, patience_s)

    def _part(self) -> None:
        if self._joined and not self._closing:
            self._entry = self._entry.leaving()
            self._unpublished = True
        self._closing = True

    def _run(self) -> None:
        parent = os.getppid()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked > self._done or self._closing, self._until_beat())
                if os.getppid() != parent:  # Spark is gone
                    self._part()
                turn, over = self._asked, self._closing
                entry = self._to_publish()
            self._go(entry)
            with self._changed:
                self._done, self._late = turn, False
                self._changed.notify_all()
            if over:
                return

    def _until_beat(self) -> float:
        return max(self._beat_at - time.monotonic(), 0.0) if self._joined else self._beat_s

    def _to_publish(self) -> Entry | None:
        if self._joined and not self._unpublished and self._until_beat() == 0.0:
            self._entry = self._entry.again()
            self._unpublished = True
        return self._entry if self._unpublished else None

    def _go(self, entry: Entry | None) -> None:
        """Once to the table and back; who cannot speak listens all the same."""
        unpublished = None if entry is None else self._publish(entry)
        try:
            news = self._log.news()
        except Exception as error:  # noqa: BLE001 - the thread has to survive
            self._warn_of(error, "what was last known of the group stands")
            return
        if unpublished is not None:
            self._warn_of(unpublished, "the group hears nothing of this source")
        self._failing = unpublished is not None
        now = self._clock()
        heard_ms = self._heard_by(now)
        view = self._view
        for version, told in news:
            view = view.after(version, told, heard_ms)
        with self._changed:
            self._view = view.without_the_dead(self._entry.key, heard_ms, self._entry.timeout_ms)
            self._looked_at, self._heard_ms = now, heard_ms
            if unpublished is None:
                self._unpublished = self._unpublished and self._entry is not entry

    def _heard_by(self, now: int) -> int:
        """How long this member has listened: others are silent only in that time, and not while nobody can be heard,
        the table not answering or this process standing still."""
        since_last = 0 if self._looked_at is None else now - self._looked_at
        return self._heard_ms + min(since_last, self._longest_gap_ms)

    def _publish(self, entry: Entry) -> Exception | None:
        """Why that cannot be done."""
        self._beat_at = time.monotonic() + self._beat_s  # also after a failure
        try:
            self._on_commit(self._log.publish(entry))
        except Exception as error:  # noqa: BLE001 - as in _go
            return error
        return None

    def _warn_of(self, error: Exception, consequence: str) -> None:
        """Once, until all is well again."""
        if not self._failing:
            _LOG.warning("%s. Meanwhile %s.", error, consequence)
        self._failing = True
