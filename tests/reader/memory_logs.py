"""Logs in memory that can be aligned, read by a source with at most one fault: what the conformance suite must tell."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader, RangeSplit, Record
from flip27_stream.testing import ExternalSystem

SYSTEMS: dict[int, list[list[int]]] = {}
"""Event times of each log of each system; what another process would ask a server for."""

_numbers = itertools.count()


@dataclass(frozen=True)
class Log(RangeSplit):
    system: int
    log: int

    @property
    def split_id(self) -> str:
        return f"log-{self.log}"


@dataclass(frozen=True)
class Assigned:
    count: int


class MemoryLogs(ExternalSystem):
    def __init__(self, fault: str = "") -> None:
        self.number = next(_numbers)
        self._fault = fault
        SYSTEMS[self.number] = []

    @property
    def source(self) -> MemoryLogSource:
        return MemoryLogSource(self.number, self._fault)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        """Event times rise by 10 but fall back by 25 at every third record."""
        logs = SYSTEMS[self.number]
        while len(logs) <= split:
            logs.append([])
        first = len(logs[split])
        logs[split] += [
            1000 * (split + 1) + 10 * i - (25 if i % 3 == 2 else 0) for i in range(first, first + count)
        ]
        return [(split, position) for position in range(first, first + count)]

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["log"], row["number"]

    def close(self) -> None:
        del SYSTEMS[self.number]


@dataclass(frozen=True)
class MemoryLogSource(Source[Log, Assigned]):
    system: int
    fault: str
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    schema = pa.schema([("log", pa.int64()), ("number", pa.int64())])

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
    def enumerator_checkpoint_serializer(self) -> DataclassSerializer[Assigned]:
        return DataclassSerializer(Assigned)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Log]:
        if self.fault in ("positions out of range", "other columns", "a stranger's rows"):
            return Careless(self.fault)
        return IteratorSourceReader(context, self.schema, lambda split: read(split, self.fault))

    def create_enumerator(self, context: SplitEnumeratorContext[Log]) -> Enumerator:
        return Enumerator(self, context, Assigned(0))

    def restore_enumerator(self, context: SplitEnumeratorContext[Log], checkpoint: Assigned) -> Enumerator:
        forgets = self.fault == "assigns again after a restart"
        return Enumerator(self, context, Assigned(0) if forgets else checkpoint, restored=True)


def read(split: Log, fault: str) -> Iterator[Any]:
    times = SYSTEMS[split.system][split.log]
    numbers = list(range(split.start, split.end))
    if fault == "loses the last record":
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


class Enumerator(SplitEnumerator[Log, Assigned], SupportsEventTimePositions):
    def __init__(
        self,
        source: MemoryLogSource,
        context: SplitEnumeratorContext[Log],
        state: Assigned,
        restored: bool = False,
    ) -> None:
        self._source = source
        self._context = context
        self._state = state
        self._stays = restored and source.fault == "finds nothing after a restart"
        self._snapshots = itertools.count()

    def start(self) -> None:
        self._context.call_async(self._count, self._assign)
        self._context.call_async(self._count, self._assign, initial_delay_ms=20, period_ms=20)

    def _count(self) -> int:
        return len(SYSTEMS.get(self._source.system, []))

    def _assign(self, count: Any, error: BaseException | None) -> None:
        for log in range(self._state.count, self._state.count if self._stays else count):
            self._context.assign_split(
                Log(self._source.system, log), log % self._context.current_parallelism()
            )
            self._state = Assigned(log + 1)

    def split_ranges(self, positions: Mapping[Log, int | None]) -> Mapping[str, SplitRange]:
        logs = SYSTEMS[self._source.system]
        return {s.split_id: SplitRange(p or 0, len(logs[s.log])) for s, p in positions.items()}

    def snapshot_state(self) -> Assigned:
        if self._source.fault == "a restless state":
            return replace(self._state, count=self._state.count + 1000 * next(self._snapshots))
        return self._state

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        return Positions(SYSTEMS[self._source.system], request, self._source.fault)


class Positions(EventTimePositions):
    def __init__(self, logs: Sequence[Sequence[int]], request: PositioningRequest, fault: str) -> None:
        self._logs = {f"log-{i}": times for i, times in enumerate(logs)}
        self._ranges = request.ranges
        self._fault = fault
        self._asked = 0

    def event_times(self) -> Mapping[str, EventTimes]:
        found = {}
        for name, r in self._ranges.items():
            times = self._logs[name][r.position : r.end]
            invented = {"an invented reach": 1, "a reach far ahead": 1_000_000}.get(self._fault, 0)
            found[name] = EventTimes(times[0], max(times) + invented)
            if self._fault == "the least time first":
                found[name] = EventTimes(min(times), max(times))
        return found

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        found = {}
        self._asked = max(self._asked, event_time)
        wanted = self._asked if self._fault == "answers depend on questions" else event_time
        for name, r in self._ranges.items():
            later = [i for i in range(r.position, r.end) if self._logs[name][i] >= wanted] or [r.end]
            position = later[0]
            if self._fault == "the last instead of the first":
                earlier = [i for i in range(r.position, r.end) if self._logs[name][i] < wanted]
                position = earlier[-1] + 1 if earlier else r.position
            rows = position - r.position
            found[name] = position, -rows if self._fault == "rows that fall" else rows
        return found


class Careless(SourceReader[Log]):
    """A reader from scratch, that no base keeps from its faults."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._splits: list[Log] = []

    def add_splits(self, splits: Sequence[Log]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        """Known."""

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
