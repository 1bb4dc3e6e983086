"""Mistakes in the code of a reader raise errors that name them, so that no rows are lost silently. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import (
    InputStatus,
    ReaderOutput,
    SourceEvent,
    SourceReaderContext,
    TimestampAssigner,
    WatermarkStrategy,
)
from flip27_stream.errors import ContractError
from flip27_stream.reader import IteratorSourceReader, Records, RecordsWithSplitIds
from flip27_stream.spark.execution.task import TaskContext
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from tests.spark.support.driven_query import DrivenQuery, memory_query
from tests.spark.support.sources.memory_source import (
    SCHEMA,
    LogEnumerator,
    MemoryReader,
    MemorySource,
    MemorySplit,
    MemoryWorld,
)

Poll = Callable[[MemoryReader, ReaderOutput], Any]


def reading(poll: Poll, **methods: Any) -> DrivenQuery:
    cls = type("Careless", (MemoryReader,), {"poll_next": poll, **methods})
    return memory_query(reader=lambda world, _: cls(world))


def emits(into: str, records: object, **columns: Any) -> Poll:
    def poll(self: MemoryReader, output: ReaderOutput) -> InputStatus:
        output.create_output_for_split(into).collect(records, **columns)
        return InputStatus.END_OF_INPUT

    return poll


@pytest.mark.parametrize("status", [None, "END_OF_INPUT", True])
def test_a_wrong_status_does_not_make_the_task_poll_for_ever(status: object) -> None:
    with pytest.raises(ContractError, match=r"Careless.poll_next\(\) returned .*InputStatus"):
        reading(lambda *_: status).step()


def test_an_end_before_the_range_is_read_is_refused() -> None:
    """A reader that returns END_OF_INPUT while it has splits fails the query. Otherwise rows would be lost
    silently.
    """
    with pytest.raises(
        ContractError, match=r"returned END_OF_INPUT, but snapshot_state.. still returns splits: a"
    ):
        reading(lambda *_: InputStatus.END_OF_INPUT).step()


def test_a_split_of_another_task_is_refused() -> None:
    with pytest.raises(ContractError, match=r"split 'b'.*this task has only a"):
        reading(emits("b", None)).step()


@pytest.mark.parametrize("left", [None, "a", [1], {"a": 1}])
def test_a_snapshot_that_is_no_list_of_splits_is_refused(left: object) -> None:
    """A reader whose ``snapshot_state`` returns no list of splits fails the query. An empty value would otherwise
    look as if everything had been read.
    """
    with pytest.raises(
        ContractError, match=r"Careless.snapshot_state\(\) returned .*must return a list of splits"
    ):
        reading(MemoryReader.poll_next, snapshot_state=lambda _: left).step()


@pytest.mark.parametrize("available", [None, True])
def test_an_availability_that_is_no_future_is_refused(available: object) -> None:
    with pytest.raises(ContractError, match=rf"Careless.is_available\(\) returned {available}; .* of Future"):
        reading(lambda *_: InputStatus.NOTHING_AVAILABLE, is_available=lambda _: available).step()


@pytest.mark.parametrize("made", [None, "a", MemorySplit("b", 0, 3)])
def test_a_bounded_split_with_another_id_is_refused(monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    monkeypatch.setattr(MemorySplit, "between", lambda *_: made)
    with pytest.raises(
        ContractError, match=r"MemorySplit.between\(\) of split 'a' returned .* of the same id"
    ):
        memory_query().step()


@pytest.mark.parametrize(
    "made", [None, "a", [], ["a"], [MemorySplit("b", 0, 3)], [MemorySplit("a", 0, 3)] * 2]
)
def test_splits_for_readers_with_other_ids_are_refused(monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    monkeypatch.setattr(MemorySource, "splits_for_readers", lambda *_: made)
    with pytest.raises(ContractError, match=r"splits_for_readers\(\) .*returned .* must return"):
        memory_query().step()


def test_splits_for_readers_are_made_with_the_state_in_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[list[str], int]] = []

    def note(_: MemorySource, splits: Sequence[MemorySplit], checkpoint: int) -> Sequence[MemorySplit]:
        given.append(([split.split_id for split in splits], checkpoint))
        return splits

    monkeypatch.setattr(MemorySource, "splits_for_readers", note)
    running = memory_query()
    assert running.step()
    assert given == [(["a"], running.offset["enumerator"][1])]


@pytest.mark.parametrize("reader", [None, "reader", MemoryReader])
def test_a_source_that_creates_no_reader_is_refused(reader: object) -> None:
    with pytest.raises(ContractError, match=r"create_reader\(\) returned .* an object of SourceReader"):
        memory_query(reader=lambda *_: reader).step()


ROW = pa.RecordBatch.from_pylist([{"split": "a", "event_time": 1}], SCHEMA)


def test_records_of_other_columns_are_refused() -> None:
    """Records with other columns than the source's schema fail the query. Spark looks at the first batch of a task
    only.
    """
    other = ROW.cast(pa.schema([("split", pa.string()), ("event_time", pa.int32())]))
    why = "of split string, event_time int32 into split a; the source's schema is split string, event_time int64"
    with pytest.raises(ContractError, match=why):
        reading(emits("a", other)).step()


@pytest.mark.parametrize("name", ["timestamps", "positions"])
@pytest.mark.parametrize("column", [[1], pa.array([1], pa.int32()), pa.array([1, 2], pa.int64())])
def test_timestamps_and_positions_of_another_length_are_refused(name: str, column: object) -> None:
    with pytest.raises(ContractError, match=rf"1 records into split a with {name} (.|\n)*as many int64"):
        reading(emits("a", ROW, **{name: column})).step()


class Assigner(TimestampAssigner):
    found: Any = None

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("times", "what"),
    [
        (None, "returned None"),
        ([1, 2, 3], r"returned \[1, 2, 3\]"),
        (pa.array([1, 2]), "an array of int64, 2 long"),
        (pa.array([1.0, 2.0, 3.0]), "an array of double, 3 long"),
    ],
)
def test_wrong_event_times_of_an_assigner_are_refused(tmp_path: Path, times: object, what: str) -> None:
    one = DrivenQuery(MemoryWorld({"a": [1, 2, 3]}), tmp_path / "table")
    assigner = type("Careless", (Assigner,), {"found": times})()
    one.spec = replace(one.spec, strategy=WatermarkStrategy(timestamp_assigner=assigner))
    with pytest.raises(ContractError, match=rf"Careless.extract_timestamps\(\) .*{what}; .* of 3 int64"):
        one.step()


@pytest.mark.parametrize("records", [None, [], pa.table({"a": [1]})])
def test_records_that_are_no_record_batch_are_refused(records: object) -> None:
    with pytest.raises(ContractError, match=f"{type(records).__name__} into split a"):
        reading(emits("a", records)).step()


def fail(*_: object) -> Any:
    raise OSError("the disk is gone")


def fail_to_close(*_: object) -> None:
    raise RuntimeError("not closed")


def test_an_error_is_not_hidden_by_that_of_close(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        reading(fail, close=fail_to_close).step()
    assert "Careless.close() failed" in caplog.text


def test_rows_are_read_though_close_fails() -> None:
    assert reading(MemoryReader.poll_next, close=fail_to_close).step() == [("a", 1), ("a", 2), ("a", 3)]


class Hears(LogEnumerator):
    def add_splits_back(self, splits: Any, subtask_id: int) -> None:
        self.world.calls.append(f"back {[split.name for split in splits]}")


def test_splits_of_a_reader_that_cannot_be_created_are_given_back() -> None:
    """CO-06: a task whose reader cannot be created gives its splits back to the enumerator."""
    one = memory_query(Hears, reader=fail)
    end = one.coordinator.latest_offset(one.offset, None)
    with pytest.raises(OSError, match="disk"):
        one.run(one.offset, end)
    one.coordinator.latest_offset(end, None)
    assert "back ['a']" in one.world.calls


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("text", "'text' is not a SourceEvent"),
        (SourceEvent(3), "not a SourceEvent with a name"),  # type: ignore[arg-type]
        (SourceEvent("e", b"bytes"), "payload of event 'e'.*bytes"),  # type: ignore[arg-type]
        (SourceEvent("e", {1: 2}), "the JSON text, parsed again, gives another value"),  # type: ignore[dict-item]
        (SourceEvent("e", float("nan")), "the JSON text, parsed again, gives another value"),  # type: ignore[arg-type]
        (SourceEvent("e", "x" * 5_000_000), r"'e' is too large.* 5000002 bytes; 4194304 are allowed"),
    ],
)
def test_events_that_cannot_be_sent_are_refused(event: Any, why: str) -> None:
    """An event that cannot be sent raises an error that says what is wrong with it."""

    class Sends(MemoryReader):
        def __init__(self, world: MemoryWorld, context: SourceReaderContext) -> None:
            super().__init__(world)
            context.send_source_event_to_coordinator(event)

    with pytest.raises(ContractError, match=why):
        memory_query(reader=Sends).step()
    if "too large" not in why:
        with pytest.raises(ContractError, match=why):
            CoordinatorContext(1, "host").send_event_to_source_reader(0, event)


@pytest.mark.parametrize("records", [Records([(1,)]), [(1,)], None])
def test_fetched_records_of_a_wrong_type_are_refused(records: Any) -> None:
    with pytest.raises(ContractError, match="records of split 'a' must be a sequence of Records"):
        RecordsWithSplitIds({"a": records})


def test_finished_splits_given_as_a_text_are_refused() -> None:
    with pytest.raises(ContractError, match="not the text 'abc'"):
        RecordsWithSplitIds(finished="abc")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([None], "was given None as rows; they must be a record batch or a list"),
        (["text"], "was given 'text' as rows"),
        ([{"a": 1}], r"was given \{'a': 1\} as rows"),
        ([[(1,)], ["x"]], r"was given \['x'\] as timestamps of 1 rows; there must be one int64 for each"),
        ([[(1,)], None, [1, 2]], r"was given \[1, 2\] as positions of 1 rows"),
        ([[(1,)], None, 7], "was given 7 as positions of 1 rows"),
        ([[(1,)], pa.array([1.5])], "as timestamps of 1 rows"),
    ],
)
def test_wrong_arguments_of_records_are_refused(arguments: list[Any], why: str) -> None:
    with pytest.raises(ContractError, match=rf"Records\(\) (.|\n)*{why}"):
        Records(*arguments)


def test_a_split_without_an_initial_state_is_refused() -> None:
    made = type("Careless", (IteratorSourceReader,), {"initialize_state": lambda *_: None})
    reader = made(TaskContext(0), SCHEMA, lambda _: iter(()))
    with pytest.raises(ContractError, match=r"Careless.initialize_state\(\) returned None.*SplitProgress"):
        reader.add_splits([MemorySplit("a", 0, 1)])
    reader.close()
