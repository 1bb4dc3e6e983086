"""The enumerator: finds splits, assigns them, and knows how far each can be read."""

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
    """A registered reader (Flink ``ReaderInfo``).

    Attributes:
        subtask_id: The number of the reader slot.
        location: The host of the last task that ran as this reader; at first the host of the driver.
    """

    subtask_id: int
    location: str


@dataclass(frozen=True)
class SplitsAssignment(Generic[SplitT]):
    """New splits for readers (Flink ``SplitsAssignment``).

    Attributes:
        assignment: The new splits, by subtask id of the reader.
    """

    assignment: Mapping[int, Sequence[SplitT]]


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """What the coordinator offers an enumerator (Flink ``SplitEnumeratorContext``).

    A *reader* here is a slot. Slots ``0 .. current_parallelism() - 1`` stay registered while the query runs; the Spark
    tasks that read live for one micro-batch.
    """

    @abstractmethod
    def metric_group(self) -> MetricGroup:
        """Returns the counters of this enumerator; see :class:`MetricGroup`."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Returns the number of reader slots; at least 1."""

    @abstractmethod
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Returns the readers that splits can be assigned to, by subtask id."""

    def assigned_splits(self) -> Mapping[str, SplitT]:
        """Returns the splits that are assigned and not retired, by id; after a restart, the splits in the offset."""
        return {}

    @abstractmethod
    def assign_splits(self, assignment: SplitsAssignment[SplitT]) -> None:
        """Assigns new splits to readers. Each split is planned from the next micro-batch on.

        A split that came back (:meth:`SplitEnumerator.add_splits_back`) may be assigned again.

        Raises:
            ValueError: A reader is not registered, or was told that no more splits will come; or a split id is already
                assigned, or is not text that UTF-8 can encode.
        """

    def assign_split(self, split: SplitT, subtask_id: int) -> None:
        """Assigns one split to one reader; see :meth:`assign_splits`."""
        self.assign_splits(SplitsAssignment({subtask_id: [split]}))

    @abstractmethod
    def retire_splits(self, split_ids: Collection[str]) -> None:
        """Removes splits that have ended and were processed; later offsets do not have them.

        Call it in :meth:`SplitEnumerator.notify_checkpoint_complete` or :meth:`SplitEnumerator.admit`. It does not
        cause a micro-batch; until one is planned, a restart restores the splits. A retired split must not be assigned
        again.

        Raises:
            ValueError: A split is not assigned.
        """

    @abstractmethod
    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Tells a reader that no more splits will come.

        Once all readers were told, and the positions of all splits are at ends that are ``final``, the source is
        finished: the enumerator is not called any more, and its splits hold back no other split. A restart forgets
        this, so call it again then.

        Raises:
            ValueError: The reader is not registered.
        """

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Sends ``event`` with the task that runs as that reader in the next micro-batch.

        Raises:
            ValueError: The reader is not registered.
            ContractError: The payload is not JSON.
        """

    @abstractmethod
    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        """Runs ``callable`` in a thread of its own and then ``handler`` in the planning thread, once or periodically.

        An error of the handler fails the query. The next plan waits for a one-time call without a delay; give a call
        that may take long a delay, for example of 1 ms.

        Args:
            callable: The function to run.
            handler: Called with the result and ``None``, or with ``None`` and the error.
            initial_delay_ms: The time (ms) before the first call; ``None`` for no delay.
            period_ms: The time (ms) between two calls; ``None`` for one call only.
        """

    @abstractmethod
    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        """Runs ``runnable`` in the planning thread, before the next micro-batch is planned."""


@dataclass(slots=True, unsafe_hash=True)
class SplitRange:
    """The positions of a split that can be read at one moment: from ``position`` up to, not including, ``end``.

    Do not change a range; ``dataclasses.replace`` returns another one. For speed, the class is not frozen: a plan
    creates a range for each split, and creating a frozen object takes five times as long.

    Attributes:
        position: The next position to read. It is the requested position, or that of the first record after it. The
            positions in between have no records, or lost records that the source is configured to skip.
        end: The first position that cannot be read.
        drained: Whether there are no records at or after ``end``; false while an open transaction hides records there.
        final: Whether no record will come at or after ``end``: the source is bounded there, or the split is gone.
        limited: Whether there are more records after ``end``, which only the read limits of this micro-batch exclude.
        rows: The estimated number of rows in the range, if positions do not count rows. ``None`` if they do: the
            number is ``end - position``. See :meth:`SplitEnumerator.positions_after`.
    """

    position: int
    end: int
    drained: bool = True
    final: bool = False
    limited: bool = False
    rows: int | None = None

    @property
    def cost(self) -> int:
        """The number of rows that the range counts against a row limit; at least 1 if the range is not empty."""
        if self.position == self.end:
            return 0
        return self.end - self.position if self.rows is None else max(self.rows, 1)


class SplitEnumerator(ABC, Generic[SplitT, CheckpointT]):
    """Discovers the splits of a source and assigns them to readers (FLIP-27 ``SplitEnumerator``).

    It lives in the planning process of a query. All methods are called in the planning thread.
    """

    @abstractmethod
    def start(self) -> None:
        """Called once, before all other methods. Start calls here with :meth:`SplitEnumeratorContext.call_async`."""

    @abstractmethod
    def split_ranges(self, positions: Mapping[SplitT, int | None]) -> Mapping[str, SplitRange]:
        """Returns the range of each split that can be read now, as the external system is at one moment.

        Spark fixes the ranges of a micro-batch before tasks read them. So the enumerator must find the ends that a
        Flink reader finds by polling.

        The call may block while the external system answers, but nothing is planned meanwhile: keep it to some
        seconds, give clients time limits, and ask about many splits at the same time.

        If the part of the system that has a split does not answer now, leave that split out. It keeps its position,
        the next plan asks about it again, and a warning is logged after a minute. If nothing answers, raise an
        ``OSError``, such as ``TimeoutError``, ``ConnectionError`` or the errors of ``urllib`` and ``requests``: the
        next plan calls this method again, and the query fails if all calls have failed for 60 seconds. Any other
        error fails the query at once; so do ``FileNotFoundError`` and ``PermissionError``.

        Args:
            positions: The next position to read of every assigned split; ``None`` for a split that was never planned,
                which begins where the options of the source say.

        Returns:
            A range for each split that the external system answered about, by split id. A split without a range is
            *unknown*: it is not read, and it is not empty either.

        Raises:
            DataLossError: Records at a position are lost.
            OSError: The external system did not answer now.
            ConnectorError: The external system refused the request, and another call would not change that.
            ContractError: Raised by the caller if a range cannot be stored in an offset: positions must be of type
                ``int``, not negative, and not greater than the end.
        """

    def admit(self, limits: ReadLimits) -> None:
        """Assigns the splits that the next micro-batch may read, if the enumerator keeps a backlog of splits.

        Called before each :meth:`split_ranges`, perhaps several times for one micro-batch.

        Args:
            limits: The read limits of the micro-batch; no limits under ``Trigger.Once`` and in batch reads.
        """

    def pending(self) -> int:
        """Returns how many splits are known and not assigned yet.

        An ``AvailableNow`` run does not end while there are such splits, and reads those that are assigned meanwhile.
        """
        return 0

    def freeze(self) -> None:
        """Called when this run reads only up to the ends of the last :meth:`split_ranges` (``Trigger.AvailableNow``).

        Called at most once, after the first :meth:`split_ranges`. A source can raise an error when a split vanishes in
        such a run, because its end can never be reached. Splits that are :meth:`pending` belong to the run; an
        enumerator with a backlog must not add further splits to it.
        """

    def positions_after(self, rows: Mapping[str, int]) -> Mapping[str, int] | None:
        """Returns the positions after given numbers of rows in the ranges of the last :meth:`split_ranges`.

        Override it in a source whose positions do not count rows, such as the sequence numbers of Kinesis. The ranges
        of such a source have estimates in :attr:`SplitRange.rows`, and are cut only at positions that this method or
        :meth:`EventTimePositions.first_at_or_after` returns. Limits of rows are kept by the estimates, so a micro-batch
        may have more rows than its limit if they are wrong. The ranges are exact in either case.

        Args:
            rows: The number of rows to read of each split, by split id; each is greater than 0.

        Returns:
            A position for each split in ``rows``, by split id. About as many rows as requested are before it, at least
            one, and it is not after the end of the range. By default, for positions that count rows, the result is
            ``None``, also if ``rows`` is empty.
        """
        return None

    def log_ends(self, ranges: Mapping[str, SplitRange]) -> Mapping[str, int]:
        """Returns the log ends of splits in the external system, by split id, for Spark's progress.

        In a bounded source a log end may be after the ``end`` of the range.

        Args:
            ranges: The last result of :meth:`split_ranges`.
        """
        return {split_id: r.end for split_id, r in ranges.items()}

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns ``positions`` (by split id) as JSON in the form that users know, for Spark's progress."""
        return positions

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Called when a reader has requested a split. An enumerator that assigns splits by itself ignores it.

        No task runs before a split is assigned, so the first splits must be assigned without a request, for example in
        :meth:`add_reader`. Not called for a reader that was told that no more splits will come.

        Args:
            subtask_id: The reader.
            requester_hostname: The host that its task ran on.
        """

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Called when a reader that had these splits has failed; does nothing by default.

        The splits stay assigned and are in the offset with their positions, so no data is lost: the next attempt reads
        the same ranges. To assign them to another reader, call ``assign_splits`` before the next
        :meth:`snapshot_state`.
        """

    def add_reader(self, subtask_id: int) -> None:
        """Called once for each reader slot, after :meth:`start`."""

    @abstractmethod
    def snapshot_state(self) -> CheckpointT:
        """Returns the state that :meth:`Source.restore_enumerator` needs; equal states while nothing has changed.

        The offset has a split from the first :meth:`split_ranges` on that returns a range for it. An assigned split
        without any range so far must be found again after a restart, so the state must not have it as assigned.
        """

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        """Called when the query has processed everything before ``positions``, by split id."""

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Called when a reader has sent ``event``."""

    def close(self) -> None:
        """Frees all resources. Best effort: a killed process does not call it."""


@dataclass(slots=True, unsafe_hash=True)
class EventTimes:
    """The known event times (ms) in a :class:`SplitRange`; ``None`` if no record has one. Do not change an object.

    Attributes:
        next: The event time of the first record that has one.
        reach: The greatest known event time of a record in the range.
    """

    next: int | None
    reach: int | None


@dataclass(frozen=True)
class PositioningRequest:
    """The ranges of one plan, and the bounds of the search for event times in them.

    Attributes:
        ranges: The ranges, by split id: those that are not empty, and empty ones that only the read limits end
            (``limited``); for these only the next event time is needed.
        plausible_until: Event times after this time (ms) are treated as if the record had no event time; ``None`` for
            no bound.
        budget: How many records of a split the micro-batch can read at most; ``None`` for no limit.
        timestamp_assigner: Finds the event time in rows of the source's schema.
        max_out_of_orderness_ms: How far (ms) event times fall back within a split.
    """

    ranges: Mapping[str, SplitRange] = field(default_factory=dict)
    plausible_until: int | None = None
    budget: int | None = None
    timestamp_assigner: TimestampAssigner = field(default_factory=RecordTimestampAssigner)
    max_out_of_orderness_ms: int = 0

    @property
    def latest_plausible(self) -> int | None:
        """A second name of :attr:`plausible_until`, for sources that were written before the first release."""
        return self.plausible_until


class EventTimePositions(ABC):
    """Positions by event time within the ranges of one plan."""

    @abstractmethod
    def event_times(self) -> Mapping[str, EventTimes]:
        """Returns the first and the greatest event time of each split. A split without them is unknown in this plan."""

    @abstractmethod
    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        """Returns the position up to which each split of :meth:`event_times` may be read, and the rows up to there.

        No record before the position has an event time >= ``event_time``. The record at the position has one, or the
        position is the end of the range, or the budget ends there, or no later position could be proven because a
        leader did not answer. Both numbers never decrease as ``event_time`` grows.

        Args:
            event_time: An event time (ms), usually the horizon.
        """

    def rows_before(self, event_time: int) -> Mapping[str, int] | None:
        """Returns the estimated number of rows before ``event_time`` (ms) in each split of :meth:`event_times`.

        Override it if an exact position needs calls of the external system. The search for the horizon then uses these
        estimates, which must need no calls, and :meth:`first_at_or_after` is called only with the horizon that was
        found. The numbers must never decrease as ``event_time`` grows. By default the result is ``None``: positions are
        cheap, and :meth:`first_at_or_after` is called at each step of the search.
        """
        return None

    def least_to_come(self) -> int | None:
        """Returns the least event time (ms) in splits that are :meth:`~SplitEnumerator.pending`; ``None`` if unknown.

        It holds back the assigned splits like the front of a split: they are read up to this time plus max-drift.
        """
        return None


class SupportsEventTimePositions(ABC):
    """An enumerator that finds positions by event time, so that alignment can cut splits exactly."""

    @abstractmethod
    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        """Returns the positions by event time in the ranges of ``request``; they are used for one plan."""


class SupportsEndPosition(ABC):
    """An enumerator of a bounded source that knows where the next source of a hybrid source begins (FLIP-150)."""

    @abstractmethod
    def end_position(self) -> JsonValue:
        """Returns where this source ends, as the next source expects it; called when all splits are processed."""
