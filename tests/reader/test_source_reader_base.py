"""``SourceReaderBase`` with fetchers in every threading model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import InputStatus, SourceOutput, SourceReader
from flip27_stream.errors import ConnectorError, DataLossError, RecordFormatError
from flip27_stream.reader import (
    FetcherPerSplitManager,
    IteratorSourceReader,
    RecordEmitter,
    Records,
    RecordsWithSplitIds,
    SingleThreadFetcherManager,
    SourceReaderBase,
    SplitProgress,
    SplitsRemoval,
)
from flip27_stream.testing.task_rows import TaskRows
from tests.reader.support.kit import (
    SCHEMA,
    Numbers,
    NumbersReader,
    NumbersSourceReader,
    ReaderContext,
    WaitingReader,
    poll_until,
    read_all,
    splits,
    values_by_split,
    values_of,
)


def iterate(split: Numbers) -> Iterator[tuple[int]]:
    yield from ((split.number * 10 + position,) for position in range(split.start, split.end))


MODELS: dict[str, Callable[[], SourceReader[Numbers]]] = {
    "one split after another": lambda: IteratorSourceReader(ReaderContext(), SCHEMA, iterate),
    "multiplexed": lambda: NumbersSourceReader(SingleThreadFetcherManager(NumbersReader)),
    "a thread for each split": lambda: NumbersSourceReader(FetcherPerSplitManager(NumbersReader)),
    "three threads": lambda: IteratorSourceReader(ReaderContext(), SCHEMA, iterate, threads=3),
}


@pytest.fixture(params=MODELS)
def reader(request: pytest.FixtureRequest) -> SourceReader[Numbers]:
    return MODELS[request.param]()


def test_sr01_all_records_of_many_splits_come_in_order(reader: SourceReader[Numbers]) -> None:
    """SR-01: 10 splits of 10 records give 100 distinct values in every threading model, in order inside each
    split.
    """
    output = read_all(reader, splits(*[(0, 10)] * 10))
    assert sorted(output.column("value")) == list(range(100))
    assert all(values == sorted(values) for values in values_by_split(output).values())
    assert sorted(output.released) == sorted(f"s{i}" for i in range(10))


def test_sr02_splits_added_while_one_is_read(reader: SourceReader[Numbers]) -> None:
    """SR-02: splits that are added while another one is read do not disturb the reading of that one."""
    output = TaskRows(SCHEMA)
    first, *others = splits(*[(0, 10)] * 10)
    reader.add_splits([first])
    poll_until(reader, output, lambda status: output.batches)
    reader.add_splits(others)
    reader.notify_no_more_splits()
    poll_until(reader, output, lambda status: status is InputStatus.END_OF_INPUT)
    reader.close()
    assert sorted(output.column("value")) == list(range(100))


def test_sr03_nothing_available_is_not_the_end(reader: SourceReader[Numbers]) -> None:
    """SR-03: a reader at the end of its split has nothing available, and waits. It ends only when it is told that no
    more splits will come.
    """
    output = TaskRows(SCHEMA)
    reader.add_splits(splits((0, 10)))
    poll_until(reader, output, lambda status: output.released)
    poll_until(
        reader,
        output,
        lambda status: status is InputStatus.NOTHING_AVAILABLE and not reader.is_available().done(),
    )
    assert output.column("value") == list(range(10))
    waiting = reader.is_available()
    reader.notify_no_more_splits()
    assert waiting.done()
    poll_until(reader, output, lambda status: status is InputStatus.END_OF_INPUT)
    reader.close()


def test_a_reader_without_splits_ends(reader: SourceReader[Numbers]) -> None:
    """SX-07: a reader that gets no splits ends."""
    assert read_all(reader, []).released == []


def test_a_split_with_an_empty_range_has_no_records(reader: SourceReader[Numbers]) -> None:
    """A split with an empty range is finished and gives no records."""
    output = read_all(reader, splits((0, 0), (7, 7), (2, 4)))
    assert sorted(output.column("value")) == [22, 23]
    assert sorted(output.released) == ["s0", "s1", "s2"]


@pytest.mark.parametrize("end_apart", [False, True])
def test_sr06_the_end_comes_with_the_last_records_or_alone(end_apart: bool) -> None:
    """SR-06: a fetch may say that a split is finished with the last records of the split, or without records. The
    splits have 10 and 12 records, and a fetch has 2 of each.
    """
    made = NumbersReader(per_fetch=2, end_apart=end_apart)
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    output = read_all(reader, splits((0, 10), (0, 12)))
    assert {name: len(values) for name, values in values_by_split(output).items()} == {"s0": 10, "s1": 12}
    assert reader.finished == output.released == ["s0", "s1"]
    assert made.closed.is_set()
    assert reader.context.metric_group().snapshot() == {"records_in": 22}


def test_sr07_the_last_records_come_while_fetchers_end() -> None:
    """SR-07: records that come while fetchers end are emitted, and the input does not end without them."""

    class Late(SingleThreadFetcherManager[Numbers]):
        def add_splits(self, splits: Sequence[Numbers]) -> None:
            self.late = [RecordsWithSplitIds({"s0": [values_of(splits[0], [0])]}, finished=["s0"])]

        def shut_down_idle(self) -> bool:
            if self.late:
                self.queue.put(self.late.pop())
            return True

    assert read_all(NumbersSourceReader(Late(NumbersReader)), splits((0, 1))).column("value") == [0]


@pytest.mark.parametrize("manager", [SingleThreadFetcherManager, FetcherPerSplitManager])
def test_sr09_the_planned_end_cuts_a_reader_that_would_go_on(manager: Any) -> None:
    """SR-09: a split reader that would go on is cut at the planned end. The record at the end is not emitted, and the
    split reader is told to drop the split.
    """
    made: list[NumbersReader] = []

    def make() -> NumbersReader:
        made.append(NumbersReader(per_fetch=5, endless=True))
        return made[-1]

    reader = NumbersSourceReader(manager(make))
    output = read_all(reader, splits((0, 7), (0, 5)))
    assert values_by_split(output) == {"s0": [*range(7)], "s1": [*range(10, 15)]}
    assert sorted(reader.finished) == ["s0", "s1"]
    removed = [s.split_id for m in made for c in m.changes if isinstance(c, SplitsRemoval) for s in c.splits]
    assert sorted(removed) == ["s0", "s1"]


class Blocks(NumbersReader):
    """A split reader that fetches whole blocks of four, even if only a part is wanted, and each block twice."""

    def fetch(self) -> RecordsWithSplitIds:
        (split,) = self.splits.values()
        block = self.at[split.split_id] // 4 * 4
        self.at[split.split_id] += 2
        return RecordsWithSplitIds({split.split_id: [values_of(split, range(block, block + 4))]})


def test_blocks_are_trimmed_at_both_ends_and_emitted_once() -> None:
    """Each record of the range is emitted once, although a fetch may have records before the range, records after it,
    and records that were emitted already.
    """
    reader = NumbersSourceReader(SingleThreadFetcherManager(Blocks))
    output = read_all(reader, splits((3, 13)))
    assert output.column("value") == output.positions == list(range(3, 13))


class Gaps(NumbersReader):
    """A split reader that finds records at even positions only."""

    def fetch(self) -> RecordsWithSplitIds:
        (split,) = self.splits.values()
        even = range(split.start + split.start % 2, split.end + 4, 2)
        return RecordsWithSplitIds({split.split_id: [values_of(split, even)]}, finished=[split.split_id])


def test_a_range_may_begin_and_end_in_gaps() -> None:
    """A range may begin and end at positions that have no record."""
    output = read_all(NumbersSourceReader(SingleThreadFetcherManager(Gaps)), splits((3, 9)))
    assert output.column("value") == [4, 6, 8]


class Disordered(NumbersReader):
    def fetch(self) -> RecordsWithSplitIds:
        (split,) = self.splits.values()
        return RecordsWithSplitIds({split.split_id: [values_of(split, [1, 3, 2])]})


def test_falling_positions_are_an_error() -> None:
    reader = NumbersSourceReader(SingleThreadFetcherManager(Disordered))
    with pytest.raises(ConnectorError, match="split s0 are out of order: position 2 comes after 3"):
        read_all(reader, splits((0, 9)))


class Stranger(NumbersReader):
    def fetch(self) -> RecordsWithSplitIds:
        return RecordsWithSplitIds({"s7": [values_of(Numbers(number=7), [1])]})


def test_records_of_an_unknown_split_are_an_error() -> None:
    reader = NumbersSourceReader(SingleThreadFetcherManager(Stranger))
    with pytest.raises(ConnectorError, match="split 's7', which is finished or was"):
        read_all(reader, splits((0, 9)))


class OtherColumns(NumbersReader):
    def fetch(self) -> RecordsWithSplitIds:
        return RecordsWithSplitIds({"s0": [Records(pa.RecordBatch.from_pydict({"value": ["a"]}))]})


def test_columns_of_another_schema_are_an_error() -> None:
    reader = NumbersSourceReader(SingleThreadFetcherManager(OtherColumns))
    with pytest.raises(RecordFormatError, match=r"split s0 .*value: string.*source has .*value: int64"):
        read_all(reader, splits((0, 9)))


@dataclass
class Sum(SplitProgress[Numbers]):
    total: int = 0


class RunningSums(RecordEmitter[Numbers]):
    """An emitter that takes numbers as texts, and emits a running sum for each split."""

    def emit_records(self, records: Records, output: SourceOutput, progress: SplitProgress[Numbers]) -> None:
        assert isinstance(progress, Sum)
        sums = []
        for text in records.rows:
            progress.total += int(text)
            sums.append(progress.total)
        output.collect(pa.RecordBatch.from_pydict({"value": sums}, schema=SCHEMA), None, records.positions)


class SummingReader(SourceReaderBase[Numbers]):
    totals: dict[str, int]

    def initialize_state(self, split: Numbers) -> Sum:
        self.totals = {}
        return Sum(split, split.start, split.end)

    def on_split_finished(self, finished: Sequence[SplitProgress[Numbers]]) -> None:
        self.totals |= {p.split.split_id: p.total for p in finished if isinstance(p, Sum)}


class Texts(NumbersReader):
    def fetch(self) -> RecordsWithSplitIds:
        fetched = super().fetch()
        texts: dict[str, list[Records]] = {}
        for name, pieces in fetched.records.items():
            for piece in pieces:
                assert isinstance(piece.rows, pa.RecordBatch)
                values = piece.rows.column(0).to_pylist()
                texts.setdefault(name, []).append(
                    Records([str(n) for n in values], positions=piece.positions)
                )
        return RecordsWithSplitIds(texts, fetched.finished)


def test_an_emitter_keeps_a_state_for_each_split() -> None:
    """An emitter of the user may take any fetched values, and keep a state for each split. Records outside the range
    are cut before the emitter gets them.
    """
    fetchers = SingleThreadFetcherManager(lambda: Texts(endless=True))
    reader = SummingReader(ReaderContext(), fetchers, RunningSums())
    output = read_all(reader, splits((1, 4), (0, 3)))
    assert values_by_split(output) == {"s0": [1, 3, 6], "s1": [10, 21, 33]}
    assert reader.totals == {"s0": 6, "s1": 33}


def test_a_snapshot_has_the_ranges_that_are_left() -> None:
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: NumbersReader(per_fetch=3)))
    output = TaskRows(SCHEMA)
    reader.add_splits(splits((0, 9)))
    assert reader.snapshot_state() == splits((0, 9))
    poll_until(reader, output, lambda status: output.table.num_rows == 6)
    assert reader.snapshot_state() == splits((6, 9))
    poll_until(reader, output, lambda status: output.released)
    assert reader.snapshot_state() == []
    reader.close()


class ForeignError(Exception):
    """An error that is not of this project."""


@pytest.mark.parametrize("bad_fetch", [1, 3])
def test_sr05_sr14_an_error_of_a_fetcher_surfaces_with_its_cause(bad_fetch: int) -> None:
    """SR-05, SR-14: an error in the first fetch or after two good ones is raised by the reader, with its cause. It is
    not taken for the end of the input.
    """
    error = ForeignError("no such sector")

    def fail(number: int) -> None:
        if number == bad_fetch:
            raise error

    made = NumbersReader(on_fetch=fail)
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    with pytest.raises(
        ConnectorError, match="Fetching s0, s1 failed: ForeignError: no such sector"
    ) as caught:
        read_all(reader, splits((0, 9), (0, 9)))
    assert caught.value.__cause__ is error
    assert made.closed.is_set()
    with pytest.raises(ConnectorError):
        reader.poll_next(TaskRows(SCHEMA))


def test_sr14_errors_of_this_project_are_raised_unchanged() -> None:
    """SR-14: an error of this project is raised as the same object, so that whoever asks for data loss by its class
    finds it.
    """
    error = DataLossError("positions 3 to 5 of s0 are gone")

    def fail(number: int) -> None:
        raise error

    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: NumbersReader(on_fetch=fail)))
    with pytest.raises(DataLossError, match="3 to 5") as caught:
        read_all(reader, splits((0, 9)))
    assert caught.value is error


def test_sr14_an_error_on_closing_surfaces() -> None:
    """SR-14: an error on closing a split reader is raised, even if every fetch was good."""

    class Clinging(NumbersReader):
        def close(self) -> None:
            raise ForeignError("does not let go")

    with pytest.raises(ConnectorError, match="ForeignError: does not let go"):
        read_all(NumbersSourceReader(SingleThreadFetcherManager(Clinging)), splits((0, 9)))


def test_sr05_an_error_while_fetchers_end_is_not_the_end() -> None:
    """SR-05: an error while fetchers end is raised, and not taken for the end of the input. It may come between the
    look for errors and the look for fetchers.
    """

    class FailsLate(SingleThreadFetcherManager[Numbers]):
        def shut_down_idle(self) -> bool:
            self._error = ForeignError("too late"), "s0"
            return True

    with pytest.raises(ConnectorError, match="ForeignError: too late"):
        read_all(NumbersSourceReader(FailsLate(NumbersReader)), [])


def test_an_error_in_one_of_several_threads_names_its_split() -> None:
    def make() -> NumbersReader:
        made = NumbersReader()
        made._on_fetch = lambda number: 1 // 0 if "s2" in made.splits else 0
        return made

    reader = NumbersSourceReader(FetcherPerSplitManager(make))
    with pytest.raises(ConnectorError, match="Fetching s2 failed: ZeroDivisionError"):
        read_all(reader, splits(*[(0, 9)] * 4))


def test_closing_ends_a_fetch_that_waits() -> None:
    """Closing a reader wakes up a fetch that waits, so that a task can be ended early."""
    made = WaitingReader()
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    reader.add_splits(splits((0, 9)))
    assert reader.poll_next(TaskRows(SCHEMA)) is InputStatus.NOTHING_AVAILABLE
    waiting = reader.is_available()
    assert not waiting.done()
    reader.close()
    assert made.closed.is_set()
    assert waiting.done()
