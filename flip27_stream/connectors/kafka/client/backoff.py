"""The backoff of retries (Java's ``ExponentialBackoff``)."""

from __future__ import annotations

_MOST_S = 1.0


class Backoff:
    """The backoff of one request that is tried repeatedly.

    The first try is due at once. The pause after it is ``least_s`` and then doubles, up to a second. If no try was made
    for two seconds after it was due, the pause starts with ``least_s`` again.

    Args:
        least_s: The first pause, in seconds.

    Attributes:
        next_at: The time at which the next try is due, in monotonic seconds.
    """

    def __init__(self, least_s: float) -> None:
        self.next_at = float("-inf")
        self._least, self._delay = least_s, least_s

    def is_due(self, now: float) -> bool:
        """Returns whether a try is due at ``now`` (monotonic seconds)."""
        return now >= self.next_at

    def tried(self, now: float) -> None:
        """Records that a try is made at ``now`` (monotonic seconds)."""
        quiet = now - self.next_at > 2 * _MOST_S
        self._delay = self._least if quiet else min(2 * self._delay, max(_MOST_S, self._least))
        self.next_at = now + self._delay
