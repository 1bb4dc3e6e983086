"""The coordinator's knowledge about splits that is not in the offset.

It is lost when the process ends, and correctness never depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import EventTimes, SplitRange
from flip27_stream.spark.planning.micro_batch.split_warnings import SplitWarnings
from flip27_stream.spark.reporting.disorder import Disorder
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.source_spec import AnyState

_SILENCE_MS = 60_000

Row = tuple[int, int, int | None, int | None, int | None, int | None, bool]
"""What is known of a split: the fields of :class:`~watermark_alignment.planner.SplitView` after its id."""


class SplitTracker:
    """Keeps, per split, what tasks reported, the next event time, and when its log end was first seen.

    Args:
        max_out_of_orderness_ms: how far (ms) event times may fall back within a split before a warning is logged.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms
        self._read_max: dict[str, int] = {}
        self._next: dict[str, int | None] = {}
        self._quiet: dict[str, tuple[int, int]] = {}
        self._answered: set[str] = set()
        self._silent_since: dict[str, int] = {}
        self._disorder = Disorder()
        self._warnings = SplitWarnings()

    def begin_batch(self, batch: int, start: Mapping[str, AnyState]) -> None:
        """Records that batch ``batch`` is about to run, from the split states ``start``."""
        self._disorder.begin_batch(batch, {name: self.read_max(name, state) for name, state in start.items()})

    def add_report(self, report: TaskReport) -> None:
        """Adds the report of a task that has read its ranges to their ends."""
        for split in report.splits:
            if split.max_event_time is not None:
                self._read_max[split.split] = max(split.max_event_time, self._read_max.get(split.split, 0))
            fell_back = self._disorder.add(report.batch, split)
            if fell_back > self._bound:
                self._warnings.add(
                    split.split,
                    "event times of split %s fell back by %d ms, more than scan.watermark.max-out-of-orderness "
                    "(%d ms) allows: Spark can drop rows as late. Raise this option and the delay of withWatermark.",
                    fell_back,
                    self._bound,
                )
            if split.implausible:
                self._warnings.add(
                    split.split,
                    "split %s has records with an event time beyond scan.watermark.max-future (%d in this batch)",
                    split.implausible,
                )

    def read_max(self, split: str, state: AnyState | None) -> int | None:
        """Returns the greatest event time (ms) read, from the offset and from reports; ``None`` if unknown."""
        stored, reported = state.read_max if state else None, self._read_max.get(split)
        if stored is None or reported is None:
            return reported if stored is None else stored
        return max(stored, reported)

    def record_log_end(self, split: str, position: int, seen_at: int) -> None:
        """Records that the log of the split ended at ``position``, where the next batch ends, at ``seen_at`` (ms)."""
        self._quiet[split] = position, seen_at

    def quiet_since(self, split: str, state: AnyState | None, log: SplitRange, seen_at: int) -> int | None:
        """Returns when (ms) the log end was first seen at the split's position; ``None`` if the log ends elsewhere."""
        if log.position != log.end or not log.drained:
            if split in self._quiet:
                del self._quiet[split]
            return None
        seen = self._quiet.get(split)
        if seen is None or seen[0] != log.position:
            stored = state.quiet_since if state is not None and state.position == log.position else None
            seen = log.position, seen_at if stored is None else min(stored, seen_at)
            self._quiet[split] = seen
        return seen[1]

    def row(
        self,
        split: str,
        state: AnyState | None,
        log: SplitRange,
        end: int,
        times: EventTimes | None,
        seen_at: int,
        final: bool,
    ) -> Row:
        """Returns the planner's view of a split that the enumerator answered about.

        Args:
            split: the id of the split.
            state: the state of the split in the offset; ``None`` for a new split.
            log: what can be read of it.
            end: the position where this run stops.
            times: the event times in ``log``; ``None`` if they are unknown.
            seen_at: the query's clock (ms) after ``log`` was looked up.
            final: whether the split is finished at ``end``.
        """
        position = log.position
        quiet_since = self.quiet_since(split, state, log, seen_at)
        if times is None:
            if position < end:
                return self.unknown_row(split, position, state)
            self._answered.add(split)
            return position, end, self.read_max(split, state), None, None, quiet_since, final
        self._answered.add(split)
        self._next[split] = times.next
        return position, end, self.read_max(split, state), times.next, times.reach, quiet_since, final

    def unknown_row(self, split: str, position: int, state: AnyState | None) -> Row:
        """Returns the view of a split without an answer: it is not read, and its front stays."""
        return position, position, self.read_max(split, state), self._next.get(split), None, None, False

    def is_unknown(self, split: str, row: Row) -> bool:
        """Returns whether nothing is known of the split: no answer in this process, and no event time in the offset.

        It may have been paused before a restart, so the other splits must not pass it.
        """
        return row[2] is None and row[3] is None and split not in self._answered

    def forget(self, splits: Collection[str]) -> None:
        """Removes what is known of retired splits."""
        for split in splits:
            self._read_max.pop(split, None)
            self._next.pop(split, None)
            self._quiet.pop(split, None)
            self._answered.discard(split)
        self._warnings.forget(splits)

    def record_silent(self, silent: Collection[str], now: int) -> None:
        """Records the splits without an answer at ``now`` (ms), and logs the warnings that are due."""
        self._silent_since = {split: self._silent_since.get(split, now) for split in silent}
        for split, since in self._silent_since.items():
            if now - since > _SILENCE_MS:
                self._warnings.add(
                    split,
                    "there was no answer about split %s for more than %d s: it is not read, and holds back the splits "
                    "that are aligned with it. Check that its leader is up.",
                    _SILENCE_MS // 1000,
                )
        self._warnings.log_due(now)
