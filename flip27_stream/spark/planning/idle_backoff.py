"""How often a source that has nothing to read is planned, and how long it holds Spark's question back.

Spark asks all sources of a query in turn, and again at once where none of them has anything. So a source that has
nothing must answer quickly, for the others' sake, and must not plan each time, for the processor's sake: between two
plans that found nothing it answers what the last one found.
"""

from __future__ import annotations

import time

_FIRST_S = 0.005
_CPU_SHARE = 0.04
_AT_ONCE_S = 0.1


class IdleBackoff:
    """The pace of one source.

    Args:
        greatest_s: between two plans that find nothing there is no more time than this, whatever they cost.
    """

    def __init__(self, greatest_s: float) -> None:
        self._greatest_s = greatest_s
        self._rest_s = self._pause_s = 0.0
        self._due = self._answered = 0.0
        self._cpu_s = 0.0
        self._is_busy = True

    def is_due(self) -> bool:
        """Whether to plan now: the last plan was long ago for what it cost, or Spark did something else meanwhile."""
        now = time.monotonic()
        self._is_busy = self._is_busy or now - self._answered > _AT_ONCE_S
        return self._is_busy or now >= self._due

    def batch_runs(self) -> None:
        """Spark runs a batch of the query, be it of other sources alone: what they bring may be near here, too."""
        self._is_busy = True

    def moved(self) -> None:
        """A plan has found something to read."""
        self._is_busy, self._rest_s = True, 0.0

    def found_nothing(self, cost_s: float, *, comes_soon: bool) -> None:
        """A plan that took so much processor time has found nothing to read.

        The first rests are short, since after a batch the next rows may be near, and so while something is likely to
        come soon. Then planning in vain takes no more than its share of a core.
        """
        before = 0.0 if comes_soon else self._rest_s
        self._rest_s = min(max(min(2 * before, cost_s / _CPU_SHARE), _FIRST_S), self._greatest_s)
        self._due = time.monotonic() + self._rest_s
        self._cpu_s += cost_s

    def hold_back(self) -> None:
        """Wait before the answer that there is nothing: not for long, and longer only while the whole query is idle.

        Taking Spark's question and giving the answer costs processor time, too, most of it for the text of offsets.
        """
        cost_s = time.process_time() - self._cpu_s
        before, most = (0.0, 0.0) if self._is_busy else (self._pause_s, cost_s / _CPU_SHARE)
        self._pause_s = max(min(2 * before, most, self._greatest_s), _FIRST_S)
        time.sleep(self._pause_s)
        self._cpu_s, self._is_busy = time.process_time(), False
        self._answered = time.monotonic()
