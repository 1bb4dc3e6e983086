"""The offset that ends a planned batch."""

from __future__ import annotations

import secrets

from flip27_stream.in_order import found_in, values_of
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.micro_batch.batch_planner import PlanInput, PlannedBatch
from flip27_stream.spark.planning.micro_batch.split_tracker import SplitTracker
from flip27_stream.spark.planning.offset.offset_log import OffsetLog
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec
from offsets import Offset, SplitState
from offsets.offset import AnyOffset


class NextOffset:
    """Makes the next offset of a checkpoint from a planned batch.

    Args:
        spec: The source, its event time and the options of alignment.
        offset_log: The log with the last offset.
        context: The context with the assigned and the retired splits.
        split_tracker: Receives the splits that have reached the end of their log.
    """

    def __init__(
        self,
        spec: SourceSpec,
        offset_log: OffsetLog,
        context: CoordinatorContext,
        split_tracker: SplitTracker,
    ) -> None:
        self._fingerprint = spec.fingerprint
        self._offset_log = offset_log
        self._context = context
        self._split_tracker = split_tracker
        self.source = ""
        """Fingerprint of the source that began the checkpoint."""
        self.lineage = ""
        """Lineage id of the checkpoint."""
        self._newly_quiet: dict[str, SplitState] = {}

    def open(self, start: AnyOffset | None) -> None:
        """Continues the checkpoint of ``start``, or begins a new one with a lineage id of its own if it is ``None``."""
        began = self._fingerprint, secrets.token_hex(8)
        self.source, self.lineage = began if start is None else (start.source, start.lineage)

    def states(
        self, plan_input: PlanInput, planned: PlannedBatch
    ) -> tuple[dict[str, SplitState], dict[str, int]]:
        """Returns the states of the splits after the batch, and the positions at which splits begin, both by split id.

        The positions are those at which the batch begins to read splits that ``plan_input.start`` does not have or has
        at another position. The splits that are found at the ends of their logs only after the batch that read them up
        to there are kept for :meth:`make`.
        """
        splits, known, run = self._context.splits, plan_input.known, plan_input.run
        retired = known.keys() - splits.keys()
        states = {name: s for name, s in known.items() if name not in retired} if retired else dict(known)
        begin: dict[str, int] = {}
        at_log_end: dict[str, int] = {}
        self._newly_quiet = {}
        is_aligned = planned.plan is not None
        tuple_of = tuple.__new__  # Takes half the time of a call of the class.
        # Other processes compare this time with the machine's clock, and the query's clock may be behind it.
        seen_at = max(plan_input.seen_at, plan_input.wall)
        names = list(run)
        for name, r, split, state, end, log, read_max in zip(
            names,
            run.values(),
            values_of(names, splits),
            found_in(names, known),
            values_of(names, planned.ends),
            values_of(names, plan_input.log),
            found_in(names, planned.read_max),
            strict=True,
        ):
            proven_end = is_aligned and end == log.end and log.drained
            if state is None or r.position != state.position:
                begin[name] = r.position
            elif end == state.position:
                if proven_end and state.quiet_since is None:
                    self._newly_quiet[name] = state._replace(quiet_since=seen_at)
                continue
            quiet_since = seen_at if proven_end else None
            states[name] = tuple_of(SplitState, (split, end, read_max, quiet_since))
            if proven_end:
                at_log_end[name] = end
        self._split_tracker.record_log_ends(at_log_end, plan_input.seen_at)
        return dict(sorted(states.items())) if begin else states, begin

    def make(
        self,
        plan_input: PlanInput,
        planned: PlannedBatch,
        enumerator: AnyEnumerator,
        states: dict[str, SplitState],
        begin: dict[str, int],
    ) -> AnyOffset | None:
        """Returns the offset that ends the batch; ``None`` if it would equal ``plan_input.start``.

        That a split is found at the end of its log makes a new offset only if this split holds others back, or may hold
        back another member of the group: otherwise runs that are shorter than the idle timeout would never find it
        idle.

        Args:
            plan_input: The input of the plan.
            planned: The batch.
            enumerator: The enumerator of the source; its state goes into the offset.
            states: The states of the splits after the batch, a result of :meth:`states`.
            begin: The begin positions, a result of :meth:`states`.
        """
        start = plan_input.start
        checkpoint = enumerator.snapshot_state()
        newly_quiet = self._newly_quiet
        holder_is_quiet = planned.plan is not None and planned.plan.held_by in newly_quiet
        stores_quiet = holder_is_quiet or (planned.holds_members and bool(newly_quiet))
        changed = states != plan_input.known or begin or planned.runs_empty or stores_quiet
        if start is not None and not changed and self._offset_log.has_stored(checkpoint):
            return None
        self._split_tracker.forget(self._context.retired)
        self._context.retired.clear()
        states, read_max = {**states, **newly_quiet}, planned.read_max
        return Offset(
            source=self.source,
            lineage=self.lineage,
            batch=start.batch + 1 if start is not None else 0,
            enumerator=checkpoint,
            splits={
                name: s if s.read_max == greatest else _with_read_max(s, greatest)
                for (name, s), greatest in zip(states.items(), found_in(list(states), read_max), strict=True)
            },
            begin=begin,
            earlier_begins=self._offset_log.earlier_begins(start, states.keys(), begin.keys()),
            plausible_until=planned.plausible_until,
        )


def _with_read_max(state: SplitState, read_max: int | None) -> SplitState:
    """Returns ``state`` with the greatest event time (ms) in reports. This change alone does not make a new offset."""
    if read_max is None or (state.read_max is not None and read_max <= state.read_max):
        return state
    return state._replace(read_max=read_max)
