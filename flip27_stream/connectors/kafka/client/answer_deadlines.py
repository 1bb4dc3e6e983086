"""The deadlines of a round of requests: the time to wait for the answer about each partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

FULL_S = 5.0
_GLANCE_S = 0.25
_PROMPT_S = 1.0
_ROUNDS = 4
_MOST_ROUNDS = 64
_SHARE = 0.1

K = TypeVar("K")


@dataclass
class _Wait:
    """The state of a partition that did not answer within a second.

    Attributes:
        latency: The time that its last answer took, in seconds.
        unanswered: The number of full waits without an answer since the last answer.
        rounds: The number of rounds since the last full wait.
        waited_at: The time at which the last wait of more than 0.25 s ended, in monotonic seconds.
    """

    latency: float = 0.0
    unanswered: int = 0
    rounds: int = 0
    waited_at: float = float("-inf")

    def note(self, waited: float, now: float, *, in_full: bool) -> None:
        """Records that a round waited for the partition.

        Args:
            waited: The time that the round waited, in seconds.
            now: The current time in monotonic seconds.
            in_full: Whether the round waited for the full wait (5 s or more).
        """
        self.rounds = 0 if in_full else self.rounds + 1
        if waited > _GLANCE_S:
            self.waited_at = now


class AnswerDeadlines(Generic[K]):
    """The wait for each partition in a round, so that slow or silent partitions do not delay the others.

    The *full wait* is 5 s or more. A partition that answers within a second gets the full wait in every round. A slower
    or silent partition gets it in every fourth round. After each full wait without an answer, the number of rounds
    until the next full wait doubles, up to 64. In the other rounds the wait is 0.25 s, or a tenth of the time since
    the last wait of more than 0.25 s if that is longer, but not longer than :meth:`full`.

    Args:
        most_s: The longest wait, in seconds.
    """

    def __init__(self, most_s: float) -> None:
        self._most = most_s
        self._waits: dict[K, _Wait] = {}

    def seconds(self, key: K, now: float, *, at_once: bool) -> float:
        """Returns the time for which a round waits for the answer of ``key``, in seconds.

        Args:
            key: The partition.
            now: The time at which the round begins, in monotonic seconds.
            at_once: Whether an answer after the end of the round is useless. A slow partition then always gets twice
                the time of its last answer, but 5 s at least, and a silent partition always gets 0.25 s.
        """
        wait = self._waits.get(key)
        if wait is None or (at_once and not wait.unanswered):
            return self.full(key)
        if at_once:
            return _GLANCE_S
        due = wait.rounds + 1 >= min(_ROUNDS << wait.unanswered, _MOST_ROUNDS)
        return max(FULL_S if due else _GLANCE_S, min(_SHARE * (now - wait.waited_at), self.full(key)))

    def full(self, key: K) -> float:
        """Returns the full wait for a partition in seconds: 5, or twice the time of its last answer if that is more."""
        return max(FULL_S, min(2 * self.latency(key), self._most))

    def longest(self, keys: Collection[K], now: float, *, at_once: bool, held_s: float = 0.0) -> float:
        """Returns the longest of the times :meth:`seconds` of these partitions, in seconds; 0 without partitions.

        Args:
            keys: The partitions.
            now: As for :meth:`seconds`.
            at_once: As for :meth:`seconds`.
            held_s: The time for which a broker may hold the request before it answers; it is added to full waits.
        """
        slow = self._slow(keys)
        times = [FULL_S + held_s] if len(slow) < len(keys) else []
        for key in slow:
            wait_s = self.seconds(key, now, at_once=at_once)
            times.append(wait_s + held_s if wait_s >= self.full(key) else wait_s)
        return max(times, default=0.0)

    def latency(self, key: K) -> float:
        """Returns the time that the last answer of a partition took, in seconds; 0 if it took less than a second."""
        wait = self._waits.get(key)
        return 0.0 if wait is None else wait.latency

    def greatest_latency(self, keys: Iterable[K]) -> float:
        """Returns the greatest :meth:`latency` of these partitions, in seconds."""
        return max(map(self.latency, self._slow(keys)), default=0.0)

    def answered(self, keys: Iterable[K], latency: float) -> None:
        """Records answers about partitions that came ``latency`` seconds after the request."""
        if latency <= _PROMPT_S:
            for key in self._slow(keys):
                self._waits.pop(key, None)
            return
        for key in keys:
            wait = self._waits.setdefault(key, _Wait())
            wait.latency, wait.unanswered = latency, 0

    def waited(self, keys: Iterable[K], seconds: float, now: float) -> None:
        """Records that a round waited ``seconds`` for partitions that answered; ``now`` is in monotonic seconds."""
        for key in self._slow(keys):
            self._waits[key].note(seconds, now, in_full=seconds > _GLANCE_S)

    def gave_up(self, key: K, waited: float, now: float) -> None:
        """Records that a round got no answer for a partition in ``waited`` seconds; ``now`` is in monotonic seconds."""
        in_full = waited >= FULL_S
        wait = self._waits.setdefault(key, _Wait())
        wait.unanswered += in_full
        wait.note(waited, now, in_full=in_full)

    def _slow(self, keys: Iterable[K]) -> list[K]:
        """Returns those of the partitions that took more than a second to answer last time, or did not answer."""
        return [key for key in keys if key in self._waits] if self._waits else []
