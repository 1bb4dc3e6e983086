"""What the coordinator knows of splits beyond the offset; lost with the process, and never needed for correctness."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flip27_stream.api import EventTimes, SplitRange
from flip27_stream.spark.planning.split_warnings import SplitWarnings
from flip27_stream.spark.reporting.disorder import Disorder
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.source_spec import AnyState
from watermark_alignment.planner import SplitView

_SILENCE_MS = 60_000


class SplitTracker:
    """Memory of reports, of next event times, and of when a log end was first seen."""

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms
        self._read_max: dict[str, int] = {}
        self._next: dict[str, int | None] = {}
        self._quiet: dict[str, tuple[int, int]] = {}
        self._heard: set[str] = set()
        self._silent_since: dict[str, int] = {}
        self._disorder = Disorder()
        self._warnings = SplitWarnings()

    def batch_begins(self, batch: int, start: Mapping[str, AnyState]) -> None:
        """Batch ``batch``, which goes on from ``start``, is about to run."""
        self._disorder.begins(batch, {name: self.read_max(name, state) for name, state in start.items()})

    def take_in(self, report: TaskReport) -> None:
        """A task has read its ranges to their ends."""
        for split in report.splits:
            if split.max_event_time is not None:
                self._read_max[split.split] = max(split.max_event_time, self._read_max.get(split.split, 0))
            fell_back = self._disorder.seen(report.batch, split)
            if fell_back > self._bound:
                self._warnings.add(
                    split.split,
                    "event times of split %s fell back by %d ms, more than scan.watermark.max-out-of-orderness "
                    "(%d ms) allows for: rows can be dropped as late; raise it, and the delay of withWatermark with it",
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
        """Greatest event time read, from the offset and from reports."""
        known = [t for t in (state.read_max if state else None, self._read_max.get(split)) if t is not None]
        return max(known, default=None)

    def seen_quiet(self, split: str, position: int, seen_at: int) -> None:
        """The log of the split ends at ``position``, up to which it will be read next."""
        self._quiet[split] = position, seen_at

    def quiet_since(self, split: str, state: AnyState | None, log: SplitRange, seen_at: int) -> int | None:
        """When the log end was first seen at the position where it is; ``None`` if it is elsewhere."""
        if log.position != log.end or not log.drained:
            self._quiet.pop(split, None)
            return None
        seen = self._quiet.get(split)
        if seen is None or seen[0] != log.position:
            stored = state.quiet_since if state is not None and state.position == log.position else None
            seen = log.position, seen_at if stored is None else min(stored, seen_at)
            self._quiet[split] = seen
        return seen[1]

    def view(
        self,
        split: str,
        state: AnyState | None,
        log: SplitRange,
        end: int,
        times: EventTimes | None,
        seen_at: int,
        final: bool,
    ) -> SplitView:
        """The planner's view of a split that the enumerator answered about; ``end`` is where this run stops."""
        quiet_since = self.quiet_since(split, state, log, seen_at)
        if log.position < end and times is None:
            return self.unknown(split, log.position, state)
        self._heard.add(split)
        if times is not None:
            self._next[split] = times.next
        return SplitView(
            id=split,
            position=log.position,
            end=end,
            read_max=self.read_max(split, state),
            next=times.next if times is not None else None,
            reach=times.reach if times is not None else None,
            quiet_since=quiet_since,
            final=final,
        )

    def unknown(self, split: str, position: int, state: AnyState | None) -> SplitView:
        """The view of a split of which there is no answer now: it stays where it is, and so does its front."""
        return SplitView(split, position, position, self.read_max(split, state), self._next.get(split))

    def never_heard_of(self, view: SplitView) -> bool:
        """Whether the split may be anywhere: no answer in this process, and no event time in the offset.

        Before a restart it may have been paused all the time, so the others must not pass it.
        """
        return view.front is None and view.id not in self._heard

    def forget(self, splits: Collection[str]) -> None:
        """They are retired."""
        for split in splits:
            self._read_max.pop(split, None)
            self._next.pop(split, None)
            self._quiet.pop(split, None)
            self._heard.discard(split)
        self._warnings.forget(splits)

    def note_silent(self, silent: Collection[str], now: int) -> None:
        """Warn of splits whose leader has been silent for long by the clock ``now`` (ms); gives other warnings, too."""
        self._silent_since = {split: self._silent_since.get(split, now) for split in silent}
        for split, since in self._silent_since.items():
            if now - since > _SILENCE_MS:
                self._warnings.add(
                    split,
                    "there was no answer about split %s for more than %d s: it is not read, and holds back the splits "
                    "that are aligned with it",
                    _SILENCE_MS // 1000,
                )
        self._warnings.give(now)
