"""The backoff of an idle source: the pauses between its plans, and the delay of its answers to Spark.

Spark asks all sources of a query one after the other, and asks again at once while none of them has anything to read.
An idle source must answer quickly, because the other sources wait for the answer. It must not plan each time, because
a plan costs processor time. So between two plans that found nothing it repeats the answer of the last plan.
"""

from __future__ import annotations

import time

_FIRST_S = 0.005
_CPU_SHARE = 0.04
_AT_ONCE_S = 0.1


class IdleBackoff:
    """The backoff of one source: the pauses between its plans, and the delay of its answers.

    Args:
        longest_s: The longest time (s) between two plans that find nothing, whatever they cost.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._plan_pause_s = self._answer_delay_s = 0.0
        self._next_plan_at = self._answered_at = 0.0
        self._cpu_s = 0.0
        self._is_busy = True

    def is_due(self) -> bool:
        """Returns whether to plan now: the pause after the last plan is over, or Spark has done other work since."""
        now = time.monotonic()
        self._is_busy = self._is_busy or now - self._answered_at > _AT_ONCE_S
        return self._is_busy or now >= self._next_plan_at

    def record_batch(self) -> None:
        """Records that Spark runs a batch, perhaps of other sources only; this source may get rows soon."""
        self._is_busy = True

    def record_progress(self) -> None:
        """Records that a plan has found something to read."""
        self._is_busy, self._plan_pause_s = True, 0.0

    def record_empty_plan(self, cost_s: float, *, comes_soon: bool) -> None:
        """Records that a plan has found nothing to read, and sets the pause until the next plan.

        The pauses after a batch are short at first, because the next rows may come soon. Then they grow until planning
        takes 4% of one core.

        Args:
            cost_s: The processor time (s) that the plan took.
            comes_soon: Whether rows are likely to come soon, so that the pause stays short.
        """
        before = 0.0 if comes_soon else self._plan_pause_s
        self._plan_pause_s = min(max(min(2 * before, cost_s / _CPU_SHARE), _FIRST_S), self._longest_s)
        self._next_plan_at = time.monotonic() + self._plan_pause_s
        self._cpu_s += cost_s

    def delay_answer(self) -> None:
        """Sleeps before Spark gets the answer that there is nothing to read, because each answer costs processor time.

        The sleep stays short unless all sources of the query are idle.
        """
        cost_s = time.process_time() - self._cpu_s
        before, most = (0.0, 0.0) if self._is_busy else (self._answer_delay_s, cost_s / _CPU_SHARE)
        self._answer_delay_s = max(min(2 * before, most, self._longest_s), _FIRST_S)
        time.sleep(self._answer_delay_s)
        self._cpu_s, self._is_busy = time.process_time(), False
        self._answered_at = time.monotonic()
