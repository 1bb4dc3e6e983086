"""The backoff of retries."""

from __future__ import annotations

from flip27_stream.exponential_backoff import exponential_backoff

_MOST_S = 1.0


class Backoff:
    """The backoff of one request that is tried repeatedly.

    The first try is due at once. The pause after it is ``least_s`` and then doubles, up to a second, with a random
    variation (:func:`exponential_backoff`). If no try was made for two seconds after it was due, the pause starts with
    ``least_s`` again.

    Args:
        least_s: The first pause, in seconds.

    Attributes:
        next_at: The time at which the next try is due, in monotonic seconds.
    """

    def __init__(self, least_s: float) -> None:
        self.next_at = float("-inf")
        self._least_s, self._tries = least_s, 0

    def is_due(self, now: float) -> bool:
        """Returns whether a try is due at ``now`` (monotonic seconds)."""
        return now >= self.next_at

    def tried(self, now: float) -> None:
        """Records that a try is made at ``now`` (monotonic seconds)."""
        quiet = now - self.next_at > 2 * _MOST_S
        self._tries = 0 if quiet else self._tries + 1
        self.next_at = now + exponential_backoff(self._least_s, _MOST_S, self._tries)
