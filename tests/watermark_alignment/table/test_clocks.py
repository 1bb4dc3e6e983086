"""The status and the picture of sources on machines whose clocks differ, or were set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.watermark_alignment.support.command import MINUTE, Run
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.monitoring.plotting.runs import read_runs
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.recordings import Member, Recording, Recordings, Span
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

DAY = 24 * 60 * MINUTE
CLICKS, VIEWS = Member("web", "clicks"), Member("web", "views")


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def fill(
    table: SplitWatermarkTable, source: str, batches: Sequence[int], *, ahead: int = 0, run: int = 1
) -> None:
    """Appends batches of a source whose clock is ``ahead`` (ms)."""
    for batch in batches:
        rows = [replace(row, recorded_at=row.recorded_at + ahead) for row in split_rows(batch, source=source)]
        table.append(f"{source}/{run}", batch, rows, {})


def newest(reader: StatusReader) -> Mapping[str, int]:
    return {split.source: split.batch for split in reader.read(START_MS + MINUTE).splits}


@pytest.mark.parametrize("ahead", [11 * MINUTE, -11 * MINUTE, 3 * DAY, -3 * DAY])
def test_a_source_whose_clock_differs_freezes_no_other(table: SplitWatermarkTable, ahead: int) -> None:
    reader = StatusReader(table)
    for begin in range(0, 30, 10):
        fill(table, "clicks", range(begin, begin + 10), ahead=ahead)
        fill(table, "views", range(begin, begin + 10))
        assert newest(reader) == newest(StatusReader(table)) == {"clicks": begin + 9, "views": begin + 9}


def test_a_batch_recorded_before_the_clock_was_set_back_is_not_the_newest(table: SplitWatermarkTable) -> None:
    reader = StatusReader(table)
    fill(table, "clicks", [0, 1], ahead=3 * DAY)
    assert newest(reader) == {"clicks": 1}
    for begin in (2, 10):
        fill(table, "clicks", range(begin, begin + 8))
        assert newest(reader) == newest(StatusReader(table)) == {"clicks": begin + 7}
    assert {split.rows_per_second for split in reader.read(START_MS).splits} == {10}
    assert Maintenance(table, clock=lambda: START_MS).run(), "compaction"
    assert newest(reader) == newest(StatusReader(table)) == {"clicks": 17}


def test_a_clock_may_be_set_back_while_the_query_is_stopped(table: SplitWatermarkTable) -> None:
    """The batch that was running when the query was stopped leaves no rows."""
    reader = StatusReader(table)
    fill(table, "clicks", range(10), ahead=60 * MINUTE)
    assert newest(reader) == {"clicks": 9}
    fill(table, "clicks", range(11, 20))
    assert newest(reader) == newest(StatusReader(table)) == {"clicks": 19}


def test_a_run_without_a_checkpoint_is_not_taken_for_a_clock_that_was_set_back(
    table: SplitWatermarkTable,
) -> None:
    reader = StatusReader(table)
    fill(table, "clicks", range(20))
    assert newest(reader) == {"clicks": 19}
    fill(table, "clicks", range(5), run=2, ahead=60 * MINUTE)
    assert newest(reader) == newest(StatusReader(table)) == {"clicks": 4}
    assert Maintenance(table, clock=lambda: START_MS).run(), "compaction"
    assert newest(reader) == newest(StatusReader(table)) == {"clicks": 4}


def test_older_recordings_in_a_new_file_replace_no_newer_one(table: SplitWatermarkTable) -> None:
    """The slow clock of one source makes a look read the times of old batches of another one again."""
    fill(table, "clicks", range(10))
    known = Recordings(table).newest()
    slow = Span(START_MS * 1000, START_MS * 1000 + 3_000_000)
    assert (
        Recordings(table).newest(known, [slow]) == known == {CLICKS: Recording((START_MS + 9000) * 1000, 9)}
    )
    assert Recordings(table).newest({}, [slow]) == {CLICKS: Recording((START_MS + 3000) * 1000, 3)}


def test_a_look_reads_only_the_times_of_new_files(
    table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    real = Recordings.newest

    def noted(
        recordings: Recordings, known: Mapping[Member, Recording], within: Sequence[Span | None] | None
    ) -> dict[Member, Recording]:
        asked.append(within)
        return real(recordings, known, within)

    monkeypatch.setattr(Recordings, "newest", noted)
    fill(table, "clicks", range(5))
    reader = StatusReader(table)
    reader.read(START_MS)
    table.note({"an": "entry"})
    reader.read(START_MS)
    fill(table, "views", [7])
    reader.read(START_MS)
    at = (START_MS + 7000) * 1000
    assert asked == [None, [Span(at, at + 999)]], "a commit without rows is no reason to read"


def test_status_and_picture_show_all_sources_beside_one_from_the_future(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch is recorded three days ahead; then the clock is corrected. Another clock stays three days ahead."""
    monkeypatch.setattr("watermark_alignment.monitoring.plotting.runs.now_ms", lambda: START_MS + MINUTE)
    fill(table, "clicks", [0], ahead=3 * DAY)
    fill(table, "clicks", range(1, 20))
    fill(table, "views", range(20))
    fill(table, "ahead", range(20), ahead=3 * DAY)
    code, out, _ = run("status", table.uri)
    assert (code, [name in out for name in ("clicks", "views", "ahead")]) == (0, [True] * 3)
    runs = read_runs(table, None, None, 100)
    assert {one.member.source: one.batches.tolist() for one in runs} == {
        "ahead": list(range(20)),
        "clicks": list(range(1, 20)),
        "views": list(range(20)),
    }
