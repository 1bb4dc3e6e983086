"""The counters of readers and enumerator reach the commit of each batch and ``status --json``. No JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from deltalake import DeltaTable

from flip27_stream.api import InputStatus, MetricGroup, ReaderOutput, SourceEvent, SourceReaderContext
from flip27_stream.spark.reporting.reports import TaskReport
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemoryReader, MemoryWorld
from watermark_alignment.__main__ import main
from watermark_alignment.table.batch_note import KEY, BatchNote


class CountingReader(MemoryReader):
    """A reader that counts the ranges that it reads."""

    def __init__(self, world: MemoryWorld, context: SourceReaderContext) -> None:
        super().__init__(world)
        self._ranges = context.metric_group().counter("ranges_in")

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        status = super().poll_next(output)
        self._ranges.inc(status is InputStatus.MORE_AVAILABLE)
        return status


class CountingEnumerator(MemoryEnumerator):
    def start(self) -> None:
        super().start()
        self.context.metric_group().counter("starts").inc()


def test_counters_reach_the_commit_and_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = DrivenQuery(MemoryWorld({"a": [100, 101, 102], "b": [100, 101]}), tmp_path / "table")
    query.source.reader, query.source.enumerator = CountingReader, CountingEnumerator
    while (query.step(limit=2)) is not None:
        pass
    batches = [batch for batch in query.batches if batch]
    ranges = sum(len({split for split, _ in batch}) for batch in batches)
    assert ranges > 2
    query.coordinator._recorder.flush()  # type: ignore[union-attr]
    assert main(["status", str(query.table), "--json"]) == 0
    query.coordinator.close()
    shown = {json.dumps(split["metrics"], sort_keys=True) for split in json.loads(capsys.readouterr().out)}
    assert shown == {json.dumps({"ranges_in": ranges, "starts": 1})}
    notes = [BatchNote.from_text(c[KEY]) for c in DeltaTable(str(query.table)).history() if KEY in c]
    assert sorted(note.metrics.get("ranges_in", 0) for note in notes)[-1] == ranges


def test_the_counters_of_a_task_that_ran_twice_count_once(tmp_path: Path) -> None:
    query = DrivenQuery(MemoryWorld({"a": [100]}), tmp_path / "table")
    query.source.reader = CountingReader
    query.step(limit=9)
    start = query.offset
    query.world.logs["a"].append(101)
    query.offset = query.coordinator.latest_offset(start, 9)
    for _ in range(2):
        assert query.run(start, query.offset) == [("a", 101)]
    query.step(limit=9)
    query.coordinator.close()
    notes = [BatchNote.from_text(c[KEY]) for c in DeltaTable(str(query.table)).history() if KEY in c]
    assert max(note.metrics.get("ranges_in", 0) for note in notes) == 2


def test_a_report_carries_counters() -> None:
    group = MetricGroup()
    group.counter("rows").inc(3)
    assert group.counter("rows") is group.counter("rows")
    report = TaskReport(1, 0, 0, metrics=group.snapshot())
    assert TaskReport.from_bytes(report.to_bytes()).metrics == {"rows": 3}
    with pytest.raises(TypeError, match="not of type int"):
        TaskReport.from_bytes(report.to_bytes().replace(b'"rows": 3', b'"rows": "3"'))


@dataclass(frozen=True, slots=True)
class _FileRead(SourceEvent):
    @property
    def file(self) -> object:
        return self.payload


@dataclass(frozen=True)
class _ParsedOnce(SourceEvent):
    @cached_property
    def parsed(self) -> frozenset[str]:
        return frozenset([str(self.payload)])


def test_events_of_subclasses_are_sent_as_their_fields() -> None:
    """Slots, and attributes that a subclass computes, change nothing in a report."""
    parsed = _ParsedOnce("parsed", "b")
    assert parsed.parsed
    report = TaskReport(1, 0, 0, events=[_FileRead("read", ["a"]), parsed])
    assert TaskReport.from_bytes(report.to_bytes()).events == (
        SourceEvent("read", ["a"]),
        SourceEvent("parsed", "b"),
    )


def test_a_note_of_an_older_release_has_no_counters() -> None:
    note = BatchNote("g", "s", "l", 1, 10, 0, metrics={"rows": 3})
    older = json.loads(note.to_text())
    del older["metrics"]
    assert BatchNote.from_text(json.dumps(older)).metrics == {}
    assert BatchNote.from_text(note.to_text()) == note
