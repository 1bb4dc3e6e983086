"""The waiting of an AvailableNow run for the other members of its group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from watermark_alignment.group.group_view import Entry, Key, MemberProgress
from watermark_alignment.options import AlignmentOptions

_SHORTEST_WAIT_S = 0.05
_SHARE_OF_BATCH = 0.1
"""The share of the time between two answers by which a run waits for another source of its own query."""


@dataclass(frozen=True)
class MemberWait:
    """The time for which a run has waited for a member that makes no progress.

    Attributes:
        last: The newest entry of the member.
        heard_ms: The time (ms) up to that entry, in which the member was alive and made no progress.
        unheard_ms: The time (ms) since that entry.
    """

    last: Entry
    heard_ms: int = 0
    unheard_ms: int = 0

    def after(self, ms: int, entry: Entry) -> MemberWait:
        """Returns the state of the wait after another ``ms`` milliseconds, with the newest ``entry`` of the member."""
        if entry.member_progress != self.last.member_progress:
            return MemberWait(entry)
        passed = replace(self, unheard_ms=self.unheard_ms + ms)
        return passed if entry == self.last else MemberWait(entry, passed.heard_ms + passed.unheard_ms)


class GroupWait:
    """The waiting of one run, by rule 8.

    Spark ends the run when ``latestOffset`` returns an unchanged offset, so a waiting run must return another one. It
    must not block until it can read: the member that is behind may be another source of the same query, and Spark
    asks that source only after this one has answered. So the run returns an empty batch: at once if the member that
    holds it has moved since the last batch; after a short pause if another member has moved, which may be a source of
    the same query; otherwise after a growing pause. There is always some pause, because only the time spent in a plan
    counts.

    A member that makes no progress for longer than ``source-timeout`` is ignored until it makes progress. Only the time
    counts in which a plan waited, the group was read and the member was alive. The time in which Spark runs a batch,
    and an outage of the table, do not count.

    Args:
        alignment: The alignment options of the source.
        monotonic: Returns a time (s) that never decreases; used for the pauses.
    """

    def __init__(self, alignment: AlignmentOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._timeout_ms = alignment.source_timeout_ms
        self._longest_s = max(alignment.update_interval_ms / 1000, _SHORTEST_WAIT_S)
        self._monotonic = monotonic
        self._waits: dict[Key, MemberWait] = {}
        self._given_up: dict[Key, MemberProgress] = {}
        self._asked: tuple[int, int] | None = None
        self._readable_ms: int | None = None
        self._uncounted_ms = 0
        self._batch: int | None = None
        self._seen: tuple[tuple[Key, MemberProgress] | None, object] = None, None
        self._wait_s = 0.0
        self._until = self._answered = 0.0

    def counts(self, entry: Entry) -> bool:
        """Returns whether the run waits for a member: it is not ignored, or has made progress since it was ignored."""
        return self._given_up.get(entry.key) != entry.member_progress

    def gives_up(self, slowest: Entry, batch: int, now: int, readable_ms: int | None) -> bool:
        """Returns whether the run continues without ``slowest``, the member for which it waits.

        Args:
            slowest: The newest entry of the member.
            batch: The number of the batch before the plan that waits.
            now: The query's clock (ms).
            readable_ms: The time (ms) in which the group could be read; ``None`` while it cannot be read.
        """
        passed_ms = self._passed(batch, now, readable_ms)
        wait = self._waits.get(slowest.key, MemberWait(slowest)).after(passed_ms, slowest)
        self._waits[slowest.key] = wait
        if wait.heard_ms <= self._timeout_ms:
            return False
        self._given_up[slowest.key] = slowest.member_progress
        del self._waits[slowest.key]
        return True

    def is_enough(self, batch: int, slowest: Entry | None, others: object) -> bool:
        """Returns whether the plan has waited long enough, so that it returns an empty batch.

        Args:
            batch: The number of the batch before the plan that waits.
            slowest: The newest entry of the member that holds the run; ``None`` if no member does.
            others: The state of all other members, compared with their state at the last empty batch.
        """
        now = self._monotonic()
        if batch != self._batch:
            seen = (slowest.key, slowest.member_progress) if slowest is not None else None, others
            self._wait_s = self._next_wait(seen, now)
            self._batch, self._seen, self._until = batch, seen, now + self._wait_s
        is_over = now >= self._until
        self._answered = now if is_over else self._answered
        return is_over

    def _next_wait(self, seen: tuple[tuple[Key, MemberProgress] | None, object], now: float) -> float:
        if seen[0] != self._seen[0]:
            return 0.0
        another_moved = seen[1] != self._seen[1]
        wait_s = _SHARE_OF_BATCH * (now - self._answered) if another_moved else 2 * self._wait_s
        return min(max(wait_s, _SHORTEST_WAIT_S), self._longest_s)

    def _passed(self, batch: int, now: int, readable_ms: int | None) -> int:
        """Returns the time (ms), not counted before, in which a plan waited and the group could be read.

        A read of the table may end long after the plan that began it. So the time that plans waited is stored until the
        next read shows how much of it counts, up to half of ``source-timeout``.
        """
        self._uncounted_ms = min(self._uncounted_ms + self._waited_since(batch, now), self._timeout_ms // 2)
        before, self._readable_ms = self._readable_ms, readable_ms
        if before is None or readable_ms is None:
            self._uncounted_ms = 0
            return 0
        passed_ms = min(readable_ms - before, self._uncounted_ms)
        if passed_ms:
            self._uncounted_ms = 0
        return passed_ms

    def _waited_since(self, batch: int, now: int) -> int:
        """Returns the time (ms) that the plan after ``batch`` has waited since the last call; 0 in its first call."""
        last, self._asked = self._asked, (batch, now)
        return now - last[1] if last is not None and last[0] == batch else 0
