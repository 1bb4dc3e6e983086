"""A query whose enumerator records all calls, and whose readers send events to it. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flip27_stream.api import (
    InputStatus,
    ReaderOutput,
    SourceEvent,
    SourceReaderContext,
)
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import (
    LogEnumerator,
    MemoryReader,
    MemorySource,
    MemorySplit,
    MemoryWorld,
)

LOGS: Mapping[str, list[int | None]] = {"a": [1, 2], "b": [3], "c": [4, 5], "d": [6]}


class Diary(LogEnumerator):
    """An enumerator that records all its calls, and asks every reader for an echo."""

    def start(self) -> None:
        super().start()
        self.world.calls.append("start")

    def add_reader(self, subtask_id: int) -> None:
        self.world.calls.append(f"reader {subtask_id}")

    def add_splits_back(self, splits: Sequence[MemorySplit], subtask_id: int) -> None:
        self.world.calls.append(f"back {[s.name for s in splits]} from {subtask_id}")

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self.world.calls.append(f"request of {subtask_id} at {requester_hostname}")

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        self.world.calls.append(f"event {event.name} of {subtask_id}: {event.payload}")

    def close(self) -> None:
        self.world.calls.append("close")


class TalkingReader(MemoryReader):
    """A reader that reports the events that it received, and requests a split."""

    def __init__(self, world: MemoryWorld, context: SourceReaderContext) -> None:
        super().__init__(world)
        self._context = context
        self._got: list[str] = []

    def handle_source_events(self, event: SourceEvent) -> None:
        self._got.append(event.name)

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        status = super().poll_next(output)
        if status is InputStatus.END_OF_INPUT:
            self._context.send_source_event_to_coordinator(SourceEvent("got", [*self._got]))
            self._context.send_split_request()
        return status


def talking(
    logs: Mapping[str, list[int | None]] = LOGS, parallelism: int = 2, enumerator: type[Diary] = Diary
) -> DrivenQuery:
    world = MemoryWorld({name: list(times) for name, times in logs.items()})
    source = MemorySource(world, enumerator=enumerator, reader=TalkingReader)
    return DrivenQuery(world, None, source=source, parallelism=parallelism)


def said(query: DrivenQuery, *beginnings: str) -> list[str]:
    """Returns the recorded calls that begin with one of these texts, and removes them from the record."""
    found = [c for c in query.world.calls if c.startswith(beginnings)]
    query.world.calls[:] = [c for c in query.world.calls if c not in found]
    return found


def enumerator_of(query: DrivenQuery) -> Any:
    return query.coordinator._enumerator
