"""Tests of what entries repeat, so that monitoring knows it though the log of the table has lost it. No JVM."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import pytest
from deltalake import DeltaTable
from rich.console import Console

from flip27_stream.errors import AlignmentError
from tests.spark.support.members import beat, group_at, step
from tests.support.module_time import replace_time
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group import group_log
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.group_log import NOTE_EVERY_S, GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.group.own_entry import OwnEntry
from watermark_alignment.monitoring.findings import findings
from watermark_alignment.monitoring.plotting.runs import read_runs
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.monitoring.status_view import render, to_json
from watermark_alignment.table.batch_note import KEY as NOTE
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.recordings import LOG_REACH_MS
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def newest(path: Path) -> dict[str, str]:
    """Returns the newest commit of the table."""
    commit: dict[str, str] = DeltaTable(str(path)).history(1)[0]
    return commit


def test_an_entry_says_since_when_the_same_splits_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is kept while the same splits wait for the same split, whatever else changes."""
    clock = iter(range(1000, 2000, 100))
    monkeypatch.setattr("watermark_alignment.group.own_entry.now_ms", lambda: next(clock))
    own = OwnEntry(entry("clicks"))
    found = []
    for progress, held_by, waits in (
        (1, None, ()),
        (2, "a", ("b", "c")),
        (3, "a", ("b", "c")),
        (4, "a", ("b",)),
        (5, "b", ("b",)),
        (6, None, ()),
    ):
        own.announce(None, 7, waiting=len(waits), held_by=held_by, progress=progress, waits=(waits, False))
        found.append(own.entry.again().waiting_since)
    assert found == [None, 1100, 1100, 1300, 1400, None]
    own.announce(None, 7, waiting=1, held_by="a", progress=7, waits=(("b",), False))
    assert own.entry.waiting_since == 1600
    assert own.entry.leaving().waiting_since is None


def test_entries_of_older_releases_are_read() -> None:
    told = entry("clicks", waiting_since=5, max_drift_ms=10)
    assert Entry.from_text(told.to_text()) == told
    older = {
        field: value
        for field, value in asdict(told).items()
        if field not in ("waiting_since", "max_drift_ms")
    }
    assert Entry.from_text(json.dumps(older)) == replace(told, waiting_since=None, max_drift_ms=None)


@pytest.mark.parametrize("field", ["waiting_since", "max_drift_ms"])
@pytest.mark.parametrize("value", ["5", 5.0, False, []])
def test_an_entry_with_a_value_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match="must be whole numbers"):
        Entry.from_text(json.dumps(asdict(entry("clicks")) | {field: value}))


def test_max_drift_is_known_without_a_note() -> None:
    """A run that has recorded no batch yet publishes its option with its entries."""
    note = BatchNote("g", "clicks", "lineage", 1, 20, 0)
    told = entry("clicks", max_drift_ms=10)
    assert MemberInfo(told).max_drift_ms == 10
    assert MemberInfo(told, note=note).max_drift_ms == 10, "the option of the newest run"
    assert MemberInfo(entry("clicks"), note=note).max_drift_ms == 20
    assert MemberInfo(entry("clicks")).max_drift_ms is None
    assert MemberInfo(told).max_drift_of_batch_ms == 10
    assert MemberInfo(told, note=note).max_drift_of_batch_ms == 20, "the option of the run of the batch"
    assert MemberInfo(entry("clicks")).max_drift_of_batch_ms is None


@pytest.mark.parametrize(("planned_by", "is_above"), [(3000, False), (2999, True)])
@pytest.mark.parametrize("later", [1, 3600_000])
def test_a_drift_is_judged_by_the_option_of_its_batch(
    tmp_path: Path, planned_by: int, is_above: bool, later: int
) -> None:
    """A query that was restarted with another max-drift reports no drift that its former run allowed."""
    table = SplitWatermarkTable(str(tmp_path), {})
    table.open()
    told = BatchNote("web", "clicks", "lineage", 1, planned_by, 0)
    table.append("clicks/1", 1, split_rows(1)[:1], {NOTE: told.to_text()})
    table.note({MEMBER: entry("clicks", group="web", lineage="lineage", max_drift_ms=later).to_text()})
    now = START_MS + 60_000
    status = StatusReader(table).read(now)
    assert [split.drift for split in status.splits] == [3000]
    assert ("drift" in {finding.about[0] for finding in findings(status, ["lineage"], now)}) is is_above
    shown = Console(width=200, force_terminal=True, file=StringIO())
    shown.print(render(status, now))
    assert ("\x1b[1;31m" in shown.file.getvalue()) is is_above  # type: ignore[attr-defined]
    [run] = read_runs(table, "web", None, 10)
    assert run.max_drift_ms == planned_by
    assert {split["max_drift_ms"] for split in json.loads(to_json(status, now))} == {later}


def test_the_note_is_repeated_before_the_log_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest note is in a commit with an entry, after a third of the time for which the log is kept.

    A commit that failed does not count.
    """
    assert NOTE_EVERY_S * 1000 == LOG_REACH_MS / 3
    clock = [1000.0]
    replace_time(monkeypatch, "watermark_alignment.group.group_log", monotonic=lambda: clock[0])
    notes = [""]
    log = GroupLog(SplitWatermarkTable(str(tmp_path), {}), "g", 1000, note=lambda: notes[-1])

    def repeated() -> str | None:
        log.publish(entry("clicks"))
        commit = newest(tmp_path)
        assert MEMBER in commit
        return commit.get(NOTE)

    clock[0] += NOTE_EVERY_S
    assert repeated() is None, "no batch was recorded"
    notes.append("first")
    assert repeated() == "first"
    clock[0] += NOTE_EVERY_S - 1
    notes.append("second")
    assert repeated() is None
    clock[0] += 1

    def failing(_: object, metadata: object) -> int:
        raise AlignmentError("The store is down")

    with monkeypatch.context() as down:
        down.setattr(SplitWatermarkTable, "note", failing)
        with pytest.raises(AlignmentError):
            log.publish(entry("clicks"))
    assert [repeated(), repeated()] == ["second", None]


def test_a_query_that_stalls_repeats_its_note_and_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner of a query publishes max-drift, the time of the wait and the note on its newest batch."""
    monkeypatch.setattr(group_log, "NOTE_EVERY_S", 0.0)
    with group_at(tmp_path / "table") as make:
        query = make({"a": [100], "b": [100, 500]})
        while step(query) is not None:
            pass
        query.coordinator._recorder.flush()  # type: ignore[union-attr]
        for _ in range(2):
            beat(query)
        commit = newest(tmp_path / "table")
    told, note = Entry.from_text(commit[MEMBER]), BatchNote.from_text(commit[NOTE])
    assert told.left is False
    assert (told.waiting, told.held_by, told.waits) == (1, "a", ("b",))
    assert told.waiting_since is not None
    assert 0 <= int(commit["timestamp"]) - told.waiting_since < 60_000
    assert told.max_drift_ms == note.max_drift_ms == 10
    assert (note.batch, note.lineage) == (told.progress, told.lineage)
