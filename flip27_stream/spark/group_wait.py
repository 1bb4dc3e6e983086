"""How an AvailableNow run waits for other members of its group."""

from __future__ import annotations

import time

from watermark_alignment.options import AlignmentOptions

_FIRST_WAIT_S = 0.05


class GroupWait:
    """The wait of one run.

    Spark ends the run at the first answer that changes nothing, so it must not get one. Nor must the answer be waited
    for: the member that is behind may be another source of this very query, which Spark asks only after this one. So
    the answer is an empty batch: at once if somebody moved since the last one, else after a while.

    Attributes:
        given_up: the watermark up to which members are not waited for any more; who moves above it counts again.
    """

    def __init__(self, alignment: AlignmentOptions) -> None:
        self._timeout_ms = alignment.source_timeout_ms
        self._longest_s = alignment.update_interval_ms / 1000
        self._held: tuple[int | None, int] | None = None
        self.given_up: int | None = None
        self._batch: int | None = None
        self._others: object = None
        self._wait_s = 0.0
        self._until = 0.0

    def is_over(self) -> None:
        self._held = None

    def gives_up(self, floor: int | None, now: int) -> bool:
        """Whether ``floor``, of those not given up before, has held the run for longer than source-timeout."""
        if self._held is None or self._held[0] != floor:
            self._held = floor, now
        if now - self._held[1] <= self._timeout_ms:
            return False
        self.given_up, self._held = floor, None
        return True

    def is_enough(self, batch: int, others: object) -> bool:
        """Whether the plan that follows ``batch`` is to be answered with an empty batch now."""
        if batch != self._batch:
            moved = others != self._others
            self._wait_s = 0.0 if moved else min(2 * self._wait_s or _FIRST_WAIT_S, self._longest_s)
            self._batch, self._others, self._until = batch, others, time.monotonic() + self._wait_s
        return time.monotonic() >= self._until
