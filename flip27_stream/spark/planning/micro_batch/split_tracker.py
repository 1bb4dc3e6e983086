"""The state of splits that the coordinator keeps in memory and not in the offset.

It is lost when the process ends, and correctness never depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flip27_stream.api import EventTimes, SplitRange
from flip27_stream.in_order import found_in
from flip27_stream.spark.planning.micro_batch.split_warnings import SplitWarnings
from flip27_stream.spark.reporting.disorder import Disorder
from flip27_stream.spark.reporting.reports import TaskReport
from offsets.offset import SplitState
from watermark_alignment.planner import greater_known

_SILENCE_MS = 60_000

TrackedRow = tuple[int, int, int | None, int | None, int | None, int | None, bool]
"""The planner's input of a split: the fields of :class:`~watermark_alignment.planner.SplitView` after its id."""


class SplitTracker:
    """Keeps for each split the reported event times, the next event time, and the time at which its log end was found.

    Args:
        max_out_of_orderness_ms: How far (ms) event times may fall back within a split before a warning is logged.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms
        self._read_max: dict[str, int] = {}
        self._next: dict[str, int | None] = {}
        self._quiet: dict[str, tuple[int, int]] = {}
        # The splits that were answered about without an event time. Others are known by their event times.
        self._answered: set[str] = set()
        self._silent_since: dict[str, int] = {}
        self._disorder = Disorder()
        self._warnings = SplitWarnings()

    def begin_batch(self, batch: int, start: Mapping[str, SplitState]) -> None:
        """Records that batch ``batch`` is about to run, from the split states ``start``."""
        reported = found_in(list(start), self._read_max)
        read_max = {
            name: greater_known(state.read_max, newest)
            for (name, state), newest in zip(start.items(), reported, strict=True)
        }
        self._disorder.begin_batch(batch, read_max)

    def add_report(self, report: TaskReport) -> None:
        """Adds the report of a task that has read its ranges to their ends."""
        read_max = self._read_max
        for split in report.splits:
            if split.max_event_time is not None:
                read_max[split.split] = max(split.max_event_time, read_max.get(split.split, 0))
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

    def read_max(self, split: str, state: SplitState | None) -> int | None:
        """Returns the greatest event time (ms) read, from the offset and from reports; ``None`` if unknown."""
        return greater_known(None if state is None else state.read_max, self._read_max.get(split))

    def record_log_ends(self, positions: Mapping[str, int], seen_at: int) -> None:
        """Records that the logs of splits ended at these positions, where the next batch ends, at ``seen_at`` (ms)."""
        self._quiet.update({split: (position, seen_at) for split, position in positions.items()})

    def rows(
        self,
        ids: list[str],
        known: Mapping[str, SplitState],
        log: Mapping[str, SplitRange],
        run: Mapping[str, SplitRange],
        times: Mapping[str, EventTimes],
        *,
        seen_at: int,
        final: bool,
    ) -> list[TrackedRow]:
        """Returns the planner's input of each split, in the order of ``ids``.

        A split is not read, and its front stays, if the enumerator did not answer about it: it is not in ``run``, or
        the event times of its range are not known.

        Args:
            ids: The ids of the splits; each is in ``known`` or in ``run``.
            known: The states of the splits in the offset; new splits have none.
            log: The range that can be read of each split about which the enumerator answered.
            run: The part of ``log`` that this run reads, of each of these splits.
            times: The known event times in ``run``.
            seen_at: The query's clock (ms) after ``log`` was looked up.
            final: Whether the splits are finished at the ends in ``run``.
        """
        rows: list[TrackedRow] = []
        first, quiet = self._next, self._quiet
        for name, state, log_range, r, found, reported in zip(
            ids,
            found_in(ids, known),
            found_in(ids, log),
            found_in(ids, run),
            found_in(ids, times),
            found_in(ids, self._read_max),
            strict=True,
        ):
            read_max = None if state is None else state.read_max
            if reported is not None:
                read_max = greater_known(read_max, reported)
            quiet_since = None
            if r is not None and log_range.position == log_range.end and log_range.drained:
                quiet_since = self._quiet_since(name, state, log_range.end, seen_at)
            elif quiet and r is not None:
                quiet.pop(name, None)
            if r is None or (found is None and r.position < r.end):
                position = known[name].position if r is None else r.position
                rows.append((position, position, read_max, first.get(name), None, None, False))
                continue
            is_final = r.final or (final and not r.limited)
            following = reach = None
            if found is not None:
                first[name] = following = found.next
                reach = found.reach
            if read_max is None and following is None:
                self._answered.add(name)
            rows.append((r.position, r.end, read_max, following, reach, quiet_since, is_final))
        return rows

    def _quiet_since(self, split: str, state: SplitState | None, position: int, seen_at: int) -> int:
        """Returns the time (ms) at which the log was first found to end at ``position``, the next position to read."""
        seen = self._quiet.get(split)
        if seen is None or seen[0] != position:
            stored = state.quiet_since if state is not None and state.position == position else None
            seen = position, seen_at if stored is None else min(stored, seen_at)
            self._quiet[split] = seen
        return seen[1]

    def has_unknown(self, ids: Sequence[str], rows: Sequence[TrackedRow]) -> bool:
        """Returns whether a split has neither a known event time nor an answer of the enumerator in this process.

        Such a split may have been paused before a restart, so the other splits must not pass it.

        Args:
            ids: The ids of the splits.
            rows: The planner's input of each of these splits, a result of :meth:`rows`.
        """
        timeless = [name for name, row in zip(ids, rows, strict=True) if row[2] is None and row[3] is None]
        return not self._answered.issuperset(timeless)

    def forget(self, splits: Collection[str]) -> None:
        """Removes the state of retired splits."""
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
                    "no answer about split %s came for more than %d s: it is not read, and holds back the splits "
                    "that are aligned with it. Check that its leader is up.",
                    _SILENCE_MS // 1000,
                )
        self._warnings.log_due(now)
