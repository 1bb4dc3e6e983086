"""The coordinator: one for each source of a running query, in the planning process (Flink ``SourceCoordinator``).

It keeps the enumerator across micro-batches and returns to Spark the offset at which the next batch ends. This offset
has everything that a restart needs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flip27_stream.api import ReadLimits, SplitEnumerator, SupportsEventTimePositions
from flip27_stream.api.contract import check_made
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.in_order import found_in, missing_from
from flip27_stream.spark.execution.task import SplitTask
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.garbage_collection import rare_collection
from flip27_stream.spark.planning.idle_backoff import IdleBackoff
from flip27_stream.spark.planning.micro_batch.batch_planner import (
    BatchPlanner,
    PlanInput,
    PlannedBatch,
    Planner,
)
from flip27_stream.spark.planning.micro_batch.packing import for_readers, tasks_of
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.spark.planning.micro_batch.split_tracker import SplitTracker
from flip27_stream.spark.planning.offset.next_offset import NextOffset
from flip27_stream.spark.planning.offset.offset_log import Document, OffsetLog
from flip27_stream.spark.planning.offset.replayed_batch import ReplayedBatch
from flip27_stream.spark.planning.query_clock import QueryClock
from flip27_stream.spark.planning.range_lookup import RangeLookup
from flip27_stream.spark.planning.run import QueryRun
from flip27_stream.spark.planning.session_answers import Parallelism
from flip27_stream.spark.planning.stall_detector import StallDetector
from flip27_stream.spark.reporting.registered_readers import Readers
from flip27_stream.spark.source_contract import check_source, described
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec
from flip27_stream.wall_clock import now_ms
from offsets import ranges
from offsets.offset import AnyOffset
from offsets.ranges import first_positions
from watermark_alignment.states import SplitStatus

if TYPE_CHECKING:
    from flip27_stream.spark.reporting.recorder import BatchRecorder

_GREATEST_PAUSE_S = 1.0


class SourceCoordinator:
    """Plans the micro-batches of one source of one query. All methods run in the planning thread.

    Args:
        spec: The source, its event time and the options of alignment.
        clock: Returns the time (ms since the epoch); by default :class:`QueryClock`.
        greatest_pause_s: The greatest time (s) between two plans that find nothing; see :class:`IdleBackoff`.
    """

    def __init__(
        self,
        spec: SourceSpec,
        clock: Callable[[], int] | None = None,
        *,
        greatest_pause_s: float = _GREATEST_PAUSE_S,
    ) -> None:
        check_source(spec.source)
        self._spec = spec
        self._clock = clock or QueryClock(watched=spec.alignment is not None)
        self._wall_clock = clock or now_ms
        self._backoff = IdleBackoff(greatest_pause_s)
        self._offset_log = OffsetLog(spec)
        self._context = CoordinatorContext(max(spec.driver.parallelism, 1), spec.driver.host)
        self._split_tracker = SplitTracker(spec.strategy.max_out_of_orderness_ms)
        self._planner: Planner = BatchPlanner(spec, self._split_tracker)
        self._recorder: BatchRecorder | None = None
        if spec.alignment is not None:
            # Both modules import delta-rs, for which queries without alignment would wait before their first plan.
            from flip27_stream.spark.planning.group.group_planner import GroupPlanner
            from flip27_stream.spark.reporting.recorder import BatchRecorder

            self._recorder = BatchRecorder(
                spec.alignment, self._context.metric_group(), spec.source.reads, spec.driver.spool_root
            )
            if not spec.alignment.in_catalog:
                self._planner = GroupPlanner(
                    spec,
                    spec.alignment,
                    self._planner,
                    self._clock,
                    self._recorder.record_commit,
                    self._recorder.newest_note,
                )
        self._readers = Readers(spec.driver, self._context, self._clock)
        self._parallelism = Parallelism(spec.driver)
        self._run = QueryRun(spec)
        self._replayed_batch = ReplayedBatch()
        self._next_offset = NextOffset(spec, self._offset_log, self._context, self._split_tracker)
        self._enumerator: AnyEnumerator | None = None
        self._lookup = RangeLookup()
        self._finished = False

    # ---- what Spark asks ------------------------------------------------------------------------------------------

    def prepare_available_now(self) -> None:
        """Makes this run stop at the ends that its first plan finds (``Trigger.AvailableNow``)."""
        self._run.is_available_now = True

    def latest_offset(self, document: Document, limit: int | None) -> Document:
        """Returns the end offset of the batch that starts at ``document``; ``document`` itself if no split moves.

        Spark has processed everything before ``document``.

        Args:
            document: The start offset.
            limit: The greatest number of rows; ``None`` under ``Trigger.Once``.

        Raises:
            Exception: Any error that has to fail the query.
        """
        if self._finished:
            self._context.run_due()
        if self._finished or not (self._run.is_available_now or self._backoff.is_due()):
            self._backoff.delay_answer()
            return document
        began = time.process_time()
        with rare_collection(len(self._context.splits)):
            start = self._offset_log.read(document)
            self._open(start)
            self._add_reports(start)
            self._notify_processed(start)
            end = self._plan_until_moved(start, self._limits(limit), is_once=limit is None)
            if end is not None:
                self._backoff.record_progress()
                return self._offset_log.write(end)
        if not self._run.is_available_now:
            self._backoff.record_empty_plan(
                time.process_time() - began, comes_soon=self._planner.group_advanced()
            )
            self._backoff.delay_answer()
        elif self._recorder is not None:
            self._recorder.flush()
        return document

    def committed(self, document: Document) -> None:
        """Records that ``document`` is in Spark's offset log and that Spark runs a batch (Spark's ``commit``).

        A restart goes on from this offset or a later one. The batch may read other sources of the query only.
        """
        self._offset_log.record_logged(document)
        self._backoff.record_batch()

    def report_latest_offset(self) -> Document | None:
        """Returns the log ends that the last plan found, in the form of options; ``None`` before the first plan."""
        if self._enumerator is None or not self._lookup.newest:
            return None
        return described(self._enumerator, self._lookup.newest)

    def tasks(self, start_document: Document, end_document: Document) -> list[SplitTask]:
        """Returns the tasks of the batch between two offsets. The same two offsets always give the same ranges."""
        start, end = self._offset_log.batch(start_document, end_document)
        if end is None or start_document == end_document:
            return []
        to_read = ranges(start, end)
        if self._recorder is not None:
            self._recorder.replay(end, to_read)
        if self._enumerator is None:
            self._planner.replay(start, end)
        self._split_tracker.begin_batch(end.batch, start.splits if start is not None else {})
        tasks = self._packed(end, to_read)
        if self._enumerator is None:
            self._replayed_batch.remember(end.batch, tasks)
        return tasks

    def close(self) -> None:
        """Frees all resources; leaves the group first. Takes limited time and never raises."""
        clock = self._clock if isinstance(self._clock, QueryClock) else None
        for part in (self._planner, self._context, self._recorder, self._readers, self._enumerator, clock):
            with contextlib.suppress(Exception):
                if part is not None:
                    part.close()

    # ---- around a plan --------------------------------------------------------------------------------------------

    def _open(self, start: AnyOffset | None) -> None:
        """Creates or restores the enumerator before the first plan of this process."""
        if self._enumerator is not None:
            return
        self._next_offset.open(start)
        fingerprint, lineage = self._next_offset.source, self._next_offset.lineage
        if self._recorder is not None:
            self._recorder.open(fingerprint, lineage, start.batch if start is not None else -1)
        self._planner.open(fingerprint, lineage, start)
        if start is None:
            enumerator = self._spec.source.create_enumerator(self._context)
        else:
            self._context.restore({split: s.split for split, s in start.splits.items()})
            enumerator = self._spec.source.restore_enumerator(self._context, start.enumerator)
        check_made("The source's create_enumerator() or restore_enumerator()", enumerator, SplitEnumerator)
        self._enumerator = enumerator
        if self._spec.alignment is not None and not isinstance(enumerator, SupportsEventTimePositions):
            self._readers.expect_reports()
        enumerator.start()
        self._replayed_batch.give_back(start, self._context, enumerator)
        for subtask in self._context.registered_readers():
            enumerator.add_reader(subtask)

    def _add_reports(self, start: AnyOffset | None) -> None:
        """Passes on the reports that tasks have sent since the last plan."""
        assert self._enumerator is not None
        for report in self._readers.take(start.batch if start is not None else None):
            self._split_tracker.add_report(report)
            if self._recorder is not None:
                self._recorder.add_report(report)
            if start is not None:
                self._readers.deliver(report, start.batch, self._enumerator)

    def _notify_processed(self, start: AnyOffset | None) -> None:
        """Tells the enumerator, once for each offset, that everything before ``start`` has been processed."""
        assert self._enumerator is not None
        if start is not None and self._offset_log.mark_processed(start):
            self._enumerator.notify_checkpoint_complete({n: s.position for n, s in start.splits.items()})

    def _limits(self, limit: int | None) -> ReadLimits:
        """Returns the read limits of a plan: no limits under ``Trigger.Once``, otherwise those of the options."""
        if limit is None:
            return ReadLimits()
        return replace(self._spec.limits, max_rows=None if limit == UNLIMITED else limit)

    def _packed(self, end: AnyOffset, to_read: list[PlannedRange]) -> list[SplitTask]:
        """Returns the tasks that read ``to_read``, with the events for their readers."""
        address = self._readers.address()
        to_read = for_readers(self._spec.source, to_read, end.enumerator)
        packed = tasks_of(to_read, self._parallelism.of_batch(end.batch) or len(to_read), self._spec.limits)
        events = self._readers.events(end.batch, len(packed))
        self._readers.plan_batch(end.batch, {r.key for task in packed for r in task})
        slots = list(self._context.registered_readers().values())
        readers = [slots[i % len(slots)] for i in range(len(packed))]
        return [
            SplitTask(
                subtask=reader.subtask_id,
                batch=end.batch,
                ranges=tuple(task),
                plausible_until=end.plausible_until,
                events=tuple(events.get(i, ())),
                report_to=address,
                number=i,
                location=reader.location,
            )
            for i, (task, reader) in enumerate(zip(packed, readers, strict=True))
        ]

    # ---- one plan -------------------------------------------------------------------------------------------------

    def _plan_until_moved(
        self, start: AnyOffset | None, limits: ReadLimits, *, is_once: bool
    ) -> AnyOffset | None:
        """Returns the next offset; ``None`` if no split moves and no state changes.

        Spark ends an AvailableNow run when ``latestOffset`` returns an unchanged offset, so this method plans again
        until the run is over. It waits for all splits before the first offset of a checkpoint, which has the
        position where every split begins.
        """
        assert self._enumerator is not None
        detector, stall = StallDetector(), None
        while True:
            self._context.run_due()
            plan_input = self._look(start, limits, is_once=is_once)
            silent = missing_from(plan_input.log, self._context.splits)
            planned = None
            if start is not None or not silent:
                planned = self._planner.plan_batch(self._enumerator, plan_input, self._readers.reporting)
                self._record_processed_batch(plan_input, planned)
                silent |= planned.unknown
            self._split_tracker.record_silent(silent, plan_input.now)
            if planned is not None:
                if self._run.has_too_few_rows(plan_input, planned):
                    return None
                states, begin = self._next_offset.states(plan_input, planned)
                is_over = self._run.is_over(plan_input, planned, states, has_silent=bool(silent))
                end = self._next_offset.make(plan_input, planned, self._enumerator, states, begin)
                self._finished = end is None and self._run.is_all_read(plan_input, self._context)
                if end is not None and self._recorder is not None and planned.plan is not None:
                    self._recorder.plan_batch(end, first_positions(start, end), planned.plan.states)
                if end is not None or is_over or not self._run.is_available_now:
                    return end
                stall = None
                if not silent:
                    held_by = planned.plan.held_by if planned.plan is not None else None
                    stall = self._run.stall(self._enumerator, self._context, plan_input.known, held_by)
            detector.wait_for(silent, stall)

    def _look(self, start: AnyOffset | None, limits: ReadLimits, *, is_once: bool) -> PlanInput:
        """Returns the input of a plan, with the ranges of all splits at one moment."""
        enumerator = self._enumerator
        assert enumerator is not None
        enumerator.admit(limits)
        assigned = self._context.splits
        now = self._clock()
        known = start.splits if start is not None else {}
        if list(known) != list(assigned):
            known = {name: state for name, state in known.items() if name in assigned}
        positions = {name: state.position for name, state in known.items()}
        log = self._lookup.ranges(enumerator, assigned, positions)
        run = self._run.cut(enumerator, self._context, log)
        return PlanInput(
            start=start,
            known=known,
            log=log,
            run=run,
            final=self._run.is_final,
            has_pending=self._run.has_pending,
            limits=limits,
            now=now,
            seen_at=self._clock(),
            wall=self._wall_clock(),
            single=is_once,
            no_more=self._context.has_all_splits,
        )

    def _record_processed_batch(self, plan_input: PlanInput, planned: PlannedBatch) -> None:
        """Writes the rows of the batch before this plan to the split-watermark table.

        Spark has processed that batch, and only this plan knows the fronts of the splits after it.
        """
        start = plan_input.start
        if self._recorder is None or planned.plan is None or start is None:
            return
        after, read_max, log = planned.plan, planned.read_max_before, plan_input.log
        if left := self._context.retired.keys() & start.splits.keys():
            retired = {name: self._split_tracker.read_max(name, start.splits[name]) for name in left}
            states = {**after.states, **dict.fromkeys(retired, SplitStatus.FINISHED)}
            after = replace(after, fronts={**after.fronts, **retired}, states=states)
            read_max = {**read_max, **retired}
        ranges_of = zip(start.splits.values(), found_in(list(start.splits), log), strict=True)
        behind = [r.end - state.position for state, r in ranges_of if r is not None]
        self._recorder.record_processed_batch(start, after, read_max, planned.floor, plan_input.wall, behind)
