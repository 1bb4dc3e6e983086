"""The coordinator: one per source of a running query, in the planning process (Flink ``SourceCoordinator``).

It keeps the enumerator alive across micro-batches and answers Spark's one question: up to where does the next
batch read? Everything it must not forget is in the offset it answers with.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from flip27_stream.api import ReadLimits, SplitEnumerator, SplitRange
from flip27_stream.spark.execution.task import SplitTask
from flip27_stream.spark.planning.available_now import FrozenEnds
from flip27_stream.spark.planning.batch_planner import BatchPlanner, PlanInput, PlannedBatch
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.garbage_collection import rare_collection
from flip27_stream.spark.planning.group.group_planner import GroupPlanner
from flip27_stream.spark.planning.idle_backoff import IdleBackoff
from flip27_stream.spark.planning.offset_log import Document, OffsetLog
from flip27_stream.spark.planning.packing import for_readers, tasks_of
from flip27_stream.spark.planning.query_clock import QueryClock, wall_clock
from flip27_stream.spark.planning.rate_limit import UNLIMITED, LeastRows
from flip27_stream.spark.planning.split_tracker import SplitTracker
from flip27_stream.spark.planning.stall_detector import Stall, StallDetector, find_stall
from flip27_stream.spark.reporting.recorder import BatchRecorder
from flip27_stream.spark.reporting.registered_readers import Readers
from flip27_stream.spark.source_contract import (
    check_made,
    check_ranges,
    check_source,
    described,
    pending_splits,
)
from flip27_stream.spark.source_spec import AnyEnumerator, AnyOffset, AnyState, SourceSpec
from offsets import Offset, SplitState, ranges
from watermark_alignment.states import SplitStatus

_GREATEST_REST_S = 1.0


class SourceCoordinator:
    """Plans the micro-batches of one source of one query. All methods run in the planning thread.

    Args:
        job: the source and how it is read.
        clock: tells the time (ms since the epoch); by default :class:`QueryClock`.
        greatest_pause_s: between two plans that find nothing there is no more time than this; see :class:`IdleBackoff`.
    """

    def __init__(
        self,
        spec: SourceSpec,
        clock: Callable[[], int] | None = None,
        *,
        greatest_pause_s: float = _GREATEST_REST_S,
    ) -> None:
        self._pace = IdleBackoff(greatest_pause_s)
        self._spec = spec
        self._clock = clock or QueryClock(watched=spec.alignment is not None)
        self._wall_clock = clock or wall_clock
        source = spec.source
        check_source(source)
        self._documents = OffsetLog(spec)
        self._context = CoordinatorContext(max(spec.driver.parallelism, 1), spec.driver.host)
        self._enumerator: AnyEnumerator | None = None
        self._split_tracker = SplitTracker(spec.strategy.max_out_of_orderness_ms)
        self._planner = BatchPlanner(spec, self._split_tracker)
        self._recorder: BatchRecorder | None = None
        if spec.alignment is not None:
            self._recorder = BatchRecorder(spec.alignment)
            self._planner = GroupPlanner(
                spec, spec.alignment, self._split_tracker, self._clock, self._recorder.look_after
            )
        self._readers = Readers(spec.driver, self._context, self._clock)
        self._replayed: tuple[int, list[SplitTask]] = -1, []
        self._began_as = self._lineage = ""
        self._notified = -1
        self._available_now = False
        self._frozen: FrozenEnds | None = None
        self._pending = 0
        self._finished = False
        self._single = False
        self._least_rows = LeastRows(spec.limits)
        self._log: Mapping[str, SplitRange] = {}

    # ---- what Spark asks ------------------------------------------------------------------------------------------

    def prepare_available_now(self) -> None:
        """Stop at what is there when the first batch is planned (``Trigger.AvailableNow``)."""
        self._available_now = True

    def latest_offset(self, document: Document, limit: int | None) -> Document:
        """The end of the batch that starts at ``document``; ``document`` itself if there is nothing to read.

        Everything before ``document`` is processed. Raises whatever must fail the query.
        """
        if self._finished:
            self._context.run_due()
        if self._finished or not (self._available_now or self._pace.is_due()):
            self._pace.hold_back()
            return document
        began = time.process_time()
        with rare_collection():
            start = self._documents.read(document)
            enumerator = self._open(start)
            self._take_reports(start)
            if start is not None and start.batch != self._notified:
                enumerator.notify_checkpoint_complete({name: s.position for name, s in start.splits.items()})
                self._notified = start.batch
            self._single = limit is None
            end = self._plan_until_moved(start, self._limits(limit))
            if end is not None:
                self._pace.moved()
                return self._documents.write(end)
        if not self._available_now:
            self._pace.found_nothing(time.process_time() - began, comes_soon=self._planner.others_moved())
            self._pace.hold_back()
        elif self._recorder is not None:
            self._recorder.flush()
        return document

    def committed(self, document: Document) -> None:
        """Take note of what ``commit`` tells: this offset is in Spark's log and processed, and a batch runs.

        Spark goes on from it or from a later one. The batch may be one of other sources alone.
        """
        self._documents.logged(document)
        self._pace.batch_runs()

    def report_latest_offset(self) -> Document | None:
        """The log ends seen by the last plan, as users write them; ``None`` before the first."""
        if self._enumerator is None or not self._log:
            return None
        return described(self._enumerator, self._log)

    def tasks(self, start_document: Document, end_document: Document) -> list[SplitTask]:
        """The tasks of the batch between two offsets: for the same two always the same ranges."""
        start, end = self._documents.batch(start_document, end_document)
        if end is None or start_document == end_document:
            return []
        to_read = ranges(start, end)
        if self._recorder is not None:
            self._recorder.replayed(end, to_read)
        if self._enumerator is None:
            self._planner.replays(start, end)
        self._split_tracker.batch_begins(end.batch, start.splits if start is not None else {})
        address = self._readers.address()
        to_read = for_readers(self._spec.source, to_read, end.enumerator)
        packed = tasks_of(to_read, self._spec.driver.parallelism or len(to_read), self._spec.limits)
        events = self._readers.events(end.batch, len(packed))
        self._readers.planned(
            end.batch, {(s.split_id, first, stop) for task in packed for s, first, stop in task}
        )
        slots = self._context.current_parallelism()
        tasks = [
            SplitTask(
                subtask=i % slots,
                batch=end.batch,
                ranges=tuple(task),
                plausible_until=end.plausible_until,
                events=tuple(events.get(i, ())),
                report_to=address,
                number=i,
            )
            for i, task in enumerate(packed)
        ]
        if self._enumerator is None:
            self._replayed = end.batch, tasks
        return tasks

    def close(self) -> None:
        """Free everything; best effort, bounded, never raises. First of all the group is told."""
        clock = self._clock if isinstance(self._clock, QueryClock) else None
        for part in (self._planner, self._context, self._recorder, self._readers, self._enumerator, clock):
            with contextlib.suppress(Exception):
                if part is not None:
                    part.close()

    # ---- one plan -------------------------------------------------------------------------------------------------

    def _open(self, start: AnyOffset | None) -> AnyEnumerator:
        if self._enumerator is None:
            fresh = self._spec.fingerprint, secrets.token_hex(8)
            self._began_as, self._lineage = fresh if start is None else (start.source, start.lineage)
            if self._recorder is not None:
                self._recorder.open(self._began_as, self._lineage)
            self._planner.open(self._began_as, self._lineage, start)
            if start is None:
                enumerator = self._spec.source.create_enumerator(self._context)
            else:
                self._context.restore({split: s.split for split, s in start.splits.items()})
                enumerator = self._spec.source.restore_enumerator(self._context, start.enumerator)
            check_made(
                "The source's create_enumerator() or restore_enumerator()", enumerator, SplitEnumerator
            )
            self._enumerator = enumerator
            self._enumerator.start()
            self._give_back_replayed(start)
            for subtask in self._context.registered_readers():
                self._enumerator.add_reader(subtask)
        return self._enumerator

    def _give_back_replayed(self, start: AnyOffset | None) -> None:
        """The readers that the batch before ``start`` was first planned for are gone with another process."""
        batch, tasks = self._replayed
        if start is not None and self._enumerator is not None and batch == start.batch:
            for task in tasks:
                splits = [self._context.splits[split.split_id] for split, _, _ in task.ranges]
                self._context.give_back(splits)
                self._enumerator.add_splits_back(splits, task.subtask)

    def _limits(self, limit: int | None) -> ReadLimits:
        """The limits of this plan: those of the options, none under Trigger.Once, whatever Spark's number says."""
        if limit is None:
            return ReadLimits()
        return replace(self._spec.limits, max_rows=None if limit == UNLIMITED else limit)

    def _plan_until_moved(self, start: AnyOffset | None, limits: ReadLimits) -> AnyOffset | None:
        """The next offset, or ``None`` when there is nothing to do.

        Spark ends an AvailableNow run at the first answer that changes nothing, so while frozen records are left the
        answer is waited for. The first offset tells where every split begins, so it waits for all of them.
        """
        patience, halt = StallDetector(), None
        while True:
            self._context.run_due()
            snapshot = self._look(start, limits)
            silent = self._context.splits.keys() - snapshot.log.keys()
            draft = self._draft(snapshot) if start is not None or not silent else None
            silent |= draft.unknown if draft is not None else set()
            self._split_tracker.note_silent(silent, snapshot.now)
            if draft is not None:
                if self._too_little(snapshot, draft):
                    return None
                end, over = self._next_offset(snapshot, draft, silent)
                self._finished = end is None and self._all_is_read(snapshot)
                if end is not None or over or not self._available_now:
                    return end
                halt = self._standstill(snapshot, draft) if not silent else None
            patience.wait_for(silent, halt)

    def _too_little(self, snapshot: PlanInput, draft: PlannedBatch) -> bool:
        """Whether to wait for more rows; never under Once, which has no limit, and AvailableNow, which has an end."""
        if self._available_now or draft.runs_empty or snapshot.limits.min_rows is None:
            return False
        return not self._least_rows.are_there(draft.waiting(snapshot.run), snapshot.now)

    def _draft(self, snapshot: PlanInput) -> PlannedBatch:
        assert self._enumerator is not None
        draft = self._planner.draft(self._enumerator, snapshot, self._readers.reporting)
        start = snapshot.start
        if self._recorder is not None and draft.plan is not None and start is not None:
            done = {
                name: self._split_tracker.read_max(name, start.splits[name])
                for name in self._context.retired.keys() & start.splits.keys()
            }
            after = replace(
                draft.plan,
                fronts={**draft.plan.fronts, **done},
                states={**draft.plan.states, **dict.fromkeys(done, SplitStatus.FINISHED)},
            )
            read_max = {**draft.read_max_before, **done}
            self._recorder.settle(start, after, read_max, draft.floor, snapshot.wall)
        return draft

    def _next_offset(
        self, snapshot: PlanInput, draft: PlannedBatch, silent: Collection[str]
    ) -> tuple[AnyOffset | None, bool]:
        """The next offset, ``None`` if nothing changes; and whether the run has read all that it is to read."""
        assert self._enumerator is not None
        start = snapshot.start
        splits, begin = self._next_states(snapshot, draft)
        over = self._run_is_over(splits) if snapshot.final else not silent and not self._expects_more(draft)
        checkpoint = self._enumerator.snapshot_state()
        changed = splits != snapshot.known or begin or draft.runs_empty
        if start is not None and not changed and self._documents.has_stored(checkpoint):
            return None, over
        splits = {name: _refined(state, draft.read_max.get(name)) for name, state in splits.items()}
        self._split_tracker.forget(self._context.retired)
        self._context.retired.clear()
        end: AnyOffset = Offset(
            source=self._began_as,
            lineage=self._lineage,
            batch=start.batch + 1 if start is not None else 0,
            enumerator=checkpoint,
            splits=splits,
            begin=begin,
            begun=self._documents.begun(start, splits.keys() - begin.keys()),
            plausible_until=draft.plausible_until,
        )
        if self._recorder is not None and draft.plan is not None:
            self._recorder.planned(end, ranges(start, end), draft.plan.states)
        return end, over

    def _look(self, start: AnyOffset | None, limits: ReadLimits) -> PlanInput:
        """One consistent look at all splits."""
        enumerator, assigned = self._enumerator, self._context.splits
        assert enumerator is not None
        enumerator.admit(limits)
        now = self._clock()
        known = {n: s for n, s in start.splits.items() if n in assigned} if start is not None else {}
        log = enumerator.split_ranges(
            {split: known[name].position if name in known else None for name, split in assigned.items()}
        )
        check_ranges(log, assigned, enumerator)
        self._log = log
        if self._frozen is not None:
            self._frozen.follow(assigned, more=self._pending > 0)
        elif self._available_now:
            self._frozen = FrozenEnds(assigned)
            enumerator.freeze()
        self._pending = pending_splits(enumerator)
        return PlanInput(
            start=start,
            known=known,
            log=log,
            run=log if self._frozen is None else self._frozen.cut(log),
            final=self._planner.is_final(self._available_now),
            has_pending=self._pending > 0,
            limits=limits,
            now=now,
            seen_at=self._clock(),
            wall=self._wall_clock(),
            single=self._single,
            no_more=self._context.has_all_splits,
        )

    def _run_is_over(self, splits: Mapping[str, AnyState]) -> bool:
        if self._frozen is None:
            return True
        return not self._pending and self._frozen.reached({n: s.position for n, s in splits.items()})

    def _expects_more(self, draft: PlannedBatch) -> bool:
        """Whether splits are to come that nobody holds back."""
        return self._pending > 0 and (draft.plan is None or draft.plan.held_by is None)

    def _standstill(self, snapshot: PlanInput, draft: PlannedBatch) -> Stall:
        """Why an AvailableNow run goes on though nothing moves."""
        assert self._frozen is not None
        assert self._enumerator is not None
        return find_stall(
            self._spec.fingerprint,
            self._enumerator,
            pending=self._pending,
            left=self._frozen.left({name: s.position for name, s in snapshot.known.items()}),
            turns=self._context.turns(),
            held_by=draft.plan.held_by if draft.plan is not None else None,
        )

    def _all_is_read(self, snapshot: PlanInput) -> bool:
        """Whether there is nothing to read, and never will be."""
        ends = snapshot.log.values()
        return (
            self._context.has_all_splits
            and not snapshot.has_pending
            and len(ends) == len(self._context.splits)
            and all(r.final and r.position == r.end for r in ends)
        )

    def _next_states(
        self, snapshot: PlanInput, draft: PlannedBatch
    ) -> tuple[dict[str, AnyState], dict[str, int]]:
        """The splits of the next offset, and the begin positions that it has to tell."""
        states = {name: s for name, s in snapshot.known.items() if name in self._context.splits}
        begin: dict[str, int] = {}
        for name, planned in snapshot.run.items():
            state, end, log = snapshot.known.get(name), draft.ends[name], snapshot.log[name]
            if state is None or planned.position != state.position:
                begin[name] = planned.position
            elif end == state.position:
                continue
            proven_end = draft.plan is not None and end == log.end and log.drained
            states[name] = SplitState(
                split=self._context.splits[name],
                position=end,
                read_max=draft.read_max.get(name),
                # For other processes, by the clock that they begin with; it is behind where this one stood still.
                quiet_since=max(snapshot.seen_at, snapshot.wall) if proven_end else None,
            )
            if proven_end:
                self._split_tracker.seen_quiet(name, end, snapshot.seen_at)
        return states, begin

    def _take_reports(self, start: AnyOffset | None) -> None:
        assert self._enumerator is not None
        for report in self._readers.take(start.batch if start is not None else None):
            self._split_tracker.take_in(report)
            if self._recorder is not None:
                self._recorder.take_in(report)
            if start is not None:
                self._readers.deliver(report, start.batch, self._enumerator)


def _refined(state: AnyState, read_max: int | None) -> AnyState:
    """With what reports told since of the greatest event time read; that alone makes no new offset."""
    if read_max is None or (state.read_max is not None and read_max <= state.read_max):
        return state
    return replace(state, read_max=read_max)
