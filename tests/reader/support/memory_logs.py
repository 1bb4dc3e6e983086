"""Logs in memory, and a source over them that can be aligned. The source has at most one fault, which the conformance
suite must tell.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    EventTimePositions,
    EventTimes,
    InputStatus,
    JsonValue,
    PositioningRequest,
    ReaderOutput,
    ReadLimits,
    Source,
    SourceEvent,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.errors import ConnectorError
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader, RangeSplit, Record
from flip27_stream.testing import ExternalSystem

SYSTEMS: dict[int, Logs] = {}
"""The logs of each system, by its number. They simulate logs on a server that all processes can reach."""

FETCH = 10_000
"""The number of records that an ``IteratorSplitReader`` gets in one fetch."""

_numbers = itertools.count()


@dataclass
class Logs:
    """The event times of each log, which logs are gone, and whether all requests fail. An event time is ``None`` for
    a record without one.
    """

    times: list[list[int | None]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    fails: bool = False

    def known(self, log: int, first: int, end: int, plausible_until: int | None) -> list[tuple[int, int]]:
        """Returns positions and event times of the records of a range with a plausible event time."""
        times = self.times[log][first:end]
        return [
            (i, t)
            for i, t in enumerate(times, first)
            if t is not None and (plausible_until is None or t <= plausible_until)
        ]


@dataclass(frozen=True)
class Log(RangeSplit):
    system: int
    log: int

    @property
    def split_id(self) -> str:
        return f"log-{self.log}"


@dataclass(frozen=True)
class AssignedLogs:
    count: int


class MemoryLogs(ExternalSystem):
    def __init__(self, fault: str = "") -> None:
        self.number = next(_numbers)
        self._fault = fault
        SYSTEMS[self.number] = Logs()

    @property
    def source(self) -> MemoryLogSource:
        return MemoryLogSource(self.number, self._fault)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        """Writes records whose event times rise by 10, but fall back by 25 at every third record."""
        first = len(self._log(split))
        numbers = range(first, first + count)
        return self.write_at(
            split, [1000 * (split + 1) + 10 * i - (25 if i % 3 == 2 else 0) for i in numbers]
        )

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        log = self._log(split)
        log += times
        return [(split, position) for position in range(len(log) - len(times), len(log))]

    def limited(self, limits: ReadLimits) -> MemoryLogSource | None:
        if limits.max_rows is None:
            return None
        ignored = self._fault == "ignores its limit"
        return replace(self.source, limits=ReadLimits() if ignored else limits)

    @property
    def bounded(self) -> MemoryLogSource:
        return replace(self.source, is_bounded=True)

    def hide(self, split: int) -> str:
        SYSTEMS[self.number].gone.add(split)
        return f"log-{split}"

    def restore(self, split: int) -> None:
        SYSTEMS[self.number].gone.discard(split)

    def fail(self) -> None:
        SYSTEMS[self.number].fails = True

    def recover(self) -> None:
        SYSTEMS[self.number].fails = False

    def _log(self, split: int) -> list[int | None]:
        logs = SYSTEMS[self.number].times
        while len(logs) <= split:
            logs.append([])
        return logs[split]

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["log"], row["number"]

    def close(self) -> None:
        del SYSTEMS[self.number]


@dataclass(frozen=True)
class MemoryLogSource(Source[Log, AssignedLogs]):
    system: int
    fault: str = ""
    limits: ReadLimits = field(default_factory=ReadLimits)
    is_bounded: bool = False
    schema = pa.schema([("log", pa.int64()), ("number", pa.int64())])

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def read_limits(self) -> ReadLimits:
        return self.limits

    @property
    def fingerprint(self) -> str:
        return f"memory {self.system}"

    @property
    def split_serializer(self) -> DataclassSerializer[Log]:
        faults: dict[str, type[DataclassSerializer[Log]]] = {
            "takes anything": TakesAnything,
            "forgets the log": ForgetsTheLog,
        }
        return faults.get(self.fault, DataclassSerializer)(Log)

    @property
    def enumerator_checkpoint_serializer(self) -> DataclassSerializer[AssignedLogs]:
        return DataclassSerializer(AssignedLogs)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Log]:
        if self.fault in ("positions out of range", "other columns", "a stranger's rows"):
            return CarelessReader(self.fault)
        reader = Forgetful if self.fault == "an event makes its reader forget" else IteratorSourceReader
        return reader(context, self.schema, lambda split: read(split, self.fault))

    def create_enumerator(self, context: SplitEnumeratorContext[Log]) -> Enumerator:
        return Enumerator(self, context, AssignedLogs(0))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[Log], checkpoint: AssignedLogs
    ) -> Enumerator:
        forgets = self.fault == "assigns again after a restart"
        return Enumerator(self, context, AssignedLogs(0) if forgets else checkpoint, restored=True)


def read(split: Log, fault: str) -> Iterator[Any]:
    logs = SYSTEMS[split.system]
    times = logs.times[split.log]
    numbers = list(range(split.start, split.end))
    if split.log in logs.gone:
        if fault == "reads nothing of what is gone":
            return
        raise ConnectorError(f"{split.split_id} is gone")
    if fault == "reads one fetch and no more":
        numbers = numbers[:FETCH]
    elif fault == "loses the last record":
        numbers = numbers[:-1]
    elif fault == "reads on":
        numbers = list(range(split.start, len(times)))
    elif fault == "overlaps":
        numbers = list(range(max(split.start - 1, 0), split.end))
    elif fault == "disordered":
        numbers.reverse()
    elif fault == "whole pairs only":
        numbers = list(range(split.start // 2 * 2, split.end // 2 * 2)) if split.end < len(times) else numbers
    for n in numbers:
        yield Record((split.log, n), None if fault else n, times[n])


class Enumerator(SplitEnumerator[Log, AssignedLogs], SupportsEventTimePositions):
    def __init__(
        self,
        source: MemoryLogSource,
        context: SplitEnumeratorContext[Log],
        state: AssignedLogs,
        restored: bool = False,
    ) -> None:
        self._source = source
        self._context = context
        self._state = state
        self._stays = restored and source.fault == "finds nothing after a restart"
        self._snapshots = itertools.count()
        self._logs = SYSTEMS[source.system]

    def start(self) -> None:
        self._context.call_async(self._count, self._assign)
        self._context.call_async(self._count, self._assign, initial_delay_ms=20, period_ms=20)

    def _count(self) -> int:
        if self._logs.fails and self._source.fault != "hides its failures":
            raise ConnectorError(f"system {self._source.system} is not there")
        return len(self._logs.times)

    def _assign(self, count: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        for log in range(self._state.count, self._state.count if self._stays else count):
            self._context.assign_split(self.split_of(log), log % self._context.current_parallelism())
            self._state = AssignedLogs(log + 1)
        if self._source.is_bounded:
            for reader in self._context.registered_readers():
                self._context.signal_no_more_splits(reader)

    def split_of(self, log: int) -> Log:
        return Log(self._source.system, log)

    def pending(self) -> int:
        return int(self._source.fault == "has something pending for ever")

    def split_ranges(self, positions: Mapping[Log, int | None]) -> Mapping[str, SplitRange]:
        """Returns the ranges of the logs. A log that is gone has no range until it is back."""
        fault = self._source.fault
        if self._logs.fails and fault != "hides its failures":
            raise ConnectorError("" if fault == "fails without a word" else "the system is not there")
        ranges = {}
        for split, known in positions.items():
            end = len(self._logs.times[split.log])
            position = (known or 0) // 10 * 10 if fault == "goes back a little" else known or 0
            if fault == "sees half of it at first" and known is None:
                end //= 2
            final = self._source.is_bounded and fault != "is bounded and never ends"
            if split.log not in self._logs.gone:
                ranges[split.split_id] = SplitRange(position, end, final=final)
            elif fault in GONE:
                ranges[split.split_id] = GONE[fault](end)
            elif fault == "waits for what is gone":
                while SYSTEMS.get(self._source.system) is self._logs:
                    time.sleep(0.01)
            elif fault == "does not name what is gone":
                raise ConnectorError("something is gone")
        return ranges

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        if self._source.fault == "takes any event for its own":
            self._state = AssignedLogs(self._state.count + 1)

    def snapshot_state(self) -> AssignedLogs:
        if self._source.fault == "a restless state":
            return replace(self._state, count=self._state.count + 1000 * next(self._snapshots))
        return self._state

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        return Positions(self._logs, request, self._source.fault)


GONE: dict[str, Callable[[int], SplitRange]] = {
    "begins again what was gone": lambda end: SplitRange(0, 0),
    "leaves out what was gone": lambda end: SplitRange(end, end),
}
"""For each fault, the range that the source returns for a log that is gone. It is made from the end of the log."""


class Positions(EventTimePositions):
    def __init__(self, logs: Logs, request: PositioningRequest, fault: str) -> None:
        self._ranges = request.ranges
        self._fault = fault
        self._asked = 0
        plausible_until = None if fault == "believes any time" else request.plausible_until
        self._known = {
            name: logs.known(int(name.removeprefix("log-")), r.position, r.end, plausible_until)
            for name, r in request.ranges.items()
        }
        self._first_null = {
            name: next((i for i in range(r.position, r.end) if logs.times[int(name[4:])][i] is None), r.end)
            for name, r in request.ranges.items()
        }

    def event_times(self) -> Mapping[str, EventTimes]:
        found = {}
        for name, known in self._known.items():
            times = [t for _, t in known]
            invented = {"an invented reach": 1, "a reach far ahead": 1_000_000}.get(self._fault, 0)
            found[name] = EventTimes(times[0], max(times) + invented) if times else EventTimes(None, None)
            if times and self._fault == "the least time first":
                found[name] = EventTimes(min(times), max(times))
        return found

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        found = {}
        self._asked = max(self._asked, event_time)
        wanted = self._asked if self._fault == "answers depend on questions" else event_time
        for name, r in self._ranges.items():
            known = self._known[name]
            position = next((i for i, t in known if t >= wanted), r.end)
            if self._fault == "the last instead of the first":
                position = max((i + 1 for i, t in known if t < wanted), default=r.position)
            elif self._fault == "stops before a null":
                position = min(position, self._first_null[name])
            rows = position - r.position
            found[name] = position, -rows if self._fault == "rows that fall" else rows
        return found


class Forgetful(IteratorSourceReader[Log]):
    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        self._added: list[Log] = []

    def add_splits(self, splits: Sequence[Log]) -> None:
        self._added += splits

    def handle_source_events(self, event: SourceEvent) -> None:
        self._added.clear()

    def notify_no_more_splits(self) -> None:
        super().add_splits(self._added)
        super().notify_no_more_splits()


class CarelessReader(SourceReader[Log]):
    """A reader without a base class, since a base class would prevent its faults."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._splits: list[Log] = []

    def add_splits(self, splits: Sequence[Log]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        """Does nothing, because the reader gets all its splits at once."""

    def snapshot_state(self) -> Sequence[Log]:
        return self._splits

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT
        split = self._splits.pop()
        name = "log-7" if self._fault == "a stranger's rows" else split.split_id
        numbers = [*range(split.start, split.end)]
        rows = pa.RecordBatch.from_pydict({"log": [split.log] * len(numbers), "number": numbers})
        if self._fault == "other columns":
            rows = rows.rename_columns(["log", "nr"])
        late = 1 if self._fault == "positions out of range" else 0
        positions = pa.array([n + late for n in numbers], pa.int64())
        output.create_output_for_split(name).collect(rows, None, positions)
        return InputStatus.MORE_AVAILABLE


class TakesAnything(DataclassSerializer[Log]):
    def deserialize(self, version: int, data: JsonValue) -> Log:
        return super().deserialize(version, data) if version == 1 and data != {"?": [0]} else Log(0, 0)


class ForgetsTheLog(DataclassSerializer[Log]):
    def deserialize(self, version: int, data: JsonValue) -> Log:
        return replace(super().deserialize(version, data), log=0)
