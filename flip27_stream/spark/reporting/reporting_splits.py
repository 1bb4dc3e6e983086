"""Of which splits tasks report what they read, and of which they do not; alignment by reports (FLIP-217) needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.spark.reporting.reports import TaskReport

SILENT_BATCHES = 3
SILENT_MS = 120_000
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 30_000

RangeKey = tuple[str, int, int]
"""What a task reads of a split: id, start and end position."""


@dataclass(frozen=True)
class Reporting:
    """How far it is known what tasks read.

    Attributes:
        impossible: why no task can report at all; ``None`` if tasks can.
        pausing: splits that are not read now, since no report came of the last batches that read them.
        lost: the splits that no report will come of any more, with the reason.
    """

    impossible: str | None = None
    pausing: frozenset[str] = frozenset()
    lost: Mapping[str, str] = field(default_factory=dict)

    def why_unknown(self, split: str) -> str | None:
        """Why it is not known what tasks read of a split; ``None`` if it is, or is to be waited for."""
        return self.impossible or self.lost.get(split)


@dataclass
class _Silence:
    """Batches in a row that read a split, and no report came of it.

    Attributes:
        since: the clock (ms) when the first of them was planned.
        batches: how many there were.
        read_at: the clock (ms) when the last of them was planned.
    """

    since: int
    batches: int = 0
    read_at: int = 0

    @property
    def pause_ms(self) -> int:
        """How long to wait before the split is read again; what is read meanwhile would get ahead unseen."""
        doubled = min(self.batches - SILENT_BATCHES, 10)
        return 0 if doubled < 0 else min(_FIRST_PAUSE_MS * 2**doubled, _LONGEST_PAUSE_MS)


class ReportCheck:
    """Compares what tasks report with what they were to read.

    After three batches in a row without a report of a split it is read only now and then: again after 1 s, 2 s, 4 s and
    so on, every 30 s at last. So what is read of it unseen is bounded, and a network that works again is noticed:
    tasks that could not report try again after 30 s at the latest. After two minutes, and three batches, it is lost.

    Args:
        clock: tells the time (ms).
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._running: tuple[int, set[RangeKey]] = -1, set()
        self._planned_at = 0
        self._silent: dict[str, _Silence] = {}

    def planned(self, batch: int, ranges: Collection[RangeKey]) -> None:
        """Tasks that read these ranges are about to run."""
        self._running, self._planned_at = (batch, set(ranges)), self._clock()

    def take_in(self, reports: Collection[TaskReport], processed: int | None) -> None:
        """These reports came; batch ``processed`` has sent all of its."""
        batch, unreported = self._running
        told = [(s.split, s.start, s.end) for report in reports for s in report.splits]
        unreported.difference_update(told)
        silent = {name for name, _, _ in unreported}
        for name in {name for name, _, _ in told} - silent:
            self._silent.pop(name, None)
        if processed is not None and processed == batch:
            for name in silent:
                silence = self._silent.setdefault(name, _Silence(self._planned_at))
                silence.batches += 1
                silence.read_at = self._planned_at
            self._running = -1, set()

    def reporting(self, splits: Collection[str]) -> Reporting:
        """How it stands now with ``splits``; others are forgotten."""
        self._silent = {name: silence for name, silence in self._silent.items() if name in splits}
        now = self._clock()
        lost = {name: self._why_lost(name, s) for name, s in self._silent.items() if _is_lost(s, now)}
        pausing = [name for name, s in self._silent.items() if now - s.read_at < s.pause_ms]
        return Reporting(pausing=frozenset(pausing) - lost.keys(), lost=lost)

    @staticmethod
    def _why_lost(split: str, silence: _Silence) -> str:
        return (
            f"no report came of split {split} in {silence.batches} batches that read it, over more than "
            f"{SILENT_MS // 1000} s"
        )


def _is_lost(silence: _Silence, now: int) -> bool:
    return silence.batches >= SILENT_BATCHES and now - silence.since > SILENT_MS
