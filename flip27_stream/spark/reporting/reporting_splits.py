"""Finds the splits on which tasks report, for alignment by reports (FLIP-217)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.api.planned_range import RangeKey
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.spark.reporting.reports import TaskReport

SILENT_BATCHES = 3
SILENT_MS = 120_000
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 30_000


@dataclass(frozen=True)
class Reporting:
    """The splits on which tasks can report.

    Attributes:
        impossible: The reason why no task can report; ``None`` if tasks can report.
        pausing: Ids of the splits that are not read now, because the last batches that read them brought no report.
        lost: The reason why no report on a split is expected any more, by split id.
    """

    impossible: str | None = None
    pausing: frozenset[str] = frozenset()
    lost: Mapping[str, str] = field(default_factory=dict)

    def why_unknown(self, split: str) -> str | None:
        """Returns the reason why no report on a split can be expected; ``None`` if a report can be expected."""
        return self.impossible or self.lost.get(split)


@dataclass
class _Silence:
    """Batches in a row that read a split and for which no report on it came.

    Attributes:
        since: The time (ms) at which the first of them was planned.
        batches: The number of these batches.
        read_at: The time (ms) at which the last of them was planned.
    """

    since: int
    batches: int = 0
    read_at: int = 0

    @property
    def pause_ms(self) -> float:
        """The time (ms) for which the split is not read, because without reports its lead would stay unnoticed."""
        further = self.batches - SILENT_BATCHES
        return doubled_pause(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, further) if further >= 0 else 0


class ReportCheck:
    """Compares the ranges that tasks report with the planned ranges.

    After three batches in a row without a report on a split, the split is read again only after 1 s, 2 s, 4 s and so
    on, up to every 30 s. This bounds the rows that are read without a report, and still detects a network that works
    again: tasks that could not report try again after 30 s at most. After two minutes and three batches, no report on
    the split is expected any more.

    Args:
        clock: Returns the query's time (ms).
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._running: tuple[int, set[RangeKey]] = -1, set()
        self._planned_at = 0
        self._silent: dict[str, _Silence] = {}

    def plan_batch(self, batch: int, ranges: Collection[RangeKey]) -> None:
        """Records that tasks that read these ranges are about to run."""
        self._running, self._planned_at = (batch, set(ranges)), self._clock()

    def add_reports(self, reports: Collection[TaskReport], processed: int | None) -> None:
        """Adds reports.

        Args:
            reports: The reports that came since the last call.
            processed: The number of the last batch that Spark has processed; its tasks send no more reports.
        """
        batch, unreported = self._running
        reported = [split.key for report in reports for split in report.splits]
        unreported.difference_update(reported)
        silent = {key.split_id for key in unreported}
        if self._silent:
            for name in {key.split_id for key in reported} - silent:
                self._silent.pop(name, None)
        if processed is not None and processed == batch:
            for name in silent:
                silence = self._silent.setdefault(name, _Silence(self._planned_at))
                silence.batches += 1
                silence.read_at = self._planned_at
            self._running = -1, set()

    def reporting(self, splits: Collection[str]) -> Reporting:
        """Returns the splits among ``splits`` on which tasks report; forgets all other splits."""
        self._silent = {name: silence for name, silence in self._silent.items() if name in splits}
        now = self._clock()
        lost = {name: self._why_lost(name, s) for name, s in self._silent.items() if _is_lost(s, now)}
        pausing = [name for name, s in self._silent.items() if now - s.read_at < s.pause_ms]
        return Reporting(pausing=frozenset(pausing) - lost.keys(), lost=lost)

    @staticmethod
    def _why_lost(split: str, silence: _Silence) -> str:
        return (
            f"tasks sent no report on split {split} in {silence.batches} batches that read it, over more than "
            f"{SILENT_MS // 1000} s"
        )


def _is_lost(silence: _Silence, now: int) -> bool:
    return silence.batches >= SILENT_BATCHES and now - silence.since > SILENT_MS
