"""The coordinator: one per source of a running query, in the planning process (Flink ``SourceCoordinator``).

It keeps the enumerator alive across micro-batches and answers Spark's one question: up to where does the next batch read?
Everything it must not forget is in the offset it answers with.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.api import (
    Boundedness,
    EventTimes,
    PositioningRequest,
    SplitEnumerator,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.errors import AlignmentError
from flip27_stream.spark.clock import QueryClock
from flip27_stream.spark.enumerator_context import CoordinatorContext
from flip27_stream.spark.job import Job
from flip27_stream.spark.knowledge import SplitKnowledge
from flip27_stream.spark.packing import pack
from flip27_stream.spark.rate_limit import proportional_ends
from flip27_stream.spark.recorder import BatchRecorder
from flip27_stream.spark.report_channel import ReportListener
from flip27_stream.spark.task import SplitTask
from offsets import Offset, OffsetCodec, SplitState, ranges
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.planner import Plan, plan

log = logging.getLogger(__name__)

_LEAST_PAUSE_S, _GREATEST_PAUSE_S = 0.05, 1.0
_IDLE_CPU_SHARE = 0.1

Document = dict[str, Any]


@dataclass
class _Draft:
    """The ends of a batch being planned, and what is known of event times up to there."""

    ends: Mapping[str, int]
    read_max: Mapping[str, int | None] = field(default_factory=dict)
    plan: Plan | None = None


class SourceCoordinator:
    """Plans the micro-batches of one source of one query. All methods run in the planning thread."""

    def __init__(self, job: Job, clock: Callable[[], int] | None = None) -> None:
        self._job = job
        self._clock = clock or QueryClock()
        source = job.source
        self._codec: OffsetCodec[Any, Any] = OffsetCodec(
            source.fingerprint, source.split_serializer, source.enumerator_checkpoint_serializer
        )
        self._context = CoordinatorContext(max(job.driver.parallelism, 1), job.driver.host)
        self._enumerator: SplitEnumerator[Any, Any] | None = None
        self._knowledge = SplitKnowledge(job.strategy.max_out_of_orderness_ms)
        self._recorder = BatchRecorder(job.alignment) if job.alignment is not None else None
        self._reports: ReportListener | None = None
        self._lineage = ""
        self._notified = -1
        self._available_now = False
        self._frozen: dict[str, int | None] | None = None
        self._latest: dict[str, int] = {}
        self._pause_s = 0.0

    # ---- what Spark asks ------------------------------------------------------------------------------------------

    def prepare_available_now(self) -> None:
        """Stop at what is there when the first batch is planned (``Trigger.AvailableNow``)."""
        self._available_now = True

    def latest_offset(self, document: Document, limit: int | None) -> Document:
        """The end of the batch that starts at ``document``; ``document`` itself if there is nothing to read.

        Everything before ``document`` is processed. Raises whatever must fail the query.
        """
        time.sleep(self._pause_s)
        start = self._codec.from_json(document)
        began = time.process_time()
        enumerator = self._open(start)
        self._take_reports()
        if start is not None and start.batch != self._notified:
            enumerator.notify_checkpoint_complete({split: s.position for split, s in start.splits.items()})
            self._notified = start.batch
        end = self._plan_until_moved(start, limit)
        if end is not None:
            self._pause_s = 0.0
            return self._codec.to_json(end)
        cost = time.process_time() - began
        self._pause_s = min(max(cost / _IDLE_CPU_SHARE, _LEAST_PAUSE_S), _GREATEST_PAUSE_S)
        if self._available_now and self._recorder is not None:
            self._recorder.flush()
        return document

    def report_latest_offset(self) -> Document | None:
        """The log ends seen by the last plan, by split id."""
        return dict(self._latest) or None

    def tasks(self, start_document: Document, end_document: Document) -> list[SplitTask]:
        """The tasks of the batch between two offsets: for the same two always the same ranges."""
        start, end = self._codec.from_json(start_document), self._codec.from_json(end_document)
        if end is None or start_document == end_document:
            return []
        to_read = ranges(start, end)
        if self._recorder is not None:
            self._recorder.replayed(end, to_read)
        if self._reports is None:
            self._reports = ReportListener(self._job.driver.bind_address, self._job.driver.host)
        packed = pack(to_read, self._job.driver.parallelism or len(to_read))
        return [
            SplitTask(i, end.batch, tuple(task), end.plausible_until, tuple(self._events(i)), self._reports.address)
            for i, task in enumerate(packed)
        ]

    def close(self) -> None:
        """Free everything; best effort, bounded, never raises."""
        self._context.close()
        for close in (
            self._recorder.close if self._recorder is not None else None,
            self._reports.close if self._reports is not None else None,
            self._enumerator.close if self._enumerator is not None else None,
        ):
            try:
                if close is not None:
                    close()
            except Exception as e:
                log.info("while closing: %s", e)

    # ---- one plan -------------------------------------------------------------------------------------------------

    def _open(self, start: Offset[Any, Any] | None) -> SplitEnumerator[Any, Any]:
        if self._enumerator is None:
            self._lineage = start.lineage if start is not None else secrets.token_hex(8)
            if self._recorder is not None:
                self._recorder.open(self._job.source.fingerprint, self._lineage)
            if start is None:
                self._enumerator = self._job.source.create_enumerator(self._context)
            else:
                self._context.restore({split: s.split for split, s in start.splits.items()})
                self._enumerator = self._job.source.restore_enumerator(self._context, start.enumerator)
            self._enumerator.start()
            for subtask in self._context.registered_readers():
                self._enumerator.add_reader(subtask)
        return self._enumerator

    def _plan_until_moved(self, start: Offset[Any, Any] | None, limit: int | None) -> Offset[Any, Any] | None:
        """The next offset, or ``None`` when there is nothing to do.

        Spark ends an AvailableNow run at the first answer that changes nothing, so while frozen records are left the
        answer is waited for.
        """
        while True:
            self._context.run_due()
            end, complete = self._plan_once(start, limit)
            if end is not None or complete or not self._available_now:
                return end
            time.sleep(_LEAST_PAUSE_S)

    def _plan_once(
        self, start: Offset[Any, Any] | None, limit: int | None
    ) -> tuple[Offset[Any, Any] | None, bool]:
        """The next offset or ``None``; and whether the run has read all it was to read."""
        assert self._enumerator is not None
        now = self._clock()
        known: Mapping[str, SplitState] = start.splits if start is not None else {}
        splits = dict(self._context.splits)
        log_ranges = self._enumerator.split_ranges(
            {split: known[name].position if name in known else None for name, split in splits.items()}
        )
        self._latest = {name: r.end for name, r in sorted(log_ranges.items())}
        to_plan = self._freeze(log_ranges, splits)
        alignment = self._job.alignment
        plausible_until = now + alignment.max_future_ms if alignment is not None and alignment.max_future_ms else None
        if alignment is None or not self._can_align(alignment):
            draft = _Draft(proportional_ends(to_plan, limit))
        else:
            draft = self._align(start, log_ranges, to_plan, limit, now, plausible_until)
        states, begin = self._next_states(known, log_ranges, to_plan, draft, now)
        state = self._enumerator.snapshot_state()
        held_back = self._available_now and alignment is not None and alignment.available_now == "hold"
        complete = held_back or all(name in log_ranges and states[name].position == to_plan[name].end for name in to_plan)
        complete = complete and set(to_plan) >= set(self._frozen or ())
        if start is not None and states == known and not begin and state == start.enumerator:
            return None, complete
        end: Offset[Any, Any] = Offset(
            source=self._job.source.fingerprint,
            lineage=self._lineage,
            batch=start.batch + 1 if start is not None else 0,
            enumerator=state,
            splits=states,
            begin=begin,
            plausible_until=plausible_until,
        )
        if self._recorder is not None and draft.plan is not None:
            self._recorder.planned(end, ranges(start, end), draft.plan.states)
        return end, complete

    def _freeze(self, log_ranges: Mapping[str, SplitRange], splits: Mapping[str, Any]) -> dict[str, SplitRange]:
        """The ranges of this run. Under AvailableNow they end where they did at the first plan, and new splits wait."""
        if not self._available_now:
            return dict(log_ranges)
        if self._frozen is None:
            self._frozen = dict.fromkeys(splits)
        frozen = {}
        for name, r in log_ranges.items():
            if name in self._frozen:
                end = self._frozen[name]
                self._frozen[name] = end = r.end if end is None else end
                frozen[name] = SplitRange(r.position, max(min(r.end, end), r.position), r.drained)
        return frozen

    def _align(
        self,
        start: Offset[Any, Any] | None,
        log_ranges: Mapping[str, SplitRange],
        to_plan: Mapping[str, SplitRange],
        limit: int | None,
        now: int,
        plausible_until: int | None,
    ) -> _Draft:
        """Plan to a common horizon; see :mod:`watermark_alignment.planner`."""
        alignment = self._job.alignment
        assert alignment is not None
        known: Mapping[str, SplitState] = start.splits if start is not None else {}
        request = PositioningRequest(
            {name: r for name, r in to_plan.items() if r.position < r.end}, plausible_until, limit
        )
        assert isinstance(self._enumerator, SupportsEventTimePositions)
        positions = self._enumerator.event_time_positions(request) if request.ranges else None
        times: Mapping[str, EventTimes] = positions.event_times() if positions is not None else {}
        final = self._is_final()
        views = [
            self._knowledge.view(name, known.get(name), log_ranges[name], r.end, times.get(name), now, final)
            for name, r in to_plan.items()
        ]
        views += [
            self._knowledge.unknown(name, state.position, state) for name, state in known.items() if name not in to_plan
        ]
        planned = plan(
            views,
            positions.first_at_or_after if positions is not None else lambda _: {},
            limit=limit,
            max_drift=alignment.max_drift_ms,
            out_of_orderness=alignment.max_out_of_orderness_ms,
            idle_timeout=alignment.idle_timeout_ms,
            now=now,
            floor=None,
        )
        read_max = {}
        for view in views:
            end, seen = planned.ends[view.id], view.read_max
            if end > view.position:
                below = view.reach if end == view.end else view.next
                if below is not None and (planned.horizon is None or below < planned.horizon):
                    seen = below if seen is None else max(seen, below)
            read_max[view.id] = seen
        if self._recorder is not None and start is not None:
            before = {view.id: view.read_max for view in views}
            self._recorder.settle(start, planned, before, now)
        return _Draft(planned.ends, read_max, planned)

    def _can_align(self, alignment: AlignmentOptions) -> bool:
        if isinstance(self._enumerator, SupportsEventTimePositions):
            return True
        if alignment.allow_unaligned_source_splits:
            return False
        raise AlignmentError(
            f"The splits of '{self._job.source.fingerprint}' cannot be cut by event time, so they cannot be aligned. Read "
            "them without scan.watermark.alignment.group, or set "
            "scan.watermark.alignment.allow-unaligned-source-splits to true."
        )

    def _is_final(self) -> bool:
        """Whether splits are finished at the ends that were planned for: they end, or the run does."""
        alignment = self._job.alignment
        complete = self._available_now and (alignment is None or alignment.available_now == "complete")
        return complete or self._job.source.boundedness is Boundedness.BOUNDED

    def _next_states(
        self,
        known: Mapping[str, SplitState],
        log_ranges: Mapping[str, SplitRange],
        to_plan: Mapping[str, SplitRange],
        draft: _Draft,
        now: int,
    ) -> tuple[dict[str, SplitState], dict[str, int]]:
        """The splits of the next offset, and the begin positions it has to tell."""
        states = {name: state for name, state in known.items() if name in self._context.splits}
        begin: dict[str, int] = {}
        for name, planned in to_plan.items():
            state, end = known.get(name), draft.ends[name]
            if state is None or planned.position != state.position:
                begin[name] = planned.position
            elif end == state.position:
                continue
            log_range = log_ranges[name]
            at_log_end = end == log_range.end and log_range.drained
            states[name] = SplitState(
                split=self._context.splits[name],
                position=end,
                read_max=draft.read_max.get(name),
                quiet_since=now if at_log_end and draft.plan is not None else None,
            )
        return states, begin

    def _take_reports(self) -> None:
        assert self._enumerator is not None
        for report in self._reports.take() if self._reports is not None else ():
            for split in report.splits:
                self._knowledge.take_in(split)
            if self._recorder is not None:
                self._recorder.take_in(report)
            for event in report.events:
                self._enumerator.handle_source_event(report.subtask, event)

    def _events(self, subtask: int) -> list[Any]:
        return self._context.events.pop(subtask, [])
