"""The enumerator of a hybrid source. It delegates to the enumerator of one source, and switches to the next one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flip27_stream.api import (
    EventTimePositions,
    JsonValue,
    PositioningRequest,
    ReadLimits,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SupportsEndPosition,
    SupportsEventTimePositions,
    TimestampAssigner,
)
from flip27_stream.connectors.hybrid.child_context import ChildContext, untagged
from flip27_stream.connectors.hybrid.planning.enumerator_state import HybridEnumeratorState
from flip27_stream.connectors.hybrid.planning.event_times import HybridEventTimePositions, NothingToRead
from flip27_stream.connectors.hybrid.planning.source_end import SourceEnd, SourceEndRecorder
from flip27_stream.connectors.hybrid.planning.start_positions import (
    check_templates,
    moved,
    replaced_logs,
    start_positions,
)
from flip27_stream.connectors.hybrid.planning.tail import read_again
from flip27_stream.connectors.hybrid.seam.exact_seam import SourceRangesRead
from flip27_stream.connectors.hybrid.seam.overlap import Intervals
from flip27_stream.connectors.hybrid.source_list import ActiveSource, SourceList
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, split_id
from flip27_stream.errors import AlignmentError, ForeignCheckpointError, OptionError
from flip27_stream.wall_clock import now_ms

log = logging.getLogger(__name__)

_MAX_FUTURE_MS = 3_600_000
"""An event time that is more than this time (ms) after the clock is implausible (default of
``scan.watermark.max-future``).
"""


class HybridSourceSplitEnumerator(
    SplitEnumerator[HybridSourceSplit, HybridEnumeratorState], SupportsEventTimePositions
):
    """The enumerator of a hybrid source (Flink ``HybridSourceSplitEnumerator``).

    Life cycle:

    1. :meth:`start` creates the enumerator of the first source, or restores the one that the checkpoint names.
    2. All calls are delegated to that enumerator. The ids of its splits get the index of their source as a prefix.
    3. :meth:`admit` checks whether the source is finished: no split will be found or is pending, and each split is
       processed up to its final end, by the offset from which the plan starts.
    4. If it is finished, the same plan switches: the factory of the next source gets the end position, the splits that
       were read are retired, and the next enumerator is started and assigns its splits. The offset of that plan has all
       of these splits with their start positions, and the end position. So a restart does not read the first source.
    5. If the process ends before that offset is logged, the next process finds the source finished and switches again.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSourceSplit],
        sources: SourceList,
        checkpoint: HybridEnumeratorState | None = None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._checkpoint = checkpoint
        self._limits = ReadLimits()
        self._processed: Mapping[str, int] = {}
        self._ends: dict[str, SplitRange] = {}
        self._frozen = self._child_frozen = False
        self._restored = checkpoint is not None
        self._replaced = set() if checkpoint is None else set(checkpoint.replaced)
        self._snapshot: tuple[Any, JsonValue] | None = None

    def start(self) -> None:
        c = self._checkpoint
        active = self._sources.active(0) if c is None else self._sources.active(c.index, c.end_position)
        self._open(active, c.source_end if c else None, c.known_of_new_splits if c else {}, at_once=False)
        if c is None:
            self._child = active.source.create_enumerator(self._child_context)
        else:
            if not active.source.accepts_checkpoint_of(c.source):
                raise ForeignCheckpointError(
                    f"{active.name} was {c.source!r} when the checkpoint was written; its factory now makes "
                    f"{active.source.fingerprint!r}. Use another checkpointLocation, or the factory that it was "
                    "written with."
                )
            state = active.source.enumerator_checkpoint_serializer.deserialize(c.version, c.data)
            self._child = active.source.restore_enumerator(self._child_context, state)
        self._child.start()
        self._tell_event_time()

    def add_reader(self, subtask_id: int) -> None:
        self._child.add_reader(subtask_id)

    def admit(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._admit()
        if self._restored and not self._active.is_last:
            # The offset does not tell whether the source was finished when the last process ended. A run with
            # Trigger.Once has only this plan.
            self._ends = dict(self._child.split_ranges(self._child_context.positions(self._processed)))
        self._restored = False
        while not self._active.is_last and self._is_finished():
            self._switch()
        self._check_templates()

    def pending(self) -> int:
        """Returns the number of pending splits, plus one for each source after the active one."""
        return self._child.pending() + len(self._sources.entries) - 1 - self._active.index

    def split_ranges(self, positions: Mapping[HybridSourceSplit, int | None]) -> Mapping[str, SplitRange]:
        ranges = self._child.split_ranges({split.split: p for split, p in positions.items()})
        begins = start_positions(
            positions, ranges, is_exact=self._sources.entries[self._active.index].seam is not None
        )
        if begins:
            child_positions = {
                split.split: begins.get(split.serialized.id, p) for split, p in positions.items()
            }
            ranges = {**moved(ranges, begins), **self._child.split_ranges(child_positions)}
        self._replaced |= replaced_logs(positions, ranges)
        self._ends = dict(ranges)
        if not self._active.is_last:
            self._end.record_ranges(positions, ranges)
            if self._active.event_time is not None:
                self._look_at_event_times(self._active.event_time, ranges)
        if self._frozen and not self._child_frozen:
            self._child.freeze()
            self._child_frozen = True
        return {split_id(self._active.index, name): r for name, r in ranges.items()}

    def freeze(self) -> None:
        """Freezes the active enumerator. Each later one is frozen after its first call of ``split_ranges``."""
        self._frozen = self._child_frozen = True
        self._child.freeze()

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        """Returns the positions of the active source by event time.

        Raises:
            AlignmentError: The enumerator of the active source does not support positions by event time.
        """
        if not isinstance(self._child, SupportsEventTimePositions):
            raise AlignmentError(
                f"{self._active.name} ({self._active.source.fingerprint}) cannot be cut by event time, so it cannot be "
                "aligned. Read it without scan.watermark.alignment.group."
            )
        ranges = self._of_child(request.ranges)
        if not ranges and not self._child.pending():
            return NothingToRead()
        mine = replace(
            request, ranges=ranges, timestamp_assigner=self._active.assigner(request.timestamp_assigner)
        )
        positions = self._child.event_time_positions(mine)
        if ranges and not positions.event_times():
            positions = self._child.event_time_positions(mine)  # The splits are now in that order.
        return HybridEventTimePositions(
            positions,
            self._active.index,
            lambda times: None if self._active.is_last else self._end.record_aligned_plan(ranges, times),
        )

    def positions_after(self, rows: Mapping[str, int]) -> Mapping[str, int] | None:
        found = self._child.positions_after(self._of_child(rows))
        return None if found is None else {split_id(self._active.index, name): p for name, p in found.items()}

    def log_ends(self, ranges: Mapping[str, SplitRange]) -> Mapping[str, int]:
        ends = self._child.log_ends(self._of_child(ranges))
        return {split_id(self._active.index, name): end for name, end in ends.items()}

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        return self._child.describe_positions(self._of_child(positions))

    def snapshot_state(self) -> HybridEnumeratorState:
        source, state = self._active.source, self._child.snapshot_state()
        serializer = source.enumerator_checkpoint_serializer
        if self._snapshot is None or self._snapshot[0] != state:
            self._snapshot = state, serializer.serialize(state)
        source_end = SourceEnd() if self._active.is_last else self._end.end()
        self._check_end(source_end)
        return HybridEnumeratorState(
            index=self._active.index,
            version=serializer.version,
            data=self._snapshot[1],
            source=source.fingerprint,
            end_position=self._active.end_position,
            source_end=source_end,
            known={**self._known_of_new_splits(), **dict.fromkeys(self._replaced, ())},
        )

    def _check_end(self, source_end: SourceEnd) -> None:
        """Checks, before an offset is logged, that the end will be known if the factory of the next source needs it."""
        needs_end = source_end.blind and self._sources.needs_end_of(self._active.index)
        if needs_end and not isinstance(self._child, SupportsEndPosition):
            raise OptionError(self._reason_of_unknown_end(is_logged=self._was_blind))

    def _known_of_new_splits(self) -> dict[str, Intervals]:
        """Returns the known positions of splits that are in no offset, not even in the one being planned.

        A restart creates these splits again, so the checkpoint must have the positions.
        """
        new = self._child_context.known
        return {name: known for name, known in new.items() if name not in self._ends}

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self._processed = self._of_child(positions)
        for name in self._processed.keys() & self._child_context.known.keys():
            del self._child_context.known[name]
        self._child.notify_checkpoint_complete(self._processed)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self._child.handle_split_request(subtask_id, requester_hostname)

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Handles an event of a reader. Events from readers of earlier sources are ignored."""
        if (read := SourceRangesRead.of(event)) is not None:
            if read.index == self._active.index:
                self._end.record_report(read)
        elif (own := untagged(event, self._active.index)) is not None:
            self._child.handle_source_event(subtask_id, own)

    def add_splits_back(self, splits: Sequence[HybridSourceSplit], subtask_id: int) -> None:
        mine = [split.split for split in splits if split.index == self._active.index]
        if mine:
            self._child.add_splits_back(mine, subtask_id)

    def close(self) -> None:
        if (child := getattr(self, "_child", None)) is not None:
            child.close()

    def _open(
        self,
        active: ActiveSource,
        source_end: SourceEnd | None,
        known: Mapping[str, Intervals],
        *,
        at_once: bool,
    ) -> None:
        overlap = self._sources.overlap_after(active.index)
        overlap_ms, seam = overlap.ms if overlap else None, active.seam
        self._active = active
        self._child_context = ChildContext(self._context, active, known, at_once=at_once)
        if source_end is None:
            source_end = SourceEnd(ends=None if seam is None else {}, overlap_ms=overlap_ms, seam=seam)
        else:
            has_splits = self._child_context.has_splits
            source_end = source_end.continued(active.name, overlap_ms, seam, has_splits=has_splits)
        self._end = SourceEndRecorder(source_end)
        self._was_blind = source_end.blind
        self._are_ids_new = bool(known) and not self._child_context.has_splits
        self._ends, self._processed = {}, {}
        self._snapshot = None

    def _admit(self) -> None:
        """Admits splits with the limits of the active source, and with the row limit of the whole query."""
        if self._limits == ReadLimits():
            self._child.admit(self._limits)
        else:
            self._child.admit(replace(self._active.source.read_limits, max_rows=self._limits.max_rows))

    def _check_templates(self) -> None:
        """Checks the ids of splits that the seam gives, once all splits of the active source are assigned."""
        entry = self._sources.entries[self._active.index]
        rule = entry.seam or entry.overlap
        if self._are_ids_new and rule and self._child_context.has_splits and not self._child.pending():
            check_templates(rule, self._child_context.known, self._child_context.assigned_splits())
            self._are_ids_new = False

    def _tell_event_time(self) -> None:
        """Passes the event-time column to the active source, which assigns its splits in the order of this column."""
        if self._active.event_time is not None and isinstance(self._child, SupportsEventTimePositions):
            request = PositioningRequest(timestamp_assigner=self._active.event_time)
            self._child.event_time_positions(request)

    def _look_at_event_times(self, assigner: TimestampAssigner, ranges: Mapping[str, SplitRange]) -> None:
        """Reads the event times of ranges as alignment does, to find the end position of the source."""
        unseen = self._end.unseen(ranges)
        if unseen and isinstance(self._child, SupportsEventTimePositions):
            plausible_until = now_ms() + _MAX_FUTURE_MS
            request = PositioningRequest(unseen, plausible_until=plausible_until, timestamp_assigner=assigner)
            self._end.record_event_times(unseen, self._child.event_time_positions(request).event_times())

    def _is_finished(self) -> bool:
        """Returns whether all splits of the active source are processed and no more will be found."""
        if not self._child_context.is_discovered or self._child.pending():
            return False
        return all(self._is_read(name) for name in self._child_context.assigned_splits())

    def _is_read(self, name: str) -> bool:
        r, position = self._ends.get(name), self._processed.get(name)
        return r is not None and position is not None and r.final and not r.limited and position >= r.end

    def _switch(self) -> None:
        """Switches to the next source. The end position is read before the enumerator of this source is closed."""
        before, child = self._active, self._child
        end, unknown = self._end_position()
        known = self._known_to(before)
        active = self._sources.active(before.index + 1, end, child, unknown)
        source = active.source
        if end == before.end_position and unknown is None:
            log.warning(
                "No row with a later event time was found in source %d of the hybrid source (%s), so the end position "
                "stays %r; the next source is %s",
                before.index,
                before.source.fingerprint,
                end,
                source.fingerprint,
            )
        else:
            log.info(
                "Source %d of the hybrid source is read, up to %r; the next source is %s",
                before.index,
                end,
                source.fingerprint,
            )
        self._child_context.close()
        child.close()
        self._replaced = set()
        self._open(active, None, known, at_once=True)
        self._child = source.create_enumerator(self._child_context)
        self._child_frozen = False
        self._child.start()
        self._tell_event_time()
        for subtask in self._context.registered_readers():
            self._child.add_reader(subtask)
        self._child_context.run_queued()
        self._admit()

    def _known_to(self, active: ActiveSource) -> dict[str, Intervals]:
        """Returns the positions of the next source whose rows ``active`` has, by split.

        These are the positions in the overlap; at an exact seam, all positions up to the seam.
        """
        overlap, source_end = self._sources.overlap_after(active.index), self._end.end()
        rows = read_again(active, source_end.tail.values(), self._child.snapshot_state())
        if active.seam is not None:
            known = active.seam.positions_before(source_end.ends or {}, rows)
        else:
            known = overlap.positions(rows) if overlap else {}
        if not known and (active.seam or overlap):
            log.warning(
                "No row of source %d of the hybrid source (%s) has a position in the next source, so each split of "
                "that source begins where the source itself says. Rows that sources before it have, too, come twice",
                active.index,
                active.source.fingerprint,
            )
        return known

    def _end_position(self) -> tuple[JsonValue, str | None]:
        """Returns the end position up to which the sources are read, and the reason if it is unknown, or ``None``.

        If the active source has no end, or an earlier one than the source before it, the end of that one stays.
        Otherwise the next source would read the rows of that one again.
        """
        before = self._active.end_position
        if isinstance(self._child, SupportsEndPosition):
            end = self._child.end_position()
            return before if end is None else end, None
        source_end = self._end.end()
        if not source_end.blind:
            end = source_end.greatest
            earlier = end is None or (type(before) is int and before > end)
            return before if earlier else end, None
        return None, self._reason_of_unknown_end(is_logged=True)

    def _reason_of_unknown_end(self, *, is_logged: bool) -> str:
        """Returns why the end is unknown. If an offset with unchecked rows is logged, its checkpoint cannot be used."""
        read, restart = "would be", ""
        if is_logged:
            read, restart = (
                "was",
                ", and start with another checkpointLocation, because rows were already read",
            )
        return (
            f"{self._active.name} ({self._active.source.fingerprint}) {read} read without checking its event times, so "
            "its end is not known. Name the column of event time (event_time) when it is added, or read with "
            f"option scan.watermark.alignment.group{restart}."
        )

    def _of_child(self, by_id: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of ``by_id`` that belong to splits of the active source, by their ids in that source."""
        prefix = split_id(self._active.index, "")
        return {name[len(prefix) :]: value for name, value in by_id.items() if name.startswith(prefix)}
