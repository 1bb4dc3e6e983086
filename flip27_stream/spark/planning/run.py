"""The current run of a query: the part of the source that it has to read, and whether it has read it."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api import SplitRange
from flip27_stream.spark.planning.available_now import FrozenEnds
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.micro_batch.batch_planner import PlanInput, PlannedBatch
from flip27_stream.spark.planning.micro_batch.rate_limit import LeastRows
from flip27_stream.spark.planning.stall_detector import Stall, find_stall
from flip27_stream.spark.source_contract import pending_splits
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec
from offsets.offset import SplitState
from watermark_alignment.planner import GROUP


class QueryRun:
    """The part of the source that this run reads; all of it, unless the trigger is ``AvailableNow``.

    Args:
        spec: The source, its event time and the options of alignment.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._source = spec.fingerprint
        self._completes = spec.alignment is None or spec.alignment.available_now == "complete"
        self._frozen: FrozenEnds | None = None
        self._pending = 0
        self._least_rows = LeastRows(spec.limits)
        self.is_available_now = False
        """Whether the run stops at the ends that its first plan finds (``Trigger.AvailableNow``)."""

    @property
    def is_final(self) -> bool:
        """Whether splits are finished at the ends of the run (rule 8), because the run reaches all of them."""
        return self.is_available_now and self._completes

    @property
    def has_pending(self) -> bool:
        """Whether the enumerator knew, at the last :meth:`cut`, of splits that it has not assigned."""
        return self._pending > 0

    def cut(
        self, enumerator: AnyEnumerator, context: CoordinatorContext, log: Mapping[str, SplitRange]
    ) -> Mapping[str, SplitRange]:
        """Returns the part of ``log`` that belongs to this run; the first call of an AvailableNow run freezes its ends.

        Args:
            enumerator: The enumerator of the source.
            context: The context with the assigned splits.
            log: The range that can be read of each split now, by split id.

        Raises:
            DataLossError: A log ends before the frozen end of its split.
            ContractError: ``pending()`` returned something other than a number.
        """
        if self._frozen is not None:
            self._frozen.follow(context.splits, more=self.has_pending)
        elif self.is_available_now:
            self._frozen = FrozenEnds(context.splits)
            enumerator.freeze()
        self._pending = pending_splits(enumerator)
        return log if self._frozen is None else self._frozen.cut(log)

    def has_too_few_rows(self, plan_input: PlanInput, planned: PlannedBatch) -> bool:
        """Returns whether the batch waits for more rows (``minOffsetsPerTrigger``); not under Once and AvailableNow.

        It does not wait where that brings no rows: all splits are at their final ends, limits leave out splits or parts
        of them, another source of a hybrid source follows, or other members of the group, which may wait for this
        source, hold the batch back. Nor does it wait if a split moves past lost records, or to the log that replaced
        its own: the enumerator has taken that in, so the offset must have it.
        """
        if self.is_available_now or planned.runs_empty or plan_input.limits.min_rows is None:
            return False
        known, run = plan_input.known, plan_input.run
        is_held = planned.plan is not None and planned.plan.held_by == GROUP
        is_cut = plan_input.has_pending or any(r.limited for r in run.values())
        is_moved = any(name in known and known[name].position != r.position for name, r in run.items())
        is_ended = bool(run) and all(r.final for r in run.values())
        waiting = None if is_held or is_cut or is_moved or is_ended else planned.waiting(run)
        return not self._least_rows.are_there(waiting, plan_input.now)

    def is_over(
        self,
        plan_input: PlanInput,
        planned: PlannedBatch,
        states: Mapping[str, SplitState],
        *,
        has_silent: bool,
    ) -> bool:
        """Returns whether the run has nothing more to read once the batch is processed.

        Args:
            plan_input: What the batch was planned from.
            planned: The batch.
            states: The states of the splits after the batch, by split id.
            has_silent: Whether there is a split without an answer, so that it is unknown how far it can be read.
        """
        if plan_input.final:
            if self._frozen is None:
                return True
            positions = {name: state.position for name, state in states.items()}
            return not self.has_pending and self._frozen.reached(positions)
        is_held = planned.plan is not None and planned.plan.held_by is not None
        return not has_silent and (is_held or not plan_input.has_pending)

    @staticmethod
    def is_all_read(plan_input: PlanInput, context: CoordinatorContext) -> bool:
        """Returns whether nothing is left to read, and no further split or record can come.

        Args:
            plan_input: The ranges and states with which the last batch was planned.
            context: The context of the enumerator, with the assigned splits.
        """
        ends = plan_input.log.values()
        return (
            context.has_all_splits
            and not plan_input.has_pending
            and len(ends) == len(context.splits)
            and all(r.final and r.position == r.end for r in ends)
        )

    def stall(
        self,
        enumerator: AnyEnumerator,
        context: CoordinatorContext,
        splits: Mapping[str, SplitState],
        held_by: str | None,
    ) -> Stall:
        """Returns the state of an AvailableNow run that is not complete although its last plan moved no split.

        Args:
            enumerator: The enumerator of the source.
            context: The context with the unfinished calls of ``call_async``, which can end the stall.
            splits: The states of the splits, by split id.
            held_by: The split or the group that holds splits back by its lag; ``None`` without one.
        """
        assert self._frozen is not None
        return find_stall(
            self._source,
            enumerator,
            pending=self._pending,
            left=self._frozen.left({name: s.position for name, s in splits.items()}),
            handled=context.handled_calls(),
            held_by=held_by,
        )
