"""The limits of the service for reading a shard: 5 calls and 2 MB per second for all its readers together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_BURST_CALLS = 5
_BURST_S = 1.0


@dataclass
class _Allowance:
    """The state of the limits of a shard: the times up to which calls and bytes are used up (seconds of the clock)."""

    calls_paid_at: float = 0.0
    bytes_paid_at: float = 0.0


class ShardLimits:
    """Limits the rate of calls of one process for each shard. A few calls may come at once (token bucket).

    Args:
        period_s: The mean time (s) between two calls for a shard; 0 for no limit.
        bytes_per_s: The greatest mean number of bytes per second of a shard.
        clock: Returns monotonic seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        period_s: float,
        bytes_per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._period_s = period_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._allowances: dict[str, _Allowance] = {}
        self._lock = threading.Lock()

    def wait(self, shard: str) -> None:
        """Waits until the limits permit a call for the shard, and counts the call."""
        with self._lock:
            allowance = self._allowances.setdefault(shard, _Allowance())
            now = self._clock()
            allowance.calls_paid_at = max(allowance.calls_paid_at, now) + self._period_s
            calls = allowance.calls_paid_at - now - _BURST_CALLS * self._period_s
            waits = max(calls, allowance.bytes_paid_at - now - _BURST_S, 0.0)
        if waits > 0:
            self._sleep(waits)

    def read(self, shard: str, size: int) -> None:
        """Counts ``size`` bytes that were read from the shard."""
        with self._lock:
            allowance = self._allowances.setdefault(shard, _Allowance())
            since = max(allowance.bytes_paid_at, self._clock())
            allowance.bytes_paid_at = since + size / self._bytes_per_s
