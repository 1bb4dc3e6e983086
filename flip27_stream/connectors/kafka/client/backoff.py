"""When to try again (Java's ``ExponentialBackoff``)."""

from __future__ import annotations

_MOST_S = 1.0


class Backoff:
    """At once, then after the least time, then twice that, up to a second; from the start after two quiet seconds.

    Attributes:
        next_at: when the next try is due, in monotonic seconds.

    Args:
        least_s: in seconds.
    """

    def __init__(self, least_s: float) -> None:
        self.next_at = float("-inf")
        self._least, self._delay = least_s, least_s

    def is_due(self, now: float) -> bool:
        return now >= self.next_at

    def tried(self, now: float) -> None:
        """A try is made now."""
        quiet = now - self.next_at > 2 * _MOST_S
        self._delay = self._least if quiet else min(2 * self._delay, max(_MOST_S, self._least))
        self.next_at = now + self._delay
