"""The coordinator: one per source of a running query, in the planning process (Flink ``SourceCoordinator``).

It keeps the enumerator alive across micro-batches and answers Spark's one question: up to where does the next
batch read? Everything it must not forget is in the offset it answers with.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from flip27_stream.api import SplitRange
from flip27_stream.spark.available_now import FrozenEnds
from flip27_stream.spark.batch_planner import BatchPlanner, Draft, Snapshot
from flip27_stream.spark.clock import QueryClock, wall_clock
from flip27_stream.spark.enumerator_context import CoordinatorContext
from flip27_stream.spark.job import AnyEnumerator, AnyOffset, AnyState, Job
from flip27_stream.spark.knowledge import SplitKnowledge
from flip27_stream.spark.packing import tasks_of
from flip27_stream.spark.patience import Patience
from flip27_stream.spark.rate_limit import LeastRows
from flip27_stream.spark.recorder import BatchRecorder
from flip27_stream.spark.report_channel import ReportAddress, ReportListener
from flip27_stream.spark.task import SplitTask
from offsets import Offset, OffsetCodec, SplitState, ranges

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _GREATEST_PAUSE_S = 0.005, 1.0
_IDLE_CPU_SHARE = 0.04

Document = dict[str, Any]


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A plan makes some objects for each split and no cycles; looking for those takes as long as planning does."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class SourceCoordinator:
    """Plans the micro-batches of one source of one query. All methods run in the planning thread."""

    def __init__(self, job: Job, clock: Callable[[], int] | None = None) -> None:
        self._job = job
        self._clock = clock or QueryClock()
        self._wall_clock = clock or wall_clock
        source = job.source
        self._codec: OffsetCodec[Any, Any] = OffsetCodec(
            job.fingerprint, source.split_serializer, source.enumerator_checkpoint_serializer
        )
        self._context = CoordinatorContext(max(job.driver.parallelism, 1), job.driver.host)
        self._enumerator: AnyEnumerator | None = None
        self._knowledge = SplitKnowledge(job.strategy.max_out_of_orderness_ms)
        self._planner = BatchPlanner(job, self._knowledge)
        self._recorder = BatchRecorder(job.alignment) if job.alignment is not None else None
        self._reports: ReportListener | None = None
        self._can_listen = True
        self._lineage = ""
        self._notified = -1
        self._available_now = False
        self._frozen: FrozenEnds | None = None
        self._least_rows = LeastRows(job.limits)
        self._log: Mapping[str, SplitRange] = {}
        self._pause_s = 0.0
        self._answer: tuple[Document, AnyOffset | None] = {}, None

    # ---- what Spark asks ------------------------------------------------------------------------------------------

    def prepare_available_now(self) -> None:
        """Stop at what is there when the first batch is planned (``Trigger.AvailableNow``)."""
        self._available_now = True

    def latest_offset(self, document: Document, limit: int | None) -> Document:
        """The end of the batch that starts at ``document``; ``document`` itself if there is nothing to read.

        Everything before ``document`` is processed. Raises whatever must fail the query.
        """
        began = time.process_time()
        with _no_collection():
            start = self._decode(document)
            enumerator = self._open(start)
            self._take_reports()
            if start is not None and start.batch != self._notified:
                enumerator.notify_checkpoint_complete({name: s.position for name, s in start.splits.items()})
                self._notified = start.batch
            end = self._plan_until_moved(start, limit)
            if end is not None:
                self._pause_s = 0.0
                self._answer = self._codec.to_json(end), end
                return self._answer[0]
        if not self._available_now:
            self._pause(time.process_time() - began)
        elif self._recorder is not None:
            self._recorder.flush()
        return document

    def report_latest_offset(self) -> Document | None:
        """The log ends seen by the last plan, as users write them; ``None`` before the first."""
        if self._enumerator is None or not self._log:
            return None
        return dict(self._enumerator.describe_positions(self._enumerator.log_ends(self._log)))

    def tasks(self, start_document: Document, end_document: Document) -> list[SplitTask]:
        """The tasks of the batch between two offsets: for the same two always the same ranges."""
        start, end = self._codec.from_json(start_document), self._codec.from_json(end_document)
        if end is None or start_document == end_document:
            return []
        to_read = ranges(start, end)
        if self._recorder is not None:
            self._recorder.replayed(end, to_read)
        address = self._report_address()
        packed = tasks_of(to_read, self._job.driver.parallelism or len(to_read), self._job.limits)
        events = self._events(len(packed))
        return [
            SplitTask(i, end.batch, tuple(task), end.plausible_until, tuple(events.get(i, ())), address)
            for i, task in enumerate(packed)
        ]

    def close(self) -> None:
        """Free everything; best effort, bounded, never raises."""
        self._context.close()
        for part in (self._recorder, self._reports, self._enumerator):
            with contextlib.suppress(Exception):
                if part is not None:
                    part.close()

    def _pause(self, cost_s: float) -> None:
        """Spark asks again at once. The first pauses are short, since after a batch the next rows may be near; then
        planning in vain takes no more than its share of a core."""
        share = min(cost_s / _IDLE_CPU_SHARE, _GREATEST_PAUSE_S)
        self._pause_s = max(min(2 * self._pause_s, share, _GREATEST_PAUSE_S), _FIRST_PAUSE_S)
        time.sleep(self._pause_s)

    def _decode(self, document: Document) -> AnyOffset | None:
        """The offset of ``document``; most often the last answer comes back."""
        answered, offset = self._answer
        if document != answered:
            offset = self._codec.from_json(document)
            self._answer = document, offset
        return offset

    # ---- one plan -------------------------------------------------------------------------------------------------

    def _open(self, start: AnyOffset | None) -> AnyEnumerator:
        if self._enumerator is None:
            self._lineage = start.lineage if start is not None else secrets.token_hex(8)
            if self._recorder is not None:
                self._recorder.open(self._job.fingerprint, self._lineage)
            if start is None:
                self._enumerator = self._job.source.create_enumerator(self._context)
            else:
                self._context.restore({split: s.split for split, s in start.splits.items()})
                self._enumerator = self._job.source.restore_enumerator(self._context, start.enumerator)
            self._enumerator.start()
            for subtask in self._context.registered_readers():
                self._enumerator.add_reader(subtask)
        return self._enumerator

    def _plan_until_moved(self, start: AnyOffset | None, limit: int | None) -> AnyOffset | None:
        """The next offset, or ``None`` when there is nothing to do.

        Spark ends an AvailableNow run at the first answer that changes nothing, so while frozen records are left the
        answer is waited for. The first offset tells where every split begins, so it waits for all of them.
        """
        patience = Patience()
        while True:
            self._context.run_due()
            snapshot = self._look(start, limit)
            silent = self._context.splits.keys() - snapshot.log.keys()
            self._knowledge.note_silent(silent, snapshot.now)
            if start is not None or not silent:
                draft = self._draft(snapshot)
                if self._too_little(snapshot, draft):
                    return None
                silent |= draft.unknown
                end, over = self._next_offset(snapshot, draft, silent)
                if end is not None or over or not self._available_now:
                    return end
            patience.wait_for(silent)

    def _too_little(self, snapshot: Snapshot, draft: Draft) -> bool:
        """Whether to wait for more rows; never under Once, which has no limit, and AvailableNow, which has an end."""
        if self._available_now or snapshot.limit is None:
            return False
        return not self._least_rows.are_there(draft.waiting(snapshot.run), snapshot.now)

    def _draft(self, snapshot: Snapshot) -> Draft:
        assert self._enumerator is not None
        draft = self._planner.draft(self._enumerator, snapshot)
        if self._recorder is not None and draft.plan is not None and snapshot.start is not None:
            self._recorder.settle(snapshot.start, draft.plan, draft.read_max_before, snapshot.now)
        return draft

    def _next_offset(
        self, snapshot: Snapshot, draft: Draft, silent: Collection[str]
    ) -> tuple[AnyOffset | None, bool]:
        """The next offset, ``None`` if nothing changes; and whether the run has read all that it is to read."""
        assert self._enumerator is not None
        start = snapshot.start
        splits, begin = self._next_states(snapshot, draft)
        over = self._run_is_over(splits) if snapshot.final else not silent
        checkpoint = self._enumerator.snapshot_state()
        if start is not None and splits == start.splits and not begin and checkpoint == start.enumerator:
            return None, over
        end: AnyOffset = Offset(
            source=self._job.fingerprint,
            lineage=self._lineage,
            batch=start.batch + 1 if start is not None else 0,
            enumerator=checkpoint,
            splits=splits,
            begin=begin,
            plausible_until=draft.plausible_until,
        )
        if self._recorder is not None and draft.plan is not None:
            self._recorder.planned(end, ranges(start, end), draft.plan.states)
        return end, over

    def _look(self, start: AnyOffset | None, limit: int | None) -> Snapshot:
        """One consistent look at all splits."""
        assert self._enumerator is not None
        now = self._clock()
        known = start.splits if start is not None else {}
        log = self._enumerator.split_ranges(
            {
                split: known[name].position if name in known else None
                for name, split in self._context.splits.items()
            }
        )
        self._log = log
        if self._available_now and self._frozen is None:
            self._frozen = FrozenEnds(self._context.splits)
            self._enumerator.freeze()
        run = log if self._frozen is None else self._frozen.cut(log)
        final = self._planner.is_final(self._available_now)
        return Snapshot(start, log, run, final, limit, now, seen_at=self._clock(), wall=self._wall_clock())

    def _run_is_over(self, splits: Mapping[str, AnyState]) -> bool:
        return self._frozen is None or self._frozen.reached({name: s.position for name, s in splits.items()})

    def _next_states(self, snapshot: Snapshot, draft: Draft) -> tuple[dict[str, AnyState], dict[str, int]]:
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
                quiet_since=snapshot.seen_at if proven_end else None,
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

    def _report_address(self) -> ReportAddress | None:
        """Where tasks report; nowhere if this host cannot listen at the driver's address."""
        if self._reports is None and self._can_listen:
            driver = self._job.driver
            try:
                self._reports = ReportListener(driver.bind_address, driver.host)
            except OSError as e:
                self._can_listen = False
                log.warning(
                    "Tasks cannot report to %s (%s): batches are planned from what planning sees itself. Set "
                    "spark.driver.bindAddress to an address of this host.",
                    driver.bind_address,
                    e,
                )
        return self._reports.address if self._reports is not None else None

    def _events(self, tasks: int) -> dict[int, list[Any]]:
        """Events to send, by task; readers are slots, of which a small batch has fewer."""
        by_task: dict[int, list[Any]] = {}
        if tasks:
            for subtask in sorted(self._context.events):
                by_task.setdefault(subtask % tasks, []).extend(self._context.events.pop(subtask))
        return by_task
