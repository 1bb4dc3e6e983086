"""A source over lists in memory, for tests of the coordinator: the smallest source that can be aligned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    SimpleVersionedSerializer,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SupportsEventTimePositions,
)

SCHEMA = pa.schema([("split", pa.string()), ("event_time", pa.int64())])


@dataclass
class MemoryWorld:
    """Logs to which a test can append.

    Attributes:
        logs: The event times of each log.
        silent: Logs whose leader does not answer.
        mute: Logs whose leader returns ends but no event times.
        finished: Logs that get no more records.
        undrained: Logs that have records after their ends, as with an open transaction.
        calls: The calls that enumerators have recorded.
        requests: The requests for positions by event time.
    """

    logs: dict[str, list[int | None]]
    silent: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    undrained: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    requests: list[PositioningRequest] = field(default_factory=list)


@dataclass(frozen=True)
class MemorySplit(SourceSplit):
    name: str
    start: int = 0
    end: int = 0

    @property
    def split_id(self) -> str:
        return self.name

    def between(self, start: int, end: int) -> MemorySplit:
        return MemorySplit(self.name, start, end)


class NameSerializer(SimpleVersionedSerializer[MemorySplit]):
    version = 1

    def serialize(self, value: MemorySplit) -> JsonValue:
        return value.name

    def deserialize(self, version: int, data: JsonValue) -> MemorySplit:
        return MemorySplit(str(data))


class CountSerializer(SimpleVersionedSerializer[int]):
    version = 1

    def serialize(self, value: int) -> JsonValue:
        return value

    def deserialize(self, version: int, data: JsonValue) -> int:
        assert isinstance(data, int)
        return data


class LogEnumerator(SplitEnumerator[MemorySplit, int]):
    """An enumerator that assigns every log of its world. Its state is the number of assigned logs. It does not
    support positions by event time.
    """

    def __init__(
        self, world: MemoryWorld, context: SplitEnumeratorContext[MemorySplit], assigned: int = 0
    ) -> None:
        self.world = world
        self.context = context
        self.assigned = assigned

    def start(self) -> None:
        self.context.call_async(lambda: list(self.world.logs), self._discovered)

    def discover(self) -> None:
        self.context.run_in_coordinator_thread(lambda: self._discovered(list(self.world.logs), None))

    def _discovered(self, names: list[str], error: BaseException | None) -> None:
        for name in names[self.assigned :]:
            self.context.assign_split(MemorySplit(name), self.assigned % self.context.current_parallelism())
            self.assigned += 1

    def split_ranges(self, positions: Mapping[MemorySplit, int | None]) -> Mapping[str, SplitRange]:
        self.world.calls.append("split_ranges")
        return {
            s.name: SplitRange(
                p or 0,
                len(self.world.logs[s.name]),
                drained=s.name not in self.world.undrained,
                final=s.name in self.world.finished,
            )
            for s, p in positions.items()
            if s.name not in self.world.silent
        }

    def snapshot_state(self) -> int:
        return self.assigned

    def freeze(self) -> None:
        self.world.calls.append("freeze")

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self.world.calls.append(f"complete {dict(positions)}")


class MemoryEnumerator(LogEnumerator, SupportsEventTimePositions):
    """A :class:`LogEnumerator` that supports positions by event time."""

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        self.world.requests.append(request)
        return MemoryPositions(self.world, request)


class MemoryPositions(EventTimePositions):
    def __init__(self, world: MemoryWorld, request: PositioningRequest) -> None:
        until = request.plausible_until
        self._times = {
            name: [t if t is not None and (until is None or t <= until) else None for t in world.logs[name]]
            for name in request.ranges
            if name not in world.mute
        }
        self._ranges = {name: r for name, r in request.ranges.items() if name in self._times}

    def event_times(self) -> Mapping[str, EventTimes]:
        result = {}
        for name, r in self._ranges.items():
            times = [t for t in self._times[name][r.position : r.end] if t is not None]
            result[name] = EventTimes(times[0] if times else None, max(times, default=None))
        return result

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        result = {}
        for name, r in self._ranges.items():
            times = self._times[name]
            found = (i for i in range(r.position, r.end) if (t := times[i]) is not None and t >= event_time)
            position = next(found, r.end)
            result[name] = position, position - r.position
        return result


class MemoryReader(SourceReader[MemorySplit]):
    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self._splits: list[MemorySplit] = []

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT
        split = self._splits.pop(0)
        times = self._world.logs[split.name][split.start : split.end]
        rows = pa.RecordBatch.from_pydict(
            {"split": [split.name] * len(times), "event_time": times}, schema=SCHEMA
        )
        positions = pa.array(range(split.start, split.end), pa.int64())
        output.create_output_for_split(split.name).collect(rows, pa.array(times, pa.int64()), positions)
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self) -> Sequence[MemorySplit]:
        return list(self._splits)

    def add_splits(self, splits: Sequence[MemorySplit]) -> None:
        self._splits.extend(splits)

    def notify_no_more_splits(self) -> None:
        pass


@dataclass
class MemorySource(Source[MemorySplit, int]):
    world: MemoryWorld
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    fingerprint: str = "memory"
    limits: ReadLimits = field(default_factory=ReadLimits)
    enumerator: Callable[..., LogEnumerator] = MemoryEnumerator
    reader: Callable[[MemoryWorld, SourceReaderContext], SourceReader[MemorySplit]] | None = None

    @property
    def read_limits(self) -> ReadLimits:
        return self.limits

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def create_reader(self, context: SourceReaderContext) -> SourceReader[MemorySplit]:
        return self.reader(self.world, context) if self.reader is not None else MemoryReader(self.world)

    def create_enumerator(self, context: SplitEnumeratorContext[MemorySplit]) -> LogEnumerator:
        return self.enumerator(self.world, context)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[MemorySplit], checkpoint: int
    ) -> LogEnumerator:
        return self.enumerator(self.world, context, checkpoint)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[Any]:
        return NameSerializer()

    @property
    def enumerator_checkpoint_serializer(self) -> SimpleVersionedSerializer[int]:
        return CountSerializer()
