"""Plans the batches of a source that is a member of an alignment group (rules 7 and 8, see ``docs/guarantee.md``).

Before a plan, the group's least watermark is read from the table, unless it was read within the last
``update-interval``. Before it holds the source back, it is always read again. The source publishes its own watermark
before it returns the offset to Spark; the rows of the batch are read after that.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from flip27_stream.errors import AlignmentError, shortened
from flip27_stream.spark.planning.group.group_wait import GroupWait
from flip27_stream.spark.planning.micro_batch.batch_planner import PlanInput, PlannedBatch, Planner
from flip27_stream.spark.reporting.reporting_splits import Reporting
from flip27_stream.spark.source_spec import AnyEnumerator, SourceSpec
from flip27_stream.wall_clock import now_ms
from offsets.offset import AnyOffset
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import (
    Entry,
    Key,
    MemberProgress,
    resumed_progress,
    watermark_to_publish,
    who_waits,
)
from watermark_alignment.group.membership import Membership
from watermark_alignment.group.own_entry import LONGEST_BEAT_S
from watermark_alignment.options import AlignmentOptions, called
from watermark_alignment.planner import GROUP
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

log = logging.getLogger(__name__)

_SHORTEST_HORIZON_MS = 4 * int(LONGEST_BEAT_S * 1000)
"""The least time (ms) for which the log of the group is read back. Other members may have longer timeouts."""
_COMMITS_AT_ONCE = 64
"""The number of commits that are read at a time: few enough for one heartbeat, even if a store takes 1 s for each."""

_FIRST_LOOK_S = 60.0
_PAUSE_S = 0.2


class GroupPlanner:
    """Plans the batches of one member of a group (:class:`Planner`), with the watermarks of the other members.

    Args:
        spec: The source, its event time and the options of alignment.
        alignment: The alignment options of the source.
        batch_planner: Plans the batch once the least watermark of the other members is known.
        clock: Returns the query's time (ms).
        on_commit: Called after each commit to the table, with the version that the commit made.
        note: Returns the text of the note on the newest recorded batch, which entries repeat; "" before the first one.
    """

    def __init__(
        self,
        spec: SourceSpec,
        alignment: AlignmentOptions,
        batch_planner: Planner,
        clock: Callable[[], int],
        on_commit: Callable[[int], None],
        note: Callable[[], str] = str,
    ) -> None:
        self._spec = spec
        self._batch_planner = batch_planner
        self._alignment = alignment
        self._clock = clock
        self._on_commit = on_commit
        self._note = note
        self._member: Membership | None = None
        self._watermark: int | None = None
        self._progress: int | None = None
        self._is_first = True
        self._reads_first = True
        self._wait = GroupWait(alignment)
        self._others: dict[Key, MemberProgress] = {}

    def open(self, fingerprint: str, lineage: str, start: AnyOffset | None) -> None:
        """Joins the group.

        A new query publishes nothing before its first plan, because a query that fails at its start can leave a
        process behind. A run that goes on from ``start`` publishes the watermark of the former run: the other members
        must not pass this watermark, although it may take long until the splits of the run are found.
        """
        if self._member is None:
            self._member = self._membership(fingerprint, lineage)
            if start is not None:
                self._member.look()
                self._publish_former_watermark(self._member, start)

    def replay(self, start: AnyOffset | None, end: AnyOffset) -> None:
        """Joins the group before Spark runs a logged batch again, and publishes the watermark of the former run.

        The batch may take long, and the other members must not pass this watermark meanwhile.
        """
        if self._member is None:
            self._member = self._membership(end.source, end.lineage)
            self._member.look()
            self._publish_former_watermark(self._member, start)

    def _membership(self, fingerprint: str, lineage: str) -> Membership:
        alignment, reads = self._alignment, shortened(self._spec.fingerprint)
        entry = Entry(
            group=alignment.group,
            source=alignment.name_of_source(fingerprint, lineage),
            lineage=lineage,
            run=secrets.token_hex(8),
            began=now_ms(),
            definition=self._spec.definition,
            where=f"process {os.getpid()} on {socket.gethostname()}, which reads {reads}",
            timeout_ms=alignment.source_timeout_ms,
            reads=shortened(self._spec.source.reads),
            max_drift_ms=alignment.max_drift_ms,
        )
        table = SplitWatermarkTable(alignment.table, alignment.storage_options)
        horizon_ms = max(2 * alignment.source_timeout_ms, _SHORTEST_HORIZON_MS)
        group_log = GroupLog(table, alignment.group, horizon_ms, _COMMITS_AT_ONCE, self._note)
        return Membership(group_log, entry, self._clock, self._on_commit)

    def _publish_former_watermark(self, member: Membership, start: AnyOffset | None) -> None:
        """Publishes the watermark of the former run: of its last entry, or of ``start`` if that entry is too old."""
        former = member.former()
        states = start.splits.values() if start is not None else ()
        read = [split.read_max for split in states if split.read_max is not None]
        if former is None and not read:
            return
        bound, batch = self._alignment.max_out_of_orderness_ms, start.batch if start is not None else None
        self._watermark, self._progress = resumed_progress(former, read, bound, batch)
        member.announce(self._watermark, progress=self._progress)

    def close(self) -> None:
        if self._member is not None:
            self._member.leave()

    def group_advanced(self) -> bool:
        seen = self._member.others() if self._member is not None else {}
        moved, self._others = seen != self._others, seen
        return moved and self._reads_first

    def plan_batch(
        self, enumerator: AnyEnumerator, plan_input: PlanInput, reporting: Callable[[], Reporting]
    ) -> PlannedBatch:
        """Returns the next batch and publishes its watermark to the group.

        Raises:
            AlignmentError: The batch cannot be aligned; the table could not be read for 60 s; or another live source
                has the same id.
        """
        member = self._member
        assert member is not None

        def planned() -> PlannedBatch:
            floor = member.floor(self._wait.counts)
            return self._batch_planner.plan_batch(enumerator, replace(plan_input, floor=floor), reporting)

        is_fresh = self._read_first(member) or self._look(member)
        is_fresh = self._await_others(member) or is_fresh
        batch = planned()
        if _is_held(batch) and not is_fresh:
            member.look()
            batch = planned()
        self._reads_first = _is_held(batch)
        if batch.plan is None:
            if not member.has_published:  # The table could not be read when the run began.
                self._publish_former_watermark(member, plan_input.start)
            return batch
        if self._is_first:
            self._is_first, self._reads_first = False, True
            batch = (
                _empty(batch, plan_input) if _moves(batch, plan_input) and not plan_input.single else batch
            )
        elif plan_input.final and _is_held(batch) and not _moves(batch, plan_input):
            batch = self._waiting(member, batch, plan_input, planned)
        self._announce(member, batch, plan_input)
        self._check_place(member)
        holds = batch.plan is not None and batch.plan.own_watermark is not None and member.others_wait
        return replace(batch, holds_members=True) if holds else batch

    def _announce(self, member: Membership, batch: PlannedBatch, plan_input: PlanInput) -> None:
        """Publishes the watermark of this source, and the number of the last batch that moves a split."""
        assert batch.plan is not None
        self._watermark = self._watermark_of(batch, plan_input)
        if _moves(batch, plan_input):
            self._progress = _last_batch(plan_input) + 1
        member.announce(
            self._watermark,
            waiting=batch.plan.waiting,
            held_by=batch.plan.held_by,
            progress=self._progress,
            waits=who_waits(batch.plan),
        )

    def _watermark_of(self, batch: PlannedBatch, plan_input: PlanInput) -> int | None:
        """Returns the watermark (ms) to publish, without the splits that are read unaligned; they do not count."""
        assert batch.plan is not None
        aligned = batch.plan
        if batch.unaligned:
            states = {split: state for split, state in aligned.states.items() if split not in batch.unaligned}
            if not states:
                return None
            aligned = replace(aligned, states=states)
        return watermark_to_publish(
            aligned, self._watermark, has_pending=plan_input.has_pending, no_more=plan_input.no_more
        )

    def _waiting(
        self,
        member: Membership,
        batch: PlannedBatch,
        plan_input: PlanInput,
        planned: Callable[[], PlannedBatch],
    ) -> PlannedBatch:
        """Returns the batch of an AvailableNow run that only other members hold back, and that must not end yet."""
        last, slowest = _last_batch(plan_input), member.slowest(self._wait.counts)
        if slowest is not None and self._wait.gives_up(slowest, last, plan_input.now, member.readable_ms):
            self._warn_of(slowest)
            return planned()
        return replace(batch, runs_empty=self._wait.is_enough(last, slowest, member.others()))

    def _read_first(self, member: Membership) -> bool:
        """Reads the group, if this run has not read it before; returns whether it did.

        Raises:
            AlignmentError: The table could not be read for 60 s.
        """
        if member.looked_at is not None:
            return False
        deadline = time.monotonic() + _FIRST_LOOK_S
        while member.looked_at is None:
            if time.monotonic() > deadline:
                raise AlignmentError(
                    f"Group '{self._alignment.group}' could not be read from its table for {_FIRST_LOOK_S:g} s, and "
                    f"source '{called(member.entry.source, member.entry.reads)}' needs it to know how far it may read: "
                    f"{member.failure or 'there was no answer'}. Nothing is lost. Start the query again once the "
                    f"table can be read."
                )
            member.look()
            if member.looked_at is None:
                time.sleep(_PAUSE_S)
        return True

    def _await_others(self, member: Membership) -> bool:
        """Waits until each live member has an entry again, if the table was deleted just before this run found it.

        Returns whether it did. The run may read nothing meanwhile, because the members without an entry may be behind.
        """
        wait_s = member.complete_in_s
        if not wait_s:
            return False
        log.warning(
            "The table of group '%s' was created a moment ago, and members have read before: it was deleted, or is "
            "another one than theirs. Source '%s' waits for %.0f s, until all live members have written to it.",
            self._alignment.group,
            called(member.entry.source, member.entry.reads),
            wait_s,
        )
        time.sleep(wait_s)
        member.look()
        return True

    def _look(self, member: Membership) -> bool:
        """Reads the group if the last reading is too old for a plan; returns whether it did."""
        age = member.age_ms()
        if not self._reads_first and age is not None and age <= self._alignment.update_interval_ms:
            return False
        member.look()
        return True

    def _check_place(self, member: Membership) -> None:
        own, duplicate, successor = member.entry, member.duplicate(), member.successor()
        if duplicate is not None:
            raise AlignmentError(
                f"Two live sources of group '{own.group}' have the id '{own.source}': {duplicate.where} (lineage "
                f"{duplicate.lineage}), and, later, {own.where} (lineage {own.lineage}). Give each its own "
                "scan.source.id."
            )
        if successor is not None:
            raise AlignmentError(
                f"Two live processes plan for source '{called(own.source, own.reads)}' of group '{own.group}' "
                f"from one checkpoint (lineage {own.lineage}): {own.where}, and, later, {successor.where}. "
                "Stop one of the two queries. A query on a copy of a checkpoint can run beside the original only "
                "with a scan.source.id of its own."
            )

    def _warn_of(self, slowest: Entry) -> None:
        log.warning(
            "Another member of group '%s' held this AvailableNow run for longer than "
            "scan.watermark.alignment.source-timeout (%d ms) and made no progress; the run goes on without it: source "
            "'%s', %s",
            self._alignment.group,
            self._alignment.source_timeout_ms,
            called(slowest.source, slowest.reads),
            slowest.where,
        )


def _last_batch(plan_input: PlanInput) -> int:
    """Returns the number of the batch before this one; -1 if this is the first batch."""
    return plan_input.start.batch if plan_input.start is not None else -1


def _is_held(batch: PlannedBatch) -> bool:
    return batch.plan is not None and batch.plan.held_by == GROUP


def _moves(batch: PlannedBatch, plan_input: PlanInput) -> bool:
    return any(batch.ends[name] > r.position for name, r in plan_input.run.items())


def _empty(batch: PlannedBatch, plan_input: PlanInput) -> PlannedBatch:
    """Returns ``batch`` without its ranges: in the first batch of a run the source only joins the group."""
    stay = {name: r.position for name, r in plan_input.run.items()}
    return replace(batch, ends={**batch.ends, **stay}, read_max=batch.read_max_before, runs_empty=True)
