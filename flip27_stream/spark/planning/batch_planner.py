"""Plans one micro-batch: what is known of each split goes into the planner, the next state of each comes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from flip27_stream.api import (
    EventTimePositions,
    EventTimes,
    PositioningRequest,
    ReadLimits,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.errors import AlignmentError
from flip27_stream.spark.planning.checked_positions import CheckedPositions
from flip27_stream.spark.planning.rate_limit import proportional_ends
from flip27_stream.spark.planning.split_tracker import SplitTracker
from flip27_stream.spark.reporting.reporting_splits import Reporting
from flip27_stream.spark.source_spec import AnyEnumerator, AnyOffset, AnyState, SourceSpec
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.pausing import plan_by_pausing
from watermark_alignment.planner import BACKLOG, GROUP, Plan, SplitView, plan, resting_state
from watermark_alignment.states import SplitStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlanInput:
    """What one plan is made from.

    Attributes:
        start: the offset to go on from, ``None`` for a query that starts.
        known: the states in it of the splits that are assigned.
        log: what can be read of each split that answered, by split id.
        run: the part of ``log`` that this run reads.
        final: whether all splits are finished at the ends in ``run``, for the run ends there.
        has_pending: whether the enumerator knows of splits that it has not assigned.
        limits: how much the batch may read.
        now: the clock (ms) before the look at ``log``.
        seen_at: the clock (ms) after it.
        wall: the machine's own clock (ms), which may have stepped since the query began.
        floor: least watermark of the other members of the group; ``None`` if nobody holds.
        single: whether the run has this one batch (``Trigger.Once``).
        no_more: whether the source has said that no more splits will come.
    """

    start: AnyOffset | None
    known: Mapping[str, AnyState]
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
        ends: by split id.
        read_max: greatest event time (ms) that will have been read at ``ends``, as far as it is known.
        read_max_before: the same, before the batch.
        plausible_until: event times after this (ms) are not believed; ``None`` for no bound.
        plan: what the aligning planner said; ``None`` without alignment, and where nothing may move because
            nothing at all is known of a split.
        unknown: splits with something to read whose event times are not known now.
        runs_empty: whether Spark is to run the batch although it reads nothing.
        floor: least watermark of the other members of the group, as it was planned with.
        unaligned: splits of an aligned source that run unaligned, since nobody tells what tasks read of them. They
            count for nobody.
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

    def waiting(self, run: Mapping[str, SplitRange]) -> int:
        """How many rows of ``run`` can be read, now or, where the limit left some, in batches to come.

        Where alignment holds splits back, only what the batch itself reads.
        """
        held = self.plan is not None and self.plan.held_by is not None
        return sum((self.ends[name] if held else r.end) - r.position for name, r in run.items())


class BatchPlanner:
    """Plans the batches of one source, aligned or not."""

    def __init__(self, spec: SourceSpec, split_tracker: SplitTracker) -> None:
        self._spec = spec
        self._split_tracker = split_tracker
        self._unaligned: frozenset[str] = frozenset()

    def open(self, fingerprint: str, lineage: str, start: AnyOffset | None) -> None:
        """The query, whose checkpoint a source of ``fingerprint`` began, is about to plan the first batch of a run.

        The run goes on from ``start``.
        """

    def replays(self, start: AnyOffset | None, end: AnyOffset) -> None:
        """A run that has planned nothing yet begins with the batch between these offsets, which another planned."""

    def close(self) -> None:
        """It plans no more; bounded, never raises."""

    def others_moved(self) -> bool:
        """Whether what holds this source has moved since the last call, so that more can soon be read."""
        return False

    def draft(
        self, enumerator: AnyEnumerator, snapshot: PlanInput, reporting: Callable[[], Reporting]
    ) -> PlannedBatch:
        """The next batch.

        Args:
            enumerator: of the source.
            snapshot: what there is.
            reporting: how far tasks report what they read.

        Raises:
            AlignmentError: it is to be aligned, but splits of the source can be cut by event time neither before they
                are read nor after it.
        """
        alignment = self._spec.alignment
        if alignment is None:
            return PlannedBatch(proportional_ends(snapshot.run, snapshot.limits.max_rows))
        if isinstance(enumerator, SupportsEventTimePositions):
            return self._align(enumerator, alignment, snapshot)
        return self._pause(alignment, snapshot, reporting())

    def _align(
        self, enumerator: SupportsEventTimePositions, alignment: AlignmentOptions, snapshot: PlanInput
    ) -> PlannedBatch:
        to_read = {name: r for name, r in snapshot.run.items() if r.position < r.end or r.limited}
        plausible_until = _plausible_until(alignment, snapshot)
        strategy = self._spec.strategy
        request = PositioningRequest(
            to_read,
            plausible_until,
            snapshot.limits.max_rows,
            strategy.timestamp_assigner,
            strategy.max_out_of_orderness_ms,
        )
        positions = None
        if to_read or snapshot.has_pending:
            positions = CheckedPositions(enumerator, request, enumerator.event_time_positions(request))
        times = positions.event_times() if positions is not None else {}
        unknown = frozenset(to_read.keys() - times.keys())
        views = self._views(snapshot, times)
        if any(self._split_tracker.never_heard_of(view) for view in views):
            return PlannedBatch({view.id: view.position for view in views}, unknown=unknown)
        backlog = _watermark_of_backlog(positions, alignment) if snapshot.has_pending else None
        planned = plan(
            views,
            positions.first_at_or_after if positions is not None else lambda _: {},
            limit=snapshot.limits.max_rows,
            max_drift=alignment.max_drift_ms,
            out_of_orderness=alignment.max_out_of_orderness_ms,
            idle_timeout=alignment.idle_timeout_ms,
            now=snapshot.now,
            floor=_least(backlog, snapshot.floor),
        )
        return PlannedBatch(
            ends=planned.ends,
            read_max={view.id: _read_max_after(view, planned) for view in views},
            read_max_before={view.id: view.read_max for view in views},
            plausible_until=plausible_until,
            plan=_with_backlog(planned, backlog, snapshot.floor),
            unknown=unknown,
            floor=snapshot.floor,
        )

    def _pause(self, alignment: AlignmentOptions, snapshot: PlanInput, reporting: Reporting) -> PlannedBatch:
        """FLIP-217 as Flink does it: by what readers reported."""
        ends = self._unaligned_ends(alignment, snapshot, reporting)
        views = self._views(snapshot, dict.fromkeys(snapshot.run, EventTimes(None, None)))
        aligned = [
            replace(view, end=view.position) if view.id in reporting.pausing else view
            for view in views
            if view.id not in ends
        ]
        planned = plan_by_pausing(
            aligned,
            limit=_left_of(snapshot, ends),
            max_drift=alignment.max_drift_ms,
            out_of_orderness=alignment.max_out_of_orderness_ms,
            idle_timeout=alignment.idle_timeout_ms,
            now=snapshot.now,
            floor=snapshot.floor,
        )
        states = {
            view.id: resting_state(view, alignment.idle_timeout_ms, snapshot.now) or SplitStatus.ACTIVE
            for view in views
            if view.id in ends
        }
        return PlannedBatch(
            ends={**planned.ends, **ends},
            read_max={view.id: view.read_max for view in views},
            read_max_before={view.id: view.read_max for view in aligned},
            plausible_until=_plausible_until(alignment, snapshot),
            plan=replace(
                planned,
                ends={**planned.ends, **ends},
                states={**planned.states, **states},
                fronts={**planned.fronts, **dict.fromkeys(ends)},
            ),
            floor=snapshot.floor,
            unaligned=frozenset(ends),
        )

    def _unaligned_ends(
        self, alignment: AlignmentOptions, snapshot: PlanInput, reporting: Reporting
    ) -> dict[str, int]:
        """Up to where splits are read that nobody tells of; each gets the share of the limit that is due to it.

        Raises:
            AlignmentError: there are such splits, and the options do not allow for that.
        """
        reasons = {name: why for name in snapshot.run if (why := reporting.why_unknown(name)) is not None}
        if reasons and not alignment.allow_unaligned_source_splits:
            raise AlignmentError(
                f"The splits of '{self._spec.fingerprint}' cannot be cut by event time, and its tasks cannot report to "
                f"this driver what they read, so they cannot be aligned: {reasons[min(reasons)]}. Let executors reach "
                "spark.driver.host, read them without scan.watermark.alignment.group, or set "
                "scan.watermark.alignment.allow-unaligned-source-splits to true."
            )
        self._warn_of_unaligned(reasons)
        ends = proportional_ends(snapshot.run, snapshot.limits.max_rows) if reasons else {}
        return {name: ends[name] for name in reasons}

    def _warn_of_unaligned(self, reasons: Mapping[str, str]) -> None:
        """When there are others than before."""
        if new := reasons.keys() - self._unaligned:
            log.warning(
                "%d splits of '%s' are read unaligned from now on, as "
                "scan.watermark.alignment.allow-unaligned-source-splits allows, %s among them: %s. They hold nobody, "
                "and rows can be dropped as late.",
                len(new),
                self._spec.fingerprint,
                min(new),
                reasons[min(new)],
            )
        self._unaligned = frozenset(reasons)

    def _views(self, snapshot: PlanInput, times: Mapping[str, EventTimes]) -> list[SplitView]:
        known = snapshot.known
        answered = [
            self._split_tracker.view(
                name,
                known.get(name),
                snapshot.log[name],
                end=r.end,
                times=times.get(name),
                seen_at=snapshot.seen_at,
                final=(snapshot.final and not r.limited) or r.final,
            )
            for name, r in snapshot.run.items()
        ]
        silent = [
            self._split_tracker.unknown(name, state.position, state)
            for name, state in known.items()
            if name not in snapshot.run
        ]
        return answered + silent

    def is_final(self, available_now: bool) -> bool:
        """Whether splits are finished at the ends they are planned for, since the run ends there."""
        alignment = self._spec.alignment
        completes = alignment is None or alignment.available_now == "complete"
        return available_now and completes


def _plausible_until(alignment: AlignmentOptions, snapshot: PlanInput) -> int | None:
    latest_clock = max(snapshot.now, snapshot.wall)
    return latest_clock + alignment.max_future_ms if alignment.max_future_ms else None


def _watermark_of_backlog(positions: EventTimePositions | None, alignment: AlignmentOptions) -> int | None:
    """The watermark of splits that are not assigned yet: they hold the others like any split that counts."""
    least = positions.least_to_come() if positions is not None else None
    return None if least is None else least - alignment.max_out_of_orderness_ms - 1


def _with_backlog(planned: Plan, backlog: int | None, group: int | None) -> Plan:
    """The plan as the other members of the group are to see it, whose own floor is ``group``."""
    if backlog is None:
        return planned
    is_bound = planned.held_by == GROUP and (group is None or backlog <= group)
    return replace(
        planned, floor=_least(planned.floor, backlog), held_by=BACKLOG if is_bound else planned.held_by
    )


def _left_of(snapshot: PlanInput, ends: Mapping[str, int]) -> int | None:
    """What is left of the row limit once splits are read to ``ends``; at least a row, so that the others go on, too."""
    limit = snapshot.limits.max_rows
    if limit is None:
        return None
    return max(limit - sum(end - snapshot.run[name].position for name, end in ends.items()), 1)


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _read_max_after(view: SplitView, planned: Plan) -> int | None:
    """Greatest event time read once the batch has run: never more than is sure."""
    end = planned.ends[view.id]
    if end == view.position:
        return view.read_max
    read = view.reach if end == view.end else view.next
    if read is None or (planned.horizon is not None and read >= planned.horizon):
        return view.read_max
    return read if view.read_max is None else max(view.read_max, read)
