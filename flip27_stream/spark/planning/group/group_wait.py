"""How an AvailableNow run waits for other members of its group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from watermark_alignment.group.group_view import Entry, Key, Mark
from watermark_alignment.options import AlignmentOptions

_SHORTEST_WAIT_S = 0.05
_SHARE_OF_BATCH = 0.1
"""So little longer another source of the query takes for its batches."""


@dataclass(frozen=True)
class Waited:
    """How long a run has waited for a member that stands still.

    Attributes:
        last: the newest entry of the member.
        heard_ms: up to that entry: so long the member was there and made no progress.
        unheard_ms: since then.
    """

    last: Entry
    heard_ms: int = 0
    unheard_ms: int = 0

    def after(self, ms: int, entry: Entry) -> Waited:
        """The same after ``ms`` more, ``entry`` being the newest now."""
        if entry.mark != self.last.mark:
            return Waited(entry)
        passed = replace(self, unheard_ms=self.unheard_ms + ms)
        return passed if entry == self.last else Waited(entry, passed.heard_ms + passed.unheard_ms)


class GroupWait:
    """The wait of one run.

    Spark ends the run at the first answer that changes nothing, so it must not get one. Nor must the answer be waited
    for: the member that is behind may be another source of this very query, which Spark asks only after this one. So
    the answer is an empty batch: at once if the member that holds the run moved since the last one, soon if another
    did, which may be of this query, else after a while. Some time must pass in waiting, for no other counts.

    A member that makes no progress for longer than source-timeout is given up, until it makes some. Only time counts in
    which a plan waited, the group was heard, and the member was there: not the time in which Spark runs a batch, nor an
    outage of the table.

    Args:
        alignment: options of the source.
        monotonic: seconds by which answers are held back.
    """

    def __init__(self, alignment: AlignmentOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._timeout_ms = alignment.source_timeout_ms
        self._longest_s = max(alignment.update_interval_ms / 1000, _SHORTEST_WAIT_S)
        self._monotonic = monotonic
        self._waited: dict[Key, Waited] = {}
        self._given_up: dict[Key, Mark] = {}
        self._asked: tuple[int, int] | None = None
        self._listened_ms: int | None = None
        self._uncounted_ms = 0
        self._batch: int | None = None
        self._seen: tuple[tuple[Key, Mark] | None, object] = None, None
        self._wait_s = 0.0
        self._until = self._answered = 0.0

    def heeds(self, entry: Entry) -> bool:
        """Whether the member is waited for: it was not given up where it stands."""
        return self._given_up.get(entry.key) != entry.mark

    def gives_up(self, slowest: Entry, batch: int, now: int, listened_ms: int | None) -> bool:
        """Whether the run goes on without ``slowest``, which holds it.

        Args:
            slowest: the newest entry of the member.
            batch: the plan that waits is the one after this batch.
            now: the query's clock (ms).
            listened_ms: for how long others could be heard; ``None`` while they cannot be.
        """
        passed_ms = self._passed(batch, now, listened_ms)
        waited = self._waited.get(slowest.key, Waited(slowest)).after(passed_ms, slowest)
        self._waited[slowest.key] = waited
        if waited.heard_ms <= self._timeout_ms:
            return False
        self._given_up[slowest.key] = slowest.mark
        del self._waited[slowest.key]
        return True

    def is_enough(self, batch: int, slowest: Entry | None, others: object) -> bool:
        """Whether the plan that follows ``batch`` is to be answered with an empty batch now.

        Args:
            batch: see :meth:`gives_up`.
            slowest: the member that holds the run.
            others: where all the others stand.
        """
        now = self._monotonic()
        if batch != self._batch:
            seen = (slowest.key, slowest.mark) if slowest is not None else None, others
            self._wait_s = self._next_wait(seen, now)
            self._batch, self._seen, self._until = batch, seen, now + self._wait_s
        is_over = now >= self._until
        self._answered = now if is_over else self._answered
        return is_over

    def _next_wait(self, seen: tuple[tuple[Key, Mark] | None, object], now: float) -> float:
        if seen[0] != self._seen[0]:
            return 0.0
        another_moved = seen[1] != self._seen[1]
        wait_s = _SHARE_OF_BATCH * (now - self._answered) if another_moved else 2 * self._wait_s
        return min(max(wait_s, _SHORTEST_WAIT_S), self._longest_s)

    def _passed(self, batch: int, now: int, listened_ms: int | None) -> int:
        """The time (ms), not counted before, in which a plan waited and others could be heard.

        A look at the table may end long after the plan that began it. So what plans waited is kept until the look
        after it tells how much of that was heard, but no more than a member may be silent between two beats or so.
        """
        self._uncounted_ms = min(self._uncounted_ms + self._waited_since(batch, now), self._timeout_ms // 2)
        before, self._listened_ms = self._listened_ms, listened_ms
        if before is None or listened_ms is None:
            self._uncounted_ms = 0
            return 0
        passed_ms = min(listened_ms - before, self._uncounted_ms)
        if passed_ms:
            self._uncounted_ms = 0
        return passed_ms

    def _waited_since(self, batch: int, now: int) -> int:
        """For how long (ms) the plan that follows ``batch`` has waited since it was asked about last."""
        last, self._asked = self._asked, (batch, now)
        return now - last[1] if last is not None and last[0] == batch else 0
