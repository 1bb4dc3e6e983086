"""Plans one micro-batch of one source: the splits that it reads, and their end positions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from flip27_stream.api import (
    EventTimePositions,
    EventTimes,
    PositioningRequest,
    ReadLimits,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.errors import AlignmentError
from flip27_stream.in_order import missing_from
from flip27_stream.spark.planning.micro_batch.checked_positions import (
    CheckedPositions,
    checked_positions_after,
)
from flip27_stream.spark.planning.micro_batch.rate_limit import PositionsAfter, proportional_ends
from flip27_stream.spark.planning.micro_batch.sparse_ranges import rows_to, sparse_positions
from flip27_stream.spark.planning.micro_batch.split_tracker import SplitTracker
from flip27_stream.spark.planning.micro_batch.tracked_splits import TrackedSplits
from flip27_stream.spark.reporting.reporting_splits import Reporting
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec
from offsets.offset import AnyOffset, SplitState
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.pausing import plan_by_pausing
from watermark_alignment.planner import (
    BACKLOG,
    GROUP,
    Plan,
    resting_state,
)
from watermark_alignment.states import SplitStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlanInput:
    """The input of one plan.

    Attributes:
        start: The offset that the batch starts from; ``None`` for a new query.
        known: The states in ``start`` of the assigned splits, by split id.
        log: The range that can be read of each split, by split id, without the splits that did not answer.
        run: The part of ``log`` that this run reads.
        final: Whether all splits are finished at the ends in ``run``, because the run ends there (rule 8).
        has_pending: Whether the enumerator knows of splits that it has not assigned.
        limits: The read limits of the batch.
        now: The query's clock (ms) before ``log`` was looked up.
        seen_at: The query's clock (ms) after ``log`` was looked up.
        wall: The machine's clock (ms), which may have been set since the query began.
        floor: Least watermark (ms) of the other members of the group; ``None`` if no member holds this source.
        single: Whether the run has only this batch (``Trigger.Once``).
        no_more: Whether the enumerator has told all readers that no more splits will come.
    """

    start: AnyOffset | None
    known: Mapping[str, SplitState]
    log: Mapping[str, SplitRange]
    run: Mapping[str, SplitRange]
    final: bool
    has_pending: bool
    limits: ReadLimits
    now: int
    seen_at: int
    wall: int
    floor: int | None = None
    single: bool = False
    no_more: bool = False


@dataclass(frozen=True)
class PlannedBatch:
    """A planned batch.

    Attributes:
        ends: The position up to which each split is read, by split id.
        read_max: Greatest event time (ms) read of each split after the batch; ``None`` if unknown.
        read_max_before: Greatest event time (ms) read of each split before the batch.
        plausible_until: Event times after this time (ms) are implausible (rule 6); ``None`` for no bound.
        plan: The aligned plan; ``None`` without alignment, and if no split may move because nothing is known of
            one of them.
        unknown: Splits with something to read whose event times are not known now.
        runs_empty: Whether Spark must run the batch although it reads nothing.
        floor: Least watermark (ms) of the other members of the group that the batch was planned with.
        unaligned: Splits of an aligned source that are read unaligned, because no reports of tasks about them arrive.
            They do not hold back other splits (rule 2).
        holds_members: Whether this source may be the one for which another member of the group waits.
    """

    ends: Mapping[str, int]
    read_max: Mapping[str, int | None] = field(default_factory=dict)
    read_max_before: Mapping[str, int | None] = field(default_factory=dict)
    plausible_until: int | None = None
    plan: Plan | None = None
    unknown: frozenset[str] = frozenset()
    runs_empty: bool = False
    floor: int | None = None
    unaligned: frozenset[str] = frozenset()
    holds_members: bool = False

    def waiting(self, run: Mapping[str, SplitRange]) -> int:
        """Returns the number of rows of ``run`` that can be read now or, beyond the read limit, in the next batches.

        If alignment holds splits back, these are only the rows that the batch itself reads.
        """
        held = self.plan is not None and self.plan.held_by is not None
        return sum(rows_to(r, self.ends[name] if held else r.end) for name, r in run.items())


class Planner(Protocol):
    """Plans the batches of one source."""

    def open(self, fingerprint: str, lineage: str, start: AnyOffset | None) -> None:
        """Called before the first plan of a run.

        Args:
            fingerprint: The fingerprint of the source that began the checkpoint.
            lineage: The lineage id of the checkpoint.
            start: The offset that the run goes on from; ``None`` for a new query.
        """

    def replay(self, start: AnyOffset | None, end: AnyOffset) -> None:
        """Called when a run begins with the batch between these offsets, which a former process planned."""

    def plan_batch(
        self, enumerator: AnyEnumerator, plan_input: PlanInput, reporting: Callable[[], Reporting]
    ) -> PlannedBatch:
        """Returns the next batch.

        Args:
            enumerator: The enumerator of the source.
            plan_input: The input of the plan.
            reporting: Returns the splits on which tasks can report.

        Raises:
            AlignmentError: The batch cannot be aligned.
        """

    def group_advanced(self) -> bool:
        """Returns whether another member of the group that holds this source has moved since the last call."""

    def close(self) -> None:
        """Frees all resources. Takes limited time and never raises."""


class BatchPlanner:
    """Plans the batches of a source that is in no group, aligned or not (:class:`Planner`).

    Args:
        spec: The source, its event time and the options of alignment.
        split_tracker: The state of its splits that is not in the offset.
    """

    def __init__(self, spec: SourceSpec, split_tracker: SplitTracker) -> None:
        self._spec = spec
        self._split_tracker = split_tracker
        self._unaligned: frozenset[str] = frozenset()

    def open(self, fingerprint: str, lineage: str, start: AnyOffset | None) -> None:
        """Does nothing: there is no group to join."""

    def replay(self, start: AnyOffset | None, end: AnyOffset) -> None:
        """Does nothing: there is no group to tell."""

    def close(self) -> None:
        """Does nothing: there is no group to leave."""

    def group_advanced(self) -> bool:
        """Returns false: no member holds this source."""
        return False

    def plan_batch(
        self, enumerator: AnyEnumerator, plan_input: PlanInput, reporting: Callable[[], Reporting]
    ) -> PlannedBatch:
        """Returns the next batch; see :meth:`Planner.plan_batch`.

        Raises:
            AlignmentError: The source is aligned, but the enumerator finds no positions by event time, tasks cannot
                send reports, and unaligned splits are not allowed.
        """
        alignment = self._spec.alignment
        if alignment is None:
            after = checked_positions_after(enumerator, plan_input.run)
            return PlannedBatch(proportional_ends(plan_input.run, plan_input.limits.max_rows, after))
        if isinstance(enumerator, SupportsEventTimePositions):
            return self._align(enumerator, alignment, plan_input)
        return self._pause(enumerator, alignment, plan_input, reporting())

    def _align(
        self, enumerator: AnyEnumerator, alignment: AlignmentOptions, plan_input: PlanInput
    ) -> PlannedBatch:
        assert isinstance(enumerator, SupportsEventTimePositions)
        to_read = {name: r for name, r in plan_input.run.items() if r.position < r.end or r.limited}
        plausible_until = _plausible_until(alignment, plan_input)
        strategy = self._spec.strategy
        request = PositioningRequest(
            to_read,
            plausible_until,
            plan_input.limits.max_rows,
            strategy.timestamp_assigner,
            strategy.max_out_of_orderness_ms,
        )
        positions = None
        if to_read or plan_input.has_pending:
            positions = CheckedPositions(enumerator, request, enumerator.event_time_positions(request))
        times = positions.event_times() if positions is not None else {}
        unknown = frozenset(missing_from(times, to_read))
        splits = self._rows(plan_input, times)
        if self._split_tracker.has_unknown(splits.ids, splits.rows):
            return PlannedBatch(splits.positions(), unknown=unknown)
        backlog = _watermark_of_backlog(positions, alignment) if plan_input.has_pending else None
        planned = splits.plan(
            positions.first_at_or_after if positions is not None else lambda _: {},
            sparse_positions(checked_positions_after(enumerator, plan_input.run), plan_input.run, positions),
            limit=plan_input.limits.max_rows,
            max_drift=alignment.max_drift_ms,
            out_of_orderness=alignment.max_out_of_orderness_ms,
            idle_timeout=alignment.idle_timeout_ms,
            now=plan_input.now,
            floor=_least(backlog, plan_input.floor),
        )
        return PlannedBatch(
            ends=planned.ends,
            read_max=splits.read_max_after(planned),
            read_max_before=splits.read_max(),
            plausible_until=plausible_until,
            plan=_with_backlog(planned, backlog, plan_input.floor),
            unknown=unknown,
            floor=plan_input.floor,
        )

    def _pause(
        self,
        enumerator: AnyEnumerator,
        alignment: AlignmentOptions,
        plan_input: PlanInput,
        reporting: Reporting,
    ) -> PlannedBatch:
        """Returns a batch that is aligned by the reports of tasks, like FLIP-217 in Flink."""
        after = checked_positions_after(enumerator, plan_input.run)
        ends = self._unaligned_ends(alignment, plan_input, reporting, after)
        views = self._rows(plan_input, dict.fromkeys(plan_input.run, EventTimes(None, None))).views
        aligned = [
            replace(view, end=view.position) if view.id in reporting.pausing else view
            for view in views
            if view.id not in ends
        ]
        planned = plan_by_pausing(
            aligned,
            limit=_left_of(plan_input, ends),
            max_drift=alignment.max_drift_ms,
            out_of_orderness=alignment.max_out_of_orderness_ms,
            idle_timeout=alignment.idle_timeout_ms,
            now=plan_input.now,
            floor=plan_input.floor,
            sparse=sparse_positions(after, plan_input.run, None),
        )
        states = {
            view.id: resting_state(view, alignment.idle_timeout_ms, plan_input.now) or SplitStatus.ACTIVE
            for view in views
            if view.id in ends
        }
        return PlannedBatch(
            ends={**planned.ends, **ends},
            read_max={view.id: view.read_max for view in views},
            read_max_before={view.id: view.read_max for view in aligned},
            plausible_until=_plausible_until(alignment, plan_input),
            plan=replace(
                planned,
                ends={**planned.ends, **ends},
                states={**planned.states, **states},
                fronts={**planned.fronts, **dict.fromkeys(ends)},
            ),
            floor=plan_input.floor,
            unaligned=frozenset(ends),
        )

    def _unaligned_ends(
        self,
        alignment: AlignmentOptions,
        plan_input: PlanInput,
        reporting: Reporting,
        after: PositionsAfter | None,
    ) -> dict[str, int]:
        """Returns the ends of the splits that no task reports on, by split id; each gets its share of the row limit.

        Raises:
            AlignmentError: No reports about some splits arrive, and the options do not allow unaligned splits.
        """
        reasons = {name: why for name in plan_input.run if (why := reporting.why_unknown(name)) is not None}
        if reasons and not alignment.allow_unaligned_source_splits:
            raise AlignmentError(
                f"The splits of '{self._spec.fingerprint}' cannot be cut by event time, and its tasks cannot send "
                f"reports to this driver, so they cannot be aligned: {reasons[min(reasons)]}. Let executors reach "
                "spark.driver.host, leave out option scan.watermark.alignment.group, or set option "
                "scan.watermark.alignment.allow-unaligned-source-splits to true."
            )
        self._warn_of_unaligned(reasons)
        ends = proportional_ends(plan_input.run, plan_input.limits.max_rows, after) if reasons else {}
        return {name: ends[name] for name in reasons}

    def _warn_of_unaligned(self, reasons: Mapping[str, str]) -> None:
        """Warns when further splits are read unaligned."""
        if new := reasons.keys() - self._unaligned:
            log.warning(
                "%d splits of '%s' are read unaligned from now on, which "
                "scan.watermark.alignment.allow-unaligned-source-splits allows, %s among them: %s. They hold back no "
                "other split, and Spark can drop their rows as late.",
                len(new),
                self._spec.fingerprint,
                min(new),
                reasons[min(new)],
            )
        self._unaligned = frozenset(reasons)

    def _rows(self, plan_input: PlanInput, times: Mapping[str, EventTimes]) -> TrackedSplits:
        known, run = plan_input.known, plan_input.run
        ids = sorted([*run, *missing_from(run, known)])
        rows = self._split_tracker.rows(
            ids, known, plan_input.log, run, times, seen_at=plan_input.seen_at, final=plan_input.final
        )
        return TrackedSplits(ids, rows)


def _plausible_until(alignment: AlignmentOptions, plan_input: PlanInput) -> int | None:
    latest_clock = max(plan_input.now, plan_input.wall)
    return latest_clock + alignment.max_future_ms if alignment.max_future_ms else None


def _watermark_of_backlog(positions: EventTimePositions | None, alignment: AlignmentOptions) -> int | None:
    """Returns the watermark (ms) of splits that are not assigned yet, which hold back the assigned splits."""
    least = positions.least_to_come() if positions is not None else None
    return None if least is None else least - alignment.max_out_of_orderness_ms - 1


def _with_backlog(planned: Plan, backlog: int | None, group: int | None) -> Plan:
    """Returns ``planned`` with the watermark of the unassigned splits included in its own watermark, for the group.

    Args:
        planned: The plan of the assigned splits.
        backlog: The watermark (ms) of the unassigned splits; ``None`` without unassigned splits.
        group: Least watermark (ms) of the other members; ``None`` if no member holds this source.
    """
    if backlog is None:
        return planned
    is_bound = planned.held_by == GROUP and (group is None or backlog <= group)
    return replace(
        planned,
        own_watermark=_least(planned.own_watermark, backlog),
        held_by=BACKLOG if is_bound else planned.held_by,
    )


def _left_of(plan_input: PlanInput, ends: Mapping[str, int]) -> int | None:
    """Returns the rest of the row limit after reading splits to ``ends``: at least one row, so that others go on."""
    limit = plan_input.limits.max_rows
    if limit is None:
        return None
    return max(limit - sum(rows_to(plan_input.run[name], end) for name, end in ends.items()), 1)


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
