"""Runs a source with alignment, without Spark, and checks the drift between any two micro-batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.api import SourceSplit, WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.spark.planning.offset.offset_log import Document
from flip27_stream.testing.clock import ManualClock
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import Row
from flip27_stream.wall_clock import now_ms
from watermark_alignment.options import AlignmentOptions

_IDLE_TIMEOUT_MS = 60_000
MAX_FUTURE_MS = 86_400_000
_EMPTY_BATCHES = 20


@dataclass
class SplitTimes:
    """The event times of one split.

    Attributes:
        times: The event times (ms) of the records that have one, in the order of the split.
        read: The number of these records that were read.
    """

    times: list[int]
    read: int = 0

    @property
    def read_max(self) -> int | None:
        return max(self.times[: self.read], default=None)

    @property
    def front(self) -> int | None:
        """The greatest event time (ms) that was read or is next to be read."""
        return max(self.times[: self.read + 1], default=None)

    @property
    def has_more(self) -> bool:
        return self.read < len(self.times)


@dataclass
class AlignedRun:
    """One aligned query over a system whose records do not change.

    Attributes:
        source: The source.
        strategy: How event time is found in its rows.
        max_drift_ms: The allowed drift (ms).
        unit_ms: The time (ms) by which the drift may exceed ``max_drift_ms``, if splits cannot be divided at any event
            time.
        limit: The greatest number of rows of a micro-batch.
        splits: The plausible event times of each split, by id; empty to check no drift.
        exact: Whether the source supports positions by event time, so that the drift is bounded after each batch.
        splits_finish: Whether a split that is read to its end no longer counts.
        plausible_until: Event times after this time (ms) are implausible; ``None`` for no bound.
        implausible: What happens to records with an implausible event time: ``fail``, ``skip`` or ``pass``.
    """

    source: Any
    strategy: WatermarkStrategy
    max_drift_ms: int
    unit_ms: int
    limit: int
    splits: Mapping[str, SplitTimes]
    exact: bool
    splits_finish: bool = False
    plausible_until: int | None = None
    implausible: str = "fail"
    rows: list[Row] = field(default_factory=list)
    batches: list[tuple[Document, Document, list[list[PlannedRange]]]] = field(default_factory=list)
    _nobody_is_idle: bool = True

    def run(self, expected: int, restart_after: int = 2) -> None:
        """Reads all rows, with a restart after some batches.

        Args:
            expected: The number of rows.
            restart_after: The number of batches before the restart.

        Raises:
            AssertionError: The drift exceeds its limit, or rows are missing.
        """
        clock = ManualClock(now_ms())
        with tempfile.TemporaryDirectory() as folder:
            offset = None
            for stop_after in (restart_after, None):
                with self._query(folder, clock, offset) as query:
                    self._run(query, clock, expected, stop_after)
                    offset = query.offset

    def check_replays(self) -> None:
        """Checks that another process plans the same ranges for every batch, from its two offsets."""
        with SourceQuery(self.source) as query:
            for start, end, ranges in self.batches:
                replayed = query.tasks(start, end)
                assert replayed == ranges, f"a replay plans other ranges: {replayed}, not {ranges}"

    def _run(self, query: SourceQuery, clock: ManualClock, expected: int, stop_after: int | None) -> None:
        vain = empty = 0
        while len(self.rows) < expected and (stop_after is None or len(self.batches) < stop_after):
            batch = query.next_batch(self.limit)
            if batch is None:
                # Splits at their ends hold the others back until they are idle.
                vain += 1
                assert vain < 100, (
                    f"{expected - len(self.rows)} rows are not read, although no split or group holds them back"
                )
                clock.advance(_IDLE_TIMEOUT_MS + 1)
                self._nobody_is_idle = False
                continue
            tasks = query.tasks(*batch)
            self.rows += query.read_all(*batch)
            for split, start, end in (piece for task in tasks for piece in task):
                if split.split_id in self.splits:
                    read = event_times(query, split, start, end, self.strategy)
                    self.splits[split.split_id].read += len(plausible(read, self.plausible_until))
            query.offset = batch[1]
            self.batches.append((*batch, tasks))
            vain, empty = (0, 0) if tasks else (vain, empty + 1)
            assert empty < _EMPTY_BATCHES, (
                f"{empty} batches in a row were empty: positions or snapshot_state() change though nothing was "
                f"written; the last went from {batch[0]} to {batch[1]}"
            )
            if self.exact:
                self._check_drift()

    def _check_drift(self) -> None:
        """Checks invariant I3, the bound on the drift of the rows that were read.

        The greatest event time read, minus the least front of the counted splits, is within the limit.
        """
        read = max((s.read_max for s in self.splits.values() if s.read_max is not None), default=None)
        counting = [s for s in self.splits.values() if s.has_more or self._at_ends_count]
        least = min((s.front for s in counting if s.front is not None), default=None)
        if read is None or least is None:
            return
        assert read - least <= self.max_drift_ms + self.unit_ms, (
            f"after batch {len(self.batches)} the greatest event time read is {read}, {read - least} ms ahead of the "
            f"least front, {least}; no more than {self.max_drift_ms + self.unit_ms} ms are allowed"
        )

    @property
    def _at_ends_count(self) -> bool:
        return self._nobody_is_idle and not self.splits_finish

    @contextmanager
    def _query(self, folder: str, clock: ManualClock, offset: Document | None) -> Iterator[SourceQuery]:
        alignment = AlignmentOptions.parse(
            {
                "scan.watermark.alignment.group": "conformance",
                "scan.watermark.alignment.max-drift": f"{self.max_drift_ms} ms",
                "scan.watermark.alignment.table": folder,
                "scan.watermark.idle-timeout": f"{_IDLE_TIMEOUT_MS} ms",
                "scan.watermark.max-out-of-orderness": f"{self.strategy.max_out_of_orderness_ms} ms",
                "scan.watermark.max-future": f"{0 if self.plausible_until is None else MAX_FUTURE_MS} ms",
                "scan.watermark.implausible-event-time": self.implausible,
            }
        )
        query = SourceQuery(self.source, offset, strategy=self.strategy, alignment=alignment, clock=clock)
        with query:
            yield query


def plausible(times: Sequence[int], plausible_until: int | None) -> list[int]:
    """Returns the plausible event times (ms): after the epoch, and not after ``plausible_until``."""
    return [t for t in times if t > 0 and (plausible_until is None or t <= plausible_until)]


def event_times(
    query: SourceQuery, split: SourceSplit, start: int, end: int, strategy: WatermarkStrategy
) -> list[int]:
    """Returns the event times (ms) of the records of a range that have one, in order."""
    assigner = strategy.timestamp_assigner
    return [
        time
        for batch in query.collect([PlannedRange(split, start, end)]).batches
        for time in assigner.extract_timestamps(batch.records, batch.timestamps).to_pylist()
        if time is not None
    ]
