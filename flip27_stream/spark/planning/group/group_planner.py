"""Plans the batches of a source that is a member of a group: rules 7 and 8 of alignment, see ``docs/guarantee.md``.

The group's least watermark is read before a plan is made, at most ``update-interval`` old, and anew where it would
hold the source back. What the source itself holds the others to is in the table before the plan is answered, while
the rows of the batch are there to be read only after it.
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
from flip27_stream.spark.planning.batch_planner import BatchPlanner, PlanInput, PlannedBatch
from flip27_stream.spark.planning.group.group_wait import GroupWait
from flip27_stream.spark.planning.query_clock import wall_clock
from flip27_stream.spark.planning.split_tracker import SplitTracker
from flip27_stream.spark.reporting.reporting_splits import Reporting
from flip27_stream.spark.source_spec import AnyEnumerator, AnyOffset, SourceSpec
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry, Key, Mark, watermark_to_publish, where_it_stood
from watermark_alignment.group.membership import LONGEST_BEAT_S, Membership
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.planner import GROUP
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

log = logging.getLogger(__name__)

_SHORTEST_HORIZON_MS = 4 * int(LONGEST_BEAT_S * 1000)
"""The timeouts of others may be longer than the own one, and their beats as far apart as beats can be."""
_COMMITS_AT_ONCE = 64
"""So many are read, many at a time, in less than a beat of a member even where a store takes a second for each."""

_FIRST_LOOK_S = 60.0
_PAUSE_S = 0.2


class GroupPlanner(BatchPlanner):
    """Plans the batches of one member.

    Args:
        job: what is planned.
        alignment: its options.
        split_tracker: what is known of its splits.
        clock: of the query (ms).
        on_commit: called with the version of the table that each commit made.
    """

    def __init__(
        self,
        spec: SourceSpec,
        alignment: AlignmentOptions,
        split_tracker: SplitTracker,
        clock: Callable[[], int],
        on_commit: Callable[[int], None],
    ) -> None:
        super().__init__(spec, split_tracker)
        self._alignment = alignment
        self._clock = clock
        self._on_commit = on_commit
        self._member: Membership | None = None
        self._watermark: int | None = None
        self._progress: int | None = None
        self._is_first = True
        self._looks_first = True
        self._wait = GroupWait(alignment)
        self._others: dict[Key, Mark] = {}

    def open(self, fingerprint: str, lineage: str, start: AnyOffset | None) -> None:
        """Nothing is said to the group before there is a plan: a query that fails as it starts may leave a process.

        But a run that goes on from ``start`` says where the former run stood. It may be long before its splits are
        found and their leaders answer, and the others are not to pass it meanwhile.
        """
        if self._member is None:
            self._member = self._membership(fingerprint, lineage)
            if start is not None:
                self._member.look()
                self._stand_where_the_former_run_stood(self._member, start)

    def replays(self, start: AnyOffset | None, end: AnyOffset) -> None:
        """The former run stood before this batch, which may take long to run again."""
        if self._member is None:
            self._member = self._membership(end.source, end.lineage)
            self._member.look()
            self._stand_where_the_former_run_stood(self._member, start)

    def _membership(self, fingerprint: str, lineage: str) -> Membership:
        alignment, reads = self._alignment, shortened(self._spec.fingerprint)
        entry = Entry(
            group=alignment.group,
            source=alignment.name_of_source(fingerprint, lineage),
            lineage=lineage,
            run=secrets.token_hex(8),
            began=wall_clock(),
            definition=self._spec.definition,
            where=f"process {os.getpid()} on {socket.gethostname()}, which reads {reads}",
            timeout_ms=alignment.source_timeout_ms,
        )
        table = SplitWatermarkTable(alignment.table, alignment.storage_options)
        horizon_ms = max(2 * alignment.source_timeout_ms, _SHORTEST_HORIZON_MS)
        meeting = GroupLog(table, alignment.group, horizon_ms, _COMMITS_AT_ONCE)
        return Membership(meeting, entry, self._clock, self._on_commit)

    def _stand_where_the_former_run_stood(self, member: Membership, start: AnyOffset | None) -> None:
        """By its last entry; by the offset, which tells what was read, if that entry is too old to be found."""
        former = member.former()
        states = start.splits.values() if start is not None else ()
        read = [split.read_max for split in states if split.read_max is not None]
        if former is None and not read:
            return
        bound, batch = self._alignment.max_out_of_orderness_ms, start.batch if start is not None else None
        self._watermark, self._progress = where_it_stood(former, read, bound, batch)
        member.announce(self._watermark, progress=self._progress)

    def close(self) -> None:
        if self._member is not None:
            self._member.leave()

    def others_moved(self) -> bool:
        seen = self._member.others() if self._member is not None else {}
        moved, self._others = seen != self._others, seen
        return moved and self._looks_first

    def draft(
        self, enumerator: AnyEnumerator, snapshot: PlanInput, reporting: Callable[[], Reporting]
    ) -> PlannedBatch:
        """As :meth:`BatchPlanner.draft`; publishes what the plan says to the others.

        Raises:
            AlignmentError: also where another live source has the same id.
        """
        member = self._member
        assert member is not None

        def planned() -> PlannedBatch:
            floor = member.floor(self._wait.heeds)
            return super(GroupPlanner, self).draft(enumerator, replace(snapshot, floor=floor), reporting)

        is_fresh = self._see_first(member) or self._look(member)
        draft = planned()
        if _is_held(draft) and not is_fresh:
            member.look()
            draft = planned()
        self._looks_first = _is_held(draft)
        if draft.plan is None:
            if not member.has_spoken:  # when the run began, the table could not be read
                self._stand_where_the_former_run_stood(member, snapshot.start)
            return draft
        if self._is_first:
            self._is_first, self._looks_first = False, True
            draft = _empty(draft, snapshot) if _moves(draft, snapshot) and not snapshot.single else draft
        elif snapshot.final and _is_held(draft) and not _moves(draft, snapshot):
            draft = self._waiting(member, draft, snapshot, planned)
        self._announce(member, draft, snapshot)
        self._check_place(member)
        return draft

    def _announce(self, member: Membership, draft: PlannedBatch, snapshot: PlanInput) -> None:
        """Tell the group where this source stands, and which batch moves it."""
        assert draft.plan is not None
        self._watermark = self._watermark_of(draft, snapshot)
        if _moves(draft, snapshot):
            self._progress = _last_batch(snapshot) + 1
        member.announce(
            self._watermark,
            waiting=draft.plan.waiting,
            held_by=draft.plan.held_by,
            progress=self._progress,
        )

    def _watermark_of(self, draft: PlannedBatch, snapshot: PlanInput) -> int | None:
        """Splits that run unaligned count for nobody: what was said while they were aligned is no longer so."""
        assert draft.plan is not None
        states = {split: state for split, state in draft.plan.states.items() if split not in draft.unaligned}
        if draft.unaligned and not states:
            return None
        aligned = replace(draft.plan, states=states)
        return watermark_to_publish(
            aligned, self._watermark, has_pending=snapshot.has_pending, no_more=snapshot.no_more
        )

    def _waiting(
        self,
        member: Membership,
        draft: PlannedBatch,
        snapshot: PlanInput,
        planned: Callable[[], PlannedBatch],
    ) -> PlannedBatch:
        """Nothing but other members holds an AvailableNow run, which is not to end before its end."""
        batch, slowest = _last_batch(snapshot), member.slowest(self._wait.heeds)
        if slowest is not None and self._wait.gives_up(slowest, batch, snapshot.now, member.listened_ms):
            self._warn_of(slowest)
            return planned()
        return replace(draft, runs_empty=self._wait.is_enough(batch, slowest, member.others()))

    def _see_first(self, member: Membership) -> bool:
        """See that the group was read once by this run, which would pass the others otherwise; whether it was just now.

        Raises:
            AlignmentError: the table could not be read for a minute.
        """
        if member.looked_at is not None:
            return False
        deadline = time.monotonic() + _FIRST_LOOK_S
        while member.looked_at is None:
            if time.monotonic() > deadline:
                raise AlignmentError(
                    f"Group '{self._alignment.group}' could not be read from its table for {_FIRST_LOOK_S:g} s, and "
                    f"without it source '{member.entry.source}' does not know how far it may read: "
                    f"{member.failure or 'there was no answer'}. Nothing is lost. Start the query again once the table "
                    f"can be read."
                )
            member.look()
            if member.looked_at is None:
                time.sleep(_PAUSE_S)
        return True

    def _look(self, member: Membership) -> bool:
        """See that the group is known as well as it must be; whether it was read for this plan."""
        age = member.age_ms()
        if not self._looks_first and age is not None and age <= self._alignment.update_interval_ms:
            return False
        member.look()
        return True

    def _check_place(self, member: Membership) -> None:
        own, rival, successor = member.entry, member.rival(), member.successor()
        if rival is not None:
            raise AlignmentError(
                f"Two live sources of group '{own.group}' have the id '{own.source}': {rival.where} (lineage "
                f"{rival.lineage}), and, later, {own.where} (lineage {own.lineage}). Give each its own scan.source.id."
            )
        if successor is not None:
            raise AlignmentError(
                f"Two live processes plan for source '{own.source}' of group '{own.group}' from one checkpoint "
                f"(lineage {own.lineage}): {own.where}, and, later, {successor.where}. Stop one of the two queries; a "
                "copy of a checkpoint cannot be used beside it."
            )

    def _warn_of(self, slowest: Entry) -> None:
        log.warning(
            "an AvailableNow run was held by another member of group '%s' for longer than "
            "scan.watermark.alignment.source-timeout (%d ms), in which that made no progress, and goes on without it: "
            "source '%s', %s",
            self._alignment.group,
            self._alignment.source_timeout_ms,
            slowest.source,
            slowest.where,
        )


def _last_batch(snapshot: PlanInput) -> int:
    """The number of the batch before this one; -1 if it is the first."""
    return snapshot.start.batch if snapshot.start is not None else -1


def _is_held(draft: PlannedBatch) -> bool:
    return draft.plan is not None and draft.plan.held_by == GROUP


def _moves(draft: PlannedBatch, snapshot: PlanInput) -> bool:
    return any(draft.ends[name] > r.position for name, r in snapshot.run.items())


def _empty(draft: PlannedBatch, snapshot: PlanInput) -> PlannedBatch:
    """The first batch of a run: the group is to know of the source before any row of it is there."""
    stay = {name: r.position for name, r in snapshot.run.items()}
    return replace(draft, ends={**draft.ends, **stay}, read_max=draft.read_max_before, runs_empty=True)
