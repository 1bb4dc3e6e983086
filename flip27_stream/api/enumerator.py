"""The enumerator: finds splits, hands them out, and knows how far each can be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from flip27_stream.api.events import SourceEvent
from flip27_stream.api.limits import ReadLimits
from flip27_stream.api.metrics import MetricGroup
from flip27_stream.api.serializer import JsonValue
from flip27_stream.api.split import SplitT
from flip27_stream.api.watermark import RecordTimestampAssigner, TimestampAssigner

CheckpointT = TypeVar("CheckpointT")


@dataclass(frozen=True)
class ReaderInfo:
    """A registered reader (Flink ``ReaderInfo``)."""

    subtask_id: int
    location: str


@dataclass(frozen=True)
class SplitsAssignment(Generic[SplitT]):
    """Splits to add to readers: subtask id to new splits, incremental (Flink ``SplitsAssignment``)."""

    assignment: Mapping[int, Sequence[SplitT]]


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """What the coordinator offers an enumerator (Flink ``SplitEnumeratorContext``).

    A *reader* here is a slot: slots ``0 .. current_parallelism() - 1`` are registered for as long as the query runs,
    while the Spark tasks that do the reading live for one micro-batch.
    """

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Counters and gauges of this enumerator."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Number of reader slots; at least 1."""

    @abstractmethod
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """The readers that splits can be assigned to, by subtask id."""

    def assigned_splits(self) -> Mapping[str, SplitT]:
        """All splits that are assigned and not retired, by id; after a restart those that the offset has."""
        return {}

    @abstractmethod
    def assign_splits(self, assignment: SplitsAssignment[SplitT]) -> None:
        """Add new splits to readers; each is planned from the next micro-batch on.

        Raises:
            ValueError: a reader is not registered or was told that there are no more splits; a split id is assigned
                already, or cannot be stored: it must be text that UTF-8 can encode. A split that came back
                (:meth:`SplitEnumerator.add_splits_back`) may be assigned again.
        """

    def assign_split(self, split: SplitT, subtask_id: int) -> None:
        """Add one split to one reader; see :meth:`assign_splits`."""
        self.assign_splits(SplitsAssignment({subtask_id: [split]}))

    @abstractmethod
    def retire_splits(self, split_ids: Collection[str]) -> None:
        """Forget splits that are read to their end for ever, and processed: later offsets don't have them.

        To be called in :meth:`SplitEnumerator.notify_checkpoint_complete` or :meth:`SplitEnumerator.admit`. Makes no
        micro-batch by itself; until one is planned, a restart restores the splits. A retired split must not be assigned
        again.

        Raises:
            ValueError: a split is not assigned.
        """

    @abstractmethod
    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Say that the reader will get no further splits.

        Once all readers were told, and all splits stand at ends that are ``final``, the source is finished: it is not
        asked any more, and holds nobody. It is forgotten in a restart, and to be said again.

        Raises:
            ValueError: the reader is not registered.
        """

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Send ``event`` along with the next micro-batch's task of that reader.

        Raises:
            ValueError: the reader is not registered.
            ContractError: the payload is not JSON.
        """

    @abstractmethod
    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        """Run ``callable`` in a worker thread and its ``handler`` in the planning thread, once or periodically.

        The handler gets the value and ``None``, or ``None`` and the error. What a handler raises fails the query.
        Without ``period_ms`` the call is made once; a one-time call without a delay is waited for before the next
        micro-batch is planned, so give calls that may take long a delay, if only of 1 ms.
        """

    @abstractmethod
    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        """Run ``runnable`` in the planning thread before the next micro-batch is planned."""


@dataclass(frozen=True)
class SplitRange:
    """What can be read of a split at one moment, in positions: from ``position`` up to, not including, ``end``.

    Attributes:
        position: where to go on. It is the position that was asked about, unless the records there are gone and the
            source is configured to go on without them.
        end: first position that cannot be read.
        drained: nothing at all lies at or after ``end``; false while an open transaction hides records there.
        final: the split ends at ``end`` for ever, since the source is bounded there.
        limited: there is more behind ``end``, which only the read limits of this micro-batch keep back.
    """

    position: int
    end: int
    drained: bool = True
    final: bool = False
    limited: bool = False


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Discovers the splits of a source and assigns them to readers (FLIP-27 ``SplitEnumerator``).

    Lives in the planning process of a query. All methods run in the planning thread.
    """

    @abstractmethod
    def start(self) -> None:
        """Called once, before anything else; the place for :meth:`SplitEnumeratorContext.call_async`."""

    @abstractmethod
    def split_ranges(self, positions: Mapping[SplitT, int | None]) -> Mapping[str, SplitRange]:
        """What can be read now of each split, by split id, in one consistent look.

        Spark decides what a micro-batch reads before it reads, so the enumerator is asked for the ends that a Flink
        reader would find out by polling.

        It may block as long as the external system takes, but nothing is planned meanwhile: keep it to some seconds,
        give clients time limits, and look at many splits at the same time. For a split whose part of the system does
        not answer now, leave the split out: it stays where it is, is asked about again at the next plan, and is
        warned of after a minute. Raise only what a new look cannot mend: it fails the query.

        Args:
            positions: the next position to read of every assigned split; ``None`` for a split that was never planned,
                which begins where the source's options say.

        Returns:
            A range for each split the external system gave an answer about. A split that is left out is *unknown*: it
            is neither read nor taken for empty.

        Raises:
            DataLossError: records at a position are gone.
            ConnectorError: nobody answered.
            ContractError: raised for the enumerator, if what it answers cannot be stored in an offset: positions must
                be of type ``int``, not negative, and not behind the end.
        """

    def admit(self, limits: ReadLimits) -> None:
        """Assign what the next micro-batch may read: the place for an enumerator that keeps a backlog of splits.

        Called before each :meth:`split_ranges`, perhaps several times for one micro-batch.

        Args:
            limits: those that hold for the micro-batch; none of them under ``Trigger.Once`` and in batch reads.
        """

    def pending(self) -> int:
        """How many splits are known and not assigned yet.

        An ``AvailableNow`` run does not end while there are any, and reads the splits that are assigned meanwhile.
        """
        return 0

    def freeze(self) -> None:
        """The run that is going on reads only what the last look found (``Trigger.AvailableNow``).

        Called at most once, after the first :meth:`split_ranges`. A source can refuse to go on when a split vanishes
        under such a run, since its end will never be reached. Splits that are :meth:`pending` belong to the run; one
        with a backlog adds nothing to it any more.
        """

    def log_ends(self, looked: Mapping[str, SplitRange]) -> Mapping[str, int]:
        """Where the splits of the last :meth:`split_ranges`, ``looked``, end in the external system, by split id.

        That may be behind the ``end`` of a range, where the source is bounded; for Spark's progress.
        """
        return {split_id: r.end for split_id, r in looked.items()}

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        """``positions`` (by split id) as users of the external system write them: JSON, for Spark's progress."""
        return positions

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """A reader asks for a split, from the host that its task ran on; a source that assigns eagerly ignores it.

        There is no task, and so no request, before a split is assigned: the first must be assigned unasked, at best in
        :meth:`add_reader`.

        Not called for a reader that was told that there are no more splits.
        """

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """A reader failed that had these splits; ignored by default.

        They are in the offset with their positions and stay assigned, so nothing is lost by ignoring it: whoever runs
        next reads the very same ranges. To note another reader for them, assign them again, before the next
        :meth:`snapshot_state`.
        """

    def add_reader(self, subtask_id: int) -> None:
        """A reader was registered; called once for each slot, after :meth:`start`."""

    @abstractmethod
    def snapshot_state(self) -> CheckpointT:
        """What the offset must hold for :meth:`Source.restore_enumerator`; equal while nothing has changed.

        The offset has a split from the first :meth:`split_ranges` on that answers about it. One that was assigned but
        left out ever since is to be found again after a restart, so it must not be in here as assigned.
        """

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        """Everything before ``positions`` (by split id) has been processed by the query."""

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """A reader sent ``event``."""

    def close(self) -> None:
        """Free what the enumerator holds. Best effort: a killed process never calls it."""


@dataclass(frozen=True)
class EventTimes:
    """What is known of the event times in a :class:`SplitRange`; ``None`` means that no record there has one.

    Attributes:
        next: event time of the first record that has one.
        reach: an event time that a record in the range really has, the greatest one known.
    """

    next: int | None
    reach: int | None


@dataclass(frozen=True)
class PositioningRequest:
    """The ranges one plan is made of, and what bounds the search in them.

    Attributes:
        ranges: by split id; only ranges with ``position < end``, or empty ones behind which there is more that the
            limits of the micro-batch keep back (``limited``): of these only the next event time is wanted.
        latest_plausible: event times after this (ms) are treated as if the record had none; ``None`` for no bound.
        budget: no more than so many records of a split can be read in this micro-batch; ``None`` for no limit.
        timestamp_assigner: how the query finds event time in rows of the source's schema.
        max_out_of_orderness_ms: how far (ms) event times fall back within a split.
    """

    ranges: Mapping[str, SplitRange] = field(default_factory=dict)
    latest_plausible: int | None = None
    budget: int | None = None
    timestamp_assigner: TimestampAssigner = field(default_factory=RecordTimestampAssigner)
    max_out_of_orderness_ms: int = 0


class EventTimePositions(ABC):
    """Positions by event time, within the ranges of one plan. A connector's answer to "where is the horizon?"."""

    @abstractmethod
    def event_times(self) -> Mapping[str, EventTimes]:
        """First and greatest event time per split. A split that is left out is unknown for this plan."""

    @abstractmethod
    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        """For each split of :meth:`event_times` the position up to which it may be read, and the rows until there.

        No record before that position has an event time >= ``event_time``; the record at it has one, or it is the end
        of the range, or as far away as the budget reaches, or as far as it could be proven before a leader fell
        silent. Both numbers never fall as ``event_time`` grows.
        """

    def least_to_come(self) -> int | None:
        """Least event time (ms) in splits that are :meth:`~SplitEnumerator.pending`; ``None`` if none is known.

        It holds the assigned splits as the front of one of them does: they are read up to this and the allowed drift.
        """
        return None


class SupportsEventTimePositions(ABC):
    """An enumerator whose splits can be cut by event time: the ability that split-level alignment needs."""

    @abstractmethod
    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        """A view of the ranges in ``request`` by event time, valid for one plan."""


class SupportsEndPosition(ABC):
    """An enumerator of a bounded source that can tell where another source has to go on (FLIP-150)."""

    @abstractmethod
    def end_position(self) -> JsonValue:
        """Where this source ends, as the next one understands it; asked when all its splits are processed."""
