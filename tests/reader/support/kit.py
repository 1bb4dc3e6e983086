"""Splits of numbers, split readers that a test can steer, and a task to run readers in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    SourceEvent,
    SourceReader,
    SourceReaderContext,
)
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.reader import (
    ArrowRecordEmitter,
    RangeSplit,
    Records,
    RecordsWithSplitIds,
    SourceReaderBase,
    SplitFetcherManager,
    SplitProgress,
    SplitReader,
    SplitsAddition,
    SplitsChange,
)
from flip27_stream.testing.task_rows import TaskRows

SCHEMA = pa.schema([("value", pa.int64())])
TIME_LIMIT_S = 30.0


@dataclass(frozen=True)
class Numbers(RangeSplit):
    """A split of numbers. The value at a position is ``number * 10 + position``."""

    number: int

    @property
    def split_id(self) -> str:
        return f"s{self.number}"


def values_of(split: Numbers, positions: Sequence[int]) -> Records:
    rows = pa.RecordBatch.from_pydict({"value": [split.number * 10 + p for p in positions]}, schema=SCHEMA)
    return Records(rows, positions=positions)


class ReaderContext(SourceReaderContext):
    """The context of a reader whose splits are planned, and which sends no events."""

    def __init__(self) -> None:
        self._metrics = MetricGroup()

    def metric_group(self) -> MetricGroup:
        return self._metrics

    def index_of_subtask(self) -> int:
        return 0

    def send_split_request(self) -> None:
        raise AssertionError("splits are planned")

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        raise AssertionError("no events")


class NumbersReader(SplitReader[Numbers]):
    """A split reader that multiplexes its splits: each fetch has ``per_fetch`` records of every split.

    Args:
        per_fetch: The number of records of a split in one fetch.
        endless: Whether to return records after the end of the range, without end.
        end_apart: Whether a separate fetch, without records, reports that a split is finished.
        on_fetch: Called at the beginning of each fetch with its number.
    """

    def __init__(
        self,
        per_fetch: int = 2,
        endless: bool = False,
        end_apart: bool = False,
        on_fetch: Callable[[int], object] = lambda number: None,
    ) -> None:
        self.splits: dict[str, Numbers] = {}
        self.at: dict[str, int] = {}
        self.changes: list[SplitsChange[Numbers]] = []
        self.fetches = 0
        self.closed = threading.Event()
        self.woken = threading.Event()
        self._per_fetch = per_fetch
        self._endless = endless
        self._end_apart = end_apart
        self._on_fetch = on_fetch

    def handle_splits_changes(self, change: SplitsChange[Numbers]) -> None:
        self.changes.append(change)
        for split in change.splits:
            if isinstance(change, SplitsAddition):
                self.splits[split.split_id], self.at[split.split_id] = split, split.start
            else:
                del self.splits[split.split_id]

    def fetch(self) -> RecordsWithSplitIds:
        self.fetches += 1
        self._on_fetch(self.fetches)
        records: dict[str, list[Records]] = {}
        finished = []
        for name, split in self.splits.items():
            first = self.at[name]
            stop = first + self._per_fetch if self._endless else min(first + self._per_fetch, split.end)
            self.at[name] = stop
            if stop > first:
                records[name] = [values_of(split, range(first, stop))]
            if not self._endless and stop == split.end and (first == stop or not self._end_apart):
                finished.append(name)
        for name in finished:
            del self.splits[name]
        return RecordsWithSplitIds(records, finished)

    def wake_up(self) -> None:
        self.woken.set()

    def close(self) -> None:
        self.closed.set()


class WaitingReader(NumbersReader):
    """A split reader whose fetch waits for records that never come, until it is woken up."""

    def fetch(self) -> RecordsWithSplitIds:
        self.fetches += 1
        assert self.woken.wait(TIME_LIMIT_S)
        self.woken.clear()
        return RecordsWithSplitIds()


class NumbersSourceReader(SourceReaderBase[Numbers]):
    def __init__(self, fetchers: SplitFetcherManager[Numbers], close_timeout_s: float = TIME_LIMIT_S) -> None:
        self.context = ReaderContext()
        self.finished: list[str] = []
        super().__init__(self.context, fetchers, ArrowRecordEmitter(SCHEMA), close_timeout_s)

    def on_split_finished(self, finished: Sequence[SplitProgress[Numbers]]) -> None:
        assert all(progress.at_end for progress in finished)
        self.finished += [progress.split.split_id for progress in finished]


def splits(*ranges: tuple[int, int]) -> list[Numbers]:
    """Returns splits with the given ranges. The first split has number 0."""
    return [Numbers(number=i, start=start, end=end) for i, (start, end) in enumerate(ranges)]


def values_by_split(output: TaskRows) -> dict[str, list[int]]:
    """Returns the emitted values of each split that has some, in order."""
    values: dict[str, list[int]] = {}
    for batch in output.batches:
        values.setdefault(batch.split_id, []).extend(batch.records["value"].to_pylist())
    return values


def poll_until(
    reader: SourceReader[Numbers], output: TaskRows, wanted: Callable[[InputStatus], object]
) -> None:
    """Polls a reader as a task does, until ``wanted`` is true of a status."""
    while not wanted(status := reader.poll_next(output)):
        assert status is not InputStatus.END_OF_INPUT
        if status is InputStatus.NOTHING_AVAILABLE:
            reader.is_available().result(TIME_LIMIT_S)


def read_all(reader: SourceReader[Numbers], to_read: Sequence[Numbers]) -> TaskRows:
    """Runs a reader as a whole task does, and returns its output."""
    output = TaskRows(SCHEMA, [PlannedRange(split, split.start, split.end) for split in to_read])
    try:
        reader.start()
        reader.add_splits(to_read)
        reader.notify_no_more_splits()
        poll_until(reader, output, lambda status: status is InputStatus.END_OF_INPUT)
    finally:
        reader.close()
    return output
