"""One loop drives a reader in tasks, in the hybrid source and in the test kit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.api import InputStatus, ReaderOutput, SourceEvent, SourceReader, SourceSplit
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import ConnectorError, ContractError
from flip27_stream.reader.drive import read_ranges
from tests.spark.support.sources.memory_source import MemorySplit

STEPS = [InputStatus.MORE_AVAILABLE, InputStatus.NOTHING_AVAILABLE, InputStatus.END_OF_INPUT]


class ScriptedReader(SourceReader[SourceSplit]):
    """A reader that answers as the test says, and records its calls."""

    def __init__(self, steps: Sequence[Any], left: Sequence[str] = (), *, comes: bool = True) -> None:
        self.calls: list[str] = []
        self._steps = list(steps)
        self._left = left
        self._comes = comes

    def start(self) -> None:
        self.calls.append("start")

    def add_splits(self, splits: Sequence[SourceSplit]) -> None:
        self.calls.append(f"add {','.join(split.split_id for split in splits)}")

    def handle_source_events(self, event: SourceEvent) -> None:
        self.calls.append(f"event {event.name}")

    def notify_no_more_splits(self) -> None:
        self.calls.append("no more")

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        status: InputStatus = self._steps.pop(0)
        return status

    def is_available(self) -> Future[None]:
        self.calls.append("wait")
        return super().is_available() if self._comes else Future()

    def snapshot_state(self) -> Sequence[SourceSplit]:
        return [MemorySplit(name) for name in self._left]

    def close(self) -> None:
        self.calls.append("close")
        raise OSError("an error of close() is only logged")


def driven(reader: object, **how: Any) -> list[InputStatus]:
    source: Any = SimpleNamespace(create_reader=lambda _: reader)
    nothing: Any = None
    return list(read_ranges(source, nothing, [PlannedRange(MemorySplit("a"), 2, 5)], nothing, **how))


def test_a_reader_gets_its_calls_in_order() -> None:
    reader = ScriptedReader(STEPS)
    assert driven(reader, events=[SourceEvent("hello")]) == STEPS
    assert reader.calls == ["start", "add a", "event hello", "no more", "wait", "close"]


def test_a_reader_without_records_fails_with_the_splits_that_are_left() -> None:
    reader = ScriptedReader(STEPS, left=["a"], comes=False)
    with pytest.raises(ConnectorError, match=r"no records for 0.01 s .*: splits a\."):
        driven(reader, timeout_s=0.01)
    assert reader.calls[-1] == "close"


def test_an_iterator_that_is_closed_early_closes_the_reader() -> None:
    reader = ScriptedReader(STEPS)
    source: Any = SimpleNamespace(create_reader=lambda _: reader)
    nothing: Any = None
    polls = read_ranges(source, nothing, [], nothing)
    next(polls)
    polls.close()
    assert reader.calls[-1] == "close"


@pytest.mark.parametrize(
    ("reader", "error"),
    [
        (ScriptedReader(["soon"]), r"poll_next\(\) returned 'soon'"),
        (
            ScriptedReader([InputStatus.END_OF_INPUT], left=["a", "b"]),
            r"snapshot_state\(\) still returns splits: a, b",
        ),
        (object(), r"create_reader\(\) returned <object"),
    ],
)
def test_a_reader_that_breaks_the_contract_fails(reader: object, error: str) -> None:
    with pytest.raises(ContractError, match=error):
        driven(reader)
