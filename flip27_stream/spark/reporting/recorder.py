"""Records every aligned micro-batch in the split-watermark table, off the critical path."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from flip27_stream.errors import shortened
from flip27_stream.spark.planning.packing import Range
from flip27_stream.spark.reporting.batch_ledger import Ledger, PlannedBatch, PlannedSplit
from flip27_stream.spark.reporting.observations import Observations
from flip27_stream.spark.reporting.report_channel import TaskReport
from flip27_stream.spark.source_spec import AnyOffset
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.batch_note import KEY as NOTE
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.behind import Behind
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter

log = logging.getLogger(__name__)

_FLUSH_TIMEOUT_S, _FAILING_TIMEOUT_S = 30.0, 5.0
_SILENT_BATCHES = 3
_MOST_NAMED = 100


class BatchRecorder:
    """Holds the batch that is being run; its rows go into the table once the next one is planned.

    Args:
        alignment: the options of the source.
        reads: what the source reads, in few words.
    """

    def __init__(self, alignment: AlignmentOptions, reads: str) -> None:
        self._reads = shortened(reads)
        self._alignment = alignment
        self._running: PlannedBatch | None = None
        self._ledger: Ledger | None = None
        self._writer: TableWriter | None = None
        self._lineage = ""
        self._silent_batches = 0
        self._was_late = False
        self._implausible = Counter[str]()
        self._observations = Observations(alignment.event_time, alignment.event_time_unit or "ms")

    def open(self, fingerprint: str, lineage: str) -> None:
        """Open the table, so that a wrong path fails the query at once.

        Args:
            fingerprint: of the source that began the checkpoint, for the name of this source in the table.
            lineage: of the checkpoint.

        Raises:
            AlignmentError: the table cannot be opened or created.
        """
        table = SplitWatermarkTable(self._alignment.table, self._alignment.storage_options)
        table.open()
        source = self._alignment.name_of_source(fingerprint, lineage)
        self._ledger = Ledger(self._alignment.group, source, self._alignment.max_out_of_orderness_ms)
        self._writer = TableWriter(table, f"{source}:{lineage}")
        self._lineage = lineage

    def look_after(self, version: int) -> None:
        """This process has made that version of the table to tell the group something."""
        if self._writer is not None:
            self._writer.look_after(version)

    def planned(
        self, end: AnyOffset, ranges: Sequence[Range], states: Mapping[str, SplitStatus | None]
    ) -> None:
        """The batch that ends at ``end`` is about to run."""
        moving = {split.split_id: (start, stop) for split, start, stop in ranges}
        self._running = PlannedBatch(
            end.batch,
            {
                name: PlannedSplit(*moving.get(name, (state.position, state.position)), states[name])
                for name, state in end.splits.items()
                if name in states
            },
        )

    def replayed(self, end: AnyOffset, ranges: Sequence[Range]) -> None:
        """The batch that ends at ``end`` runs; after a restart it was planned by a process that is gone.

        One that reads nothing, as where a new split tells no event times yet, leaves the one before to be settled.
        """
        if self._running is None or (ranges and self._running.batch != end.batch):
            self.planned(end, ranges, dict.fromkeys(end.splits))

    def take_in(self, report: TaskReport) -> None:
        if self._running is not None and report.batch == self._running.batch:
            for split in report.splits:
                self._running.take_in(split)

    def settle(
        self,
        start: AnyOffset,
        after: Plan,
        read_max: Mapping[str, int | None],
        floor: int | None,
        now: int,
        behind: Collection[int] = (),
    ) -> None:
        """Write the rows of the batch that led to ``start``, before which all is processed; see :meth:`Ledger.rows`.

        Args:
            start: the offset that the next batch starts at.
            after: the plan of the next batch.
            read_max: greatest event time read (ms), by split.
            floor: least watermark of the other members of the group.
            now: the clock (ms).
            behind: how many positions each split is behind the end of its log.
        """
        if self._running is None or self._running.batch > start.batch:
            return
        assert self._ledger is not None
        assert self._writer is not None
        rows = self._ledger.rows(self._running, after, read_max, floor, now)
        self._implausible += self._running.implausible()
        metadata = {
            "watermark": "" if after.floor is None else str(after.floor),
            NOTE: self._note(self._ledger, self._running, behind).to_text(),
        }
        self._warn_of_silence(self._running)
        self._observations.warn(self._ledger.source, now)
        if implausible := self._running.implausible():
            metadata["implausible"] = str(implausible.total())
        self._writer.submit(self._running.batch, rows, metadata)
        self._running = None

    def _note(self, ledger: Ledger, batch: PlannedBatch, behind: Collection[int]) -> BatchNote:
        observed = self._observations.after(batch.reports.values())
        return BatchNote(
            group=ledger.group,
            source=ledger.source,
            lineage=self._lineage,
            batch=batch.batch,
            max_drift_ms=self._alignment.max_drift_ms,
            unreported=batch.unreported(),
            implausible=_most(batch.implausible()),
            implausible_in_run=_most(self._implausible),
            max_out_of_orderness_ms=self._alignment.max_out_of_orderness_ms,
            reads=self._reads,
            observed=observed,
            behind=Behind.of(behind, observed.bytes_per_row),
        )

    def _warn_of_silence(self, batch: PlannedBatch) -> None:
        """Once, until a report comes."""
        if batch.reports:
            self._silent_batches = 0
        elif batch.is_unobserved():
            self._silent_batches += 1
        if batch.is_unobserved() and self._silent_batches == _SILENT_BATCHES:
            log.warning(
                "no task has reported in %d batches: watermarks are planned, not observed. Alignment goes by what "
                "planning itself sees, and disorder within splits is not noticed. Let executors reach the driver at "
                "spark.driver.host.",
                _SILENT_BATCHES,
            )

    def flush(self) -> None:
        """Wait for the table, once in an outage of it; warns if it does not come."""
        if self._writer is None:
            return
        patience_s = 0.0 if self._was_late else _FLUSH_TIMEOUT_S
        is_late = not self._writer.flush(patience_s, min(patience_s, _FAILING_TIMEOUT_S))
        if is_late and not self._was_late:
            log.warning(
                "the rows of a run that ends are not in the table %s yet; the run does not wait for them any longer",
                self._alignment.table,
            )
        self._was_late = is_late

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _most(counts: Counter[str]) -> dict[str, int]:
    """Those with the greatest counts: what a commit carries is read by every member of the group."""
    return dict(counts.most_common(_MOST_NAMED))
