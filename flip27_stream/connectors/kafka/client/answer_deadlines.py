"""How long a round of requests waits for the answer about a partition."""

from __future__ import annotations

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
        latency: the seconds that its last answer took.
        in_vain: the number of full waits without an answer since the last answer.
        rounds: the number of rounds since the last full wait.
        waited_at: when the last wait ended that was longer than a glance (monotonic seconds).
    """

    latency: float = 0.0
    in_vain: int = 0
    rounds: int = 0
    waited_at: float = float("-inf")

    def note(self, waited: float, now: float, *, in_full: bool) -> None:
        """A round waited so many seconds for it."""
        self.rounds = 0 if in_full else self.rounds + 1
        if waited > _GLANCE_S:
            self.waited_at = now


class AnswerDeadlines(Generic[K]):
    """The wait for each partition in a round, so that slow or silent partitions do not delay the other partitions.

    The wait for a partition that answers within a second is the full wait, 5 s. A slower or silent partition gets the
    full wait in every fourth round, and in fewer rounds the longer it is silent. In the other rounds it gets a quarter
    of a second, or a tenth of the time since the last longer wait.

    Args:
        most_s: the longest wait, in seconds.
    """

    def __init__(self, most_s: float) -> None:
        self._most = most_s
        self._waits: dict[K, _Wait] = {}

    def seconds(self, key: K, now: float, *, at_once: bool) -> float:
        """The wait, in seconds, for an answer of ``key`` in a round that begins ``now`` (monotonic seconds).

        Where an answer after the round has no use (``at_once``), a slow partition always gets twice the time of its
        last answer, and a silent partition only a quarter of a second.
        """
        wait = self._waits.get(key)
        if wait is None or (at_once and not wait.in_vain):
            return self.full(key)
        if at_once:
            return _GLANCE_S
        due = wait.rounds + 1 >= min(_ROUNDS << wait.in_vain, _MOST_ROUNDS)
        return max(FULL_S if due else _GLANCE_S, min(_SHARE * (now - wait.waited_at), self.full(key)))

    def full(self, key: K) -> float:
        """The wait for a partition that is known to answer, in seconds: 5, or twice what its last answer took."""
        return max(FULL_S, min(2 * self.latency(key), self._most))

    def latency(self, key: K) -> float:
        """Seconds that its last answer took; 0 for less than one."""
        wait = self._waits.get(key)
        return 0.0 if wait is None else wait.latency

    def answered(self, key: K, latency: float) -> None:
        """An answer came, ``latency`` seconds after it was asked for."""
        if latency <= _PROMPT_S:
            self._waits.pop(key, None)
            return
        wait = self._waits.setdefault(key, _Wait())
        wait.latency, wait.in_vain = latency, 0

    def waited(self, key: K, seconds: float, now: float) -> None:
        """A round waited so long for one that answered in the end."""
        if (wait := self._waits.get(key)) is not None:
            wait.note(seconds, now, in_full=seconds > _GLANCE_S)

    def gave_up(self, key: K, waited: float, now: float) -> None:
        """No answer came in a round that waited so many seconds for it."""
        in_full = waited >= FULL_S
        wait = self._waits.setdefault(key, _Wait())
        wait.in_vain += in_full
        wait.note(waited, now, in_full=in_full)
