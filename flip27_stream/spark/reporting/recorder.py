"""Records every aligned micro-batch in the split-watermark table, in the background."""

from __future__ import annotations

import collections
import logging
from collections.abc import Collection, Mapping, Sequence

from flip27_stream.api import MetricGroup
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import shortened
from flip27_stream.in_order import found_in, missing_from, values_of
from flip27_stream.spark.reporting.observations import Observations
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.reporting.table_rows import BatchRecord, PlannedSplits, TableRows
from offsets.offset import AnyOffset
from watermark_alignment.options import AlignmentOptions, called
from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.batch_note import KEY as NOTE
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.catalog_spool import CatalogSpool
from watermark_alignment.table.offsets_behind import OffsetsBehind
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import RowStore, TableWriter, application_of

log = logging.getLogger(__name__)

_FLUSH_TIMEOUT_S, _FAILING_TIMEOUT_S = 30.0, 5.0
_SILENT_BATCHES = 3
_MOST_NAMED = 100


class BatchRecorder:
    """Keeps the batch that Spark runs now, and writes its rows once the next batch is planned.

    Args:
        alignment: The alignment options of the source.
        metrics: The counters of the enumerator.
        reads: A short name of the topics or paths that the source reads.
        spool_root: The folder on the driver where rows wait until the session writes them to the table of a catalog.
    """

    def __init__(
        self, alignment: AlignmentOptions, metrics: MetricGroup, reads: str, spool_root: str = ""
    ) -> None:
        self._spool = CatalogSpool(spool_root, alignment.table) if alignment.in_catalog else None
        self._reads = shortened(reads)
        self._alignment = alignment
        self._enumerator_metrics = metrics
        self._reader_metrics = collections.Counter[str]()
        self._running: BatchRecord | None = None
        self._table_rows: TableRows | None = None
        self._writer: TableWriter | None = None
        self._lineage = ""
        self._silent_batches = 0
        self._was_late = False
        self._newest_note = ""
        self._implausible = collections.Counter[str]()
        self._observations = Observations(alignment.event_time, alignment.event_time_unit or "ms")

    def open(self, fingerprint: str, lineage: str, batch: int) -> None:
        """Opens the table, so that a wrong path fails the query at its start.

        Args:
            fingerprint: The fingerprint of the source that began the checkpoint, a part of the default source id.
            lineage: The lineage id of the checkpoint.
            batch: The number of the newest batch in the checkpoint; -1 without one.

        Raises:
            AlignmentError: The table cannot be opened or created, or no session writes it.
            UnreachableError: The file system of the table does not answer.
        """
        source = self._alignment.name_of_source(fingerprint, lineage)
        table = self._open_table(source)
        self._table_rows = TableRows(self._alignment.group, source, self._alignment.max_out_of_orderness_ms)
        app_id = application_of(table, f"{source}:{lineage}", batch)
        self._writer = TableWriter(table, app_id, source=called(source, self._reads))
        self._lineage = lineage

    def _open_table(self, source: str) -> RowStore:
        if self._spool is not None:
            self._spool.open(self._alignment.group, source, self._reads)
            return self._spool
        table = SplitWatermarkTable(self._alignment.table, self._alignment.storage_options)
        table.open_in_time()
        return table

    def newest_note(self) -> str:
        """Returns the text of the note on the newest batch that was recorded; "" before the first one."""
        return self._newest_note

    def record_commit(self, version: int) -> None:
        """Records that this process has made ``version`` of the table, for the table's maintenance."""
        if self._writer is not None:
            self._writer.look_after(version)

    def plan_batch(
        self,
        end: AnyOffset,
        first_positions: Mapping[str, int],
        states: Mapping[str, SplitStatus | None],
    ) -> None:
        """Records that the batch that ends at ``end`` is about to run.

        Args:
            end: The offset that ends the batch.
            first_positions: The position at which the batch begins to read each split, by split id. A split that is
                missing is not read.
            states: The states of its splits, by split id.
        """
        absent = missing_from(states, end.splits)
        ids = sorted(end.splits.keys() - absent if absent else end.splits)
        after = values_of(ids, end.splits)
        ends = [state.position for state in after]
        starts = [
            last if first is None else first
            for first, last in zip(found_in(ids, first_positions), ends, strict=True)
        ]
        counts_rows = [state.split.positions_count_rows for state in after]
        splits = PlannedSplits(ids, starts, ends, list(values_of(ids, states)), counts_rows)
        self._running = BatchRecord(end.batch, splits)

    def replay(self, end: AnyOffset, ranges: Sequence[PlannedRange]) -> None:
        """Records that the batch that ends at ``end`` runs; after a restart, a former process planned it.

        An empty batch does not replace the batch before it, whose rows are still to be written.
        """
        if self._running is None or (ranges and self._running.batch != end.batch):
            first_positions = {r.split.split_id: r.start for r in ranges}
            self.plan_batch(end, first_positions, dict.fromkeys(end.splits))

    def add_report(self, report: TaskReport) -> None:
        """Adds the report of a task, if it belongs to the batch that runs now."""
        if self._running is not None and report.batch == self._running.batch:
            self._running.add_report(report)

    def record_processed_batch(
        self,
        start: AnyOffset,
        after: Plan,
        read_max: Mapping[str, int | None],
        floor: int | None,
        now: int,
        behind: Collection[int] = (),
    ) -> None:
        """Writes the rows of the batch that ends at ``start``, which Spark has processed.

        Args:
            start: The start offset of the plan that is being made.
            after: The aligned plan that is being made.
            read_max: Greatest event time (ms) read before this plan, by split id.
            floor: Least watermark (ms) of the other members of the group; ``None`` without other members.
            now: The machine's clock (ms).
            behind: The number of positions that each split is behind the end of its log.
        """
        if self._running is None or self._running.batch > start.batch:
            return
        assert self._table_rows is not None
        assert self._writer is not None
        rows = self._table_rows.of_batch(self._running, after, read_max, floor, now)
        implausible = self._running.implausible()
        self._implausible += implausible
        for counted in self._running.metrics.values():
            self._reader_metrics.update(counted)
        self._newest_note = self._note(self._table_rows, self._running, implausible, behind).to_text()
        metadata = {
            "watermark": "" if after.own_watermark is None else str(after.own_watermark),
            NOTE: self._newest_note,
        }
        self._warn_of_silence(self._running)
        self._observations.warn(called(self._table_rows.source, self._reads), now)
        if implausible:
            metadata["implausible"] = str(implausible.total())
        self._writer.submit(self._running.batch, rows, metadata)
        self._running = None

    def _note(
        self,
        table_rows: TableRows,
        batch: BatchRecord,
        implausible: collections.Counter[str],
        behind: Collection[int],
    ) -> BatchNote:
        observed = self._observations.after(batch.reports.values())
        return BatchNote(
            group=table_rows.group,
            source=table_rows.source,
            lineage=self._lineage,
            batch=batch.batch,
            max_drift_ms=self._alignment.max_drift_ms,
            unreported=batch.unreported(),
            implausible=_most(implausible),
            implausible_in_run=_most(self._implausible),
            max_out_of_orderness_ms=self._alignment.max_out_of_orderness_ms,
            reads=self._reads,
            observed=observed,
            behind=OffsetsBehind.of(behind, observed.bytes_per_row),
            metrics=_most(self._reader_metrics + collections.Counter(self._enumerator_metrics.snapshot())),
        )

    def _warn_of_silence(self, batch: BatchRecord) -> None:
        """Warns after three batches in a row without a report, once until a report comes."""
        if batch.reports:
            self._silent_batches = 0
        elif batch.is_unobserved():
            self._silent_batches += 1
        if batch.is_unobserved() and self._silent_batches == _SILENT_BATCHES:
            log.warning(
                "No task has reported in %d batches: watermarks are planned, not observed. Alignment uses only the "
                "event times that planning finds, and out-of-order records are not noticed. Let executors reach the "
                "driver at spark.driver.host.",
                _SILENT_BATCHES,
            )

    def flush(self) -> None:
        """Waits until the rows are in the table, once in an outage; warns if they are not written in time."""
        if self._writer is None:
            return
        time_limit_s = 0.0 if self._was_late else _FLUSH_TIMEOUT_S
        is_late = not self._writer.flush(time_limit_s, min(time_limit_s, _FAILING_TIMEOUT_S))
        if is_late and not self._was_late:
            log.warning(
                "The run ends before its last rows are in the table %s, which could not be written in time; they are "
                "written as soon as the table can be written",
                self._alignment.table,
            )
        self._was_late = is_late

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._spool is not None:
            self._spool.close()


def _most(counts: collections.Counter[str]) -> dict[str, int]:
    """Returns the 100 greatest counts. Every member of the group reads the note, so it must stay short."""
    return dict(counts.most_common(_MOST_NAMED))
