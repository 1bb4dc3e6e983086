"""Tests of the status of splits, which is computed from the newest rows of a table. No test here needs a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.group_view import Entry, Waits, who_waits
from watermark_alignment.monitoring.status import BATCHES, SplitMetrics, StatusReader
from watermark_alignment.planner import Plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.recordings import Member, Recordings
from watermark_alignment.table.split_rows import SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

NOW = START_MS + 60_000


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def fill(table: SplitWatermarkTable, batches: Sequence[int], source: str = "clicks", run: int = 1) -> None:
    for batch in batches:
        later = (run - 1) * 3_600_000
        rows = [replace(row, recorded_at=row.recorded_at + later) for row in split_rows(batch, source=source)]
        table.append(f"{source}/{run}", batch, rows, note(batch, source))


def note(batch: int, source: str = "clicks", unreported: int = 0) -> Mapping[str, str]:
    return {KEY: BatchNote("web", source, f"lineage of {source}", batch, 5000, unreported).to_text()}


def entry(source: str = "clicks", *, left: bool = False) -> Mapping[str, str]:
    told = Entry(
        group="web",
        source=source,
        lineage=f"lineage of {source}",
        run="run",
        began=START_MS,
        definition="definition",
        where="a process",
        timeout_ms=60_000,
        left=left,
    )
    return {MEMBER: told.to_text()}


def read(table: SplitWatermarkTable, now: int = NOW) -> list[SplitMetrics]:
    return list(StatusReader(table).read(now).splits)


def test_status_has_the_newest_row_of_every_split(table: SplitWatermarkTable) -> None:
    fill(table, range(30))
    fill(table, range(5), source="views")
    splits = read(table)
    assert [(s.source, s.split, s.batch) for s in splits] == [
        *(("clicks", f"clicks-{i}", 29) for i in range(4)),
        *(("views", f"clicks-{i}", 4) for i in range(4)),
    ]
    newest = START_MS + 29_000
    second = splits[1]
    assert (second.watermark, second.recorded_at, second.drift) == (newest - 1001, newest, 2000)
    assert second.lag == NOW - (newest - 1001)
    assert second.status is SplitStatus.ACTIVE


def test_rates_are_over_the_newest_batches(table: SplitWatermarkTable) -> None:
    """Rates are computed over the newest ten batches, here with twenty rows a second. Older batches do not count."""
    fill(table, range(30))
    words = dict.fromkeys((36, 37), "PAUSED") | {38: "IDLE"}
    for batch in range(30, 40):
        rows = [replace(r, status=words.get(batch, "ACTIVE"), rows=20) for r in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    one = read(table)[0]
    assert BATCHES == 10
    assert one.rows_per_second == 20
    assert dict(one.per_second) == {
        SplitStatus.ACTIVE: 700,
        SplitStatus.PAUSED: 200,
        SplitStatus.IDLE: 100,
    }


def test_one_batch_has_no_rates(table: SplitWatermarkTable) -> None:
    fill(table, [0])
    one = read(table)[0]
    assert one.rows_per_second is None
    assert set(one.per_second.values()) == {None}


def test_of_batches_recorded_at_one_time_the_last_counts(table: SplitWatermarkTable) -> None:
    for batch in (0, 1, 2, 3):
        rows = [replace(row, recorded_at=START_MS) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    assert {(s.batch, s.rows_per_second) for s in read(table)} == {(3, None)}


def test_an_unknown_watermark_stays_unknown(table: SplitWatermarkTable) -> None:
    """An unknown watermark stays ``None``, with no value in its place (I10)."""
    table.append("clicks/1", 0, [replace(split_rows(0)[0], watermark=None, drift_ms=None)], {})
    [one] = read(table)
    assert (one.watermark, one.lag, one.drift) == (None, None, None)


def test_a_run_without_the_checkpoint_of_the_last_begins_anew(table: SplitWatermarkTable) -> None:
    """A run without the checkpoint of the run before has its own rates: the hour between the runs does not count."""
    fill(table, range(20))
    fill(table, range(3), run=2)
    one = read(table)[0]
    assert (one.batch, one.rows_per_second) == (2, 10)


def test_a_split_that_is_gone_is_not_shown(table: SplitWatermarkTable) -> None:
    fill(table, range(3))
    table.append("clicks/1", 3, split_rows(3)[:2], {})
    assert [s.split for s in read(table)] == ["clicks-0", "clicks-1"]


def test_splits_are_in_natural_order(table: SplitWatermarkTable) -> None:
    table.append("clicks/1", 0, split_rows(0, splits=11), {})
    assert [s.split for s in read(table)] == [f"clicks-{i}" for i in range(11)]


def test_a_second_look_takes_in_new_rows(table: SplitWatermarkTable) -> None:
    """A second read takes in new rows, also after a maintenance round, and rows of a source whose clock is slow."""
    fill(table, range(12))
    reader = StatusReader(table)
    assert {s.batch for s in reader.read(NOW).splits} == {11}
    fill(table, [12])
    slow = [replace(row, source="views", recorded_at=row.recorded_at - 300_000) for row in split_rows(1)]
    table.append("views/1", 1, slow, {})
    assert Maintenance(table, clock=lambda: NOW).run()
    again = reader.read(NOW).splits
    assert {(s.source, s.batch) for s in again} == {("clicks", 12), ("views", 1)}
    assert again == StatusReader(table).read(NOW).splits


def test_rows_that_a_failed_look_missed_are_taken_in_by_the_next(
    table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table, range(2))
    reader = StatusReader(table)
    reader.read(NOW)
    fill(table, [2])

    def unreadable(*_: object) -> None:
        raise AlignmentError("out of reach")

    with monkeypatch.context() as patched:
        patched.setattr(Recordings, "rows", unreadable)
        with pytest.raises(AlignmentError, match="out of reach"):
            reader.read(NOW)
    assert {s.batch for s in reader.read(NOW).splits} == {2}


def test_a_table_made_anew_is_noticed(table: SplitWatermarkTable, tmp_path: Path) -> None:
    fill(table, range(3))
    reader = StatusReader(table)
    reader.read(NOW)
    (tmp_path / "table").rename(tmp_path / "before")
    again = SplitWatermarkTable(table.uri, {})
    fill(again, range(2), source="views")
    assert {(s.source, s.batch) for s in reader.read(NOW).splits} == {("views", 1)}


def test_status_has_the_entries_of_members(table: SplitWatermarkTable) -> None:
    fill(table, range(2))
    table.append("clicks/1", 2, split_rows(2), note(2, unreported=3))
    table.note(entry())
    table.note(entry("views", left=True))
    table.note({MEMBER: "no entry", KEY: "[]"})
    reader = StatusReader(table)
    members = reader.read(NOW).members
    clicks, views = (members[Member("web", name)] for name in ("clicks", "views"))
    assert clicks.note is not None
    assert (clicks.note.batch, clicks.note.max_drift_ms, clicks.note.unreported) == (2, 5000, 3)
    assert clicks.is_there(clicks.stored_at + 60_000) is True
    assert clicks.is_there(clicks.stored_at + 60_001) is False
    assert views.is_there(views.stored_at) is False
    table.append("clicks/1", 3, split_rows(3), note(3))
    clicks = reader.read(NOW).members[Member("web", "clicks")]
    assert clicks.note is not None
    assert clicks.note.unreported == 0
    assert clicks.entry is not None, "what was told before stands"


def test_a_table_of_earlier_releases_has_no_entries_of_members(table: SplitWatermarkTable) -> None:
    table.append("clicks/1", 0, split_rows(0), {"watermark": "1"})
    status = StatusReader(table).read(NOW)
    assert status.info_of(status.splits[0].member).note is None
    assert status.info_of(status.splits[0].member).is_there(NOW) is None


def test_an_empty_table_has_no_splits(table: SplitWatermarkTable) -> None:
    table.open()
    assert read(table) == []


def test_a_missing_table_is_an_error_and_is_not_created(table: SplitWatermarkTable, tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match=r"table' cannot be read: there is no Delta table"):
        read(table)
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_other_columns_is_an_error(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "other"), pa.table({"group": ["web"]}))
    with pytest.raises(AlignmentError, match="has no column 'source'"):
        read(SplitWatermarkTable(str(tmp_path / "other"), {}))


def test_names_may_have_any_characters(table: SplitWatermarkTable) -> None:
    odd: list[SplitRow] = [replace(row, group="o'clock", source='a "b" -- c') for row in split_rows(0)]
    table.append("odd/1", 0, odd, {})
    assert {(s.group, s.source) for s in read(table)} == {("o'clock", 'a "b" -- c')}


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(
    ("waits", "all_but"), [(("clicks-1", "clicks-3"), False), (("clicks-0", "clicks-2"), True)]
)
def test_splits_that_wait_by_the_last_plan_are_paused(
    table: SplitWatermarkTable, waits: tuple[str, ...], all_but: bool, left: bool
) -> None:
    """Splits that wait by the last plan are PAUSED, although a plan that moves nothing writes no row.

    No split of a source that has left waits.
    """
    fill(table, range(2))
    text = entry(left=left)[MEMBER]
    told = replace(Entry.from_text(text), timeout_ms=10**15, waiting=2, waits=waits, waits_all_but=all_but)
    table.note({MEMBER: told.to_text()})
    assert Entry.from_text(told.to_text()) == told
    states = [str(split.status) for split in read(table)]
    assert states == (["ACTIVE"] * 4 if left else ["ACTIVE", "PAUSED", "ACTIVE", "PAUSED"])


def test_the_shorter_list_of_waiting_and_other_splits_is_published() -> None:
    def waits(paused: int, active: int) -> Waits:
        states = {f"p{n:03}": SplitStatus.PAUSED for n in range(paused)}
        states |= {f"a{n:03}": SplitStatus.ACTIVE for n in range(active)}
        return who_waits(Plan(None, {}, states, {}, None, held_by="a000"))

    assert waits(0, 3) == ((), False)
    assert waits(1, 3) == (("p000",), False)
    assert waits(999, 1) == (("a000",), True)
    for paused, active in ((200, 200), (200, 150), (150, 200)):
        some = tuple(f"p{n:03}" for n in range(100))
        assert waits(paused, active) == (some, False), "a commit stays small"
