"""Sources whose commits are no longer in the table's log, or are older than many commits of other sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.watermark_alignment.support.command import MINUTE, Run
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.plots import legend
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.monitoring.plotting.runs import read_runs
from watermark_alignment.monitoring.source_names import source_names
from watermark_alignment.table import recordings
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.recordings import Member, Recording, Recordings
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

OLD, NEW = (f"0123456{n}-0123456789abcde{n}" for n in range(2))


def append(table: SplitWatermarkTable, source: str, batch: int, at: int, topic: str, *, told: bool) -> None:
    rows = [
        replace(row, source=source, split=f"{topic}-{n}", recorded_at=at)
        for n, row in enumerate(split_rows(batch))
    ]
    note = BatchNote("web", source, source[9:], batch, 2500, 0, reads=topic)
    there = entry(source, group="web", reads=topic)
    table.append(source, batch, rows, {KEY: note.to_text(), MEMBER: there.to_text()} if told else {})


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    """A table of two sources without ids of a user. The log has notes of the second one only."""
    made = SplitWatermarkTable(str(tmp_path / "table"), {})
    for batch in range(2):
        append(made, OLD, batch, START_MS - 60 * MINUTE + batch * 1000, "orders", told=False)
    for batch in range(2):
        append(made, NEW, batch, START_MS + batch * 1000, "clicks", told=True)
    return made


@pytest.mark.parametrize(
    ("splits", "name"),
    [
        (["clicks-0", "clicks-1", "clicks-10"], "clicks"),
        (["clicks-7"], "clicks"),
        (["web-clicks-1", "web-clicks-12"], "web-clicks"),
        (["orders_a-0", "orders_b-0"], "orders"),
        (["a-0", "b-0"], "a and others"),
        (["/a", "/b"], "/a and others"),
        (["stream/shardId-000000000001", "stream/shardId-000000000002"], "stream"),
        (["/data/history/part-1.parquet", "/data/history/part-2.parquet"], "/data/history"),
        (["1:clicks-0", "1:clicks-1"], "clicks"),
        (["persistent://public/default/clicks-partition-0"], "persistent://public/default/clicks"),
        (["0123456789"], "0123456789"),
    ],
)
def test_a_source_without_notes_is_named_by_its_splits(splits: list[str], name: str) -> None:
    assert source_names({}, {Member("g", OLD): splits}) == {Member("g", OLD): name}


def test_names_by_splits_are_unique() -> None:
    news = {Member("g", NEW): MemberInfo(entry(NEW, reads="clicks"))}
    names = source_names(news, {Member("g", OLD): ["clicks-1"], Member("g", NEW): ["clicks-1"]})
    assert sorted(names.values()) == ["clicks", "clicks (2)"]


def test_a_source_whose_notes_are_gone_has_a_name(table: SplitWatermarkTable, run: Run) -> None:
    """``status`` names a source of whose notes the log has none by its splits, and says that it is gone."""
    out = run("status", table.uri)[1]
    assert OLD[:8] not in out
    assert "orders (gone)" in out
    assert plot(table, sources=["orders"]).axes[0].get_title() == "orders"
    assert (
        "Its sources: 'clicks', 'orders'" in run("plot", table.uri, "--source", "nothing", "-o", "p.png")[2]
    )


def test_a_group_has_the_names_that_the_table_has(table: SplitWatermarkTable, run: Run) -> None:
    """A name does not depend on which splits are shown."""
    rows = [replace(row, source=f"{OLD[:-1]}f", group="mobile") for row in split_rows(1)]
    table.append("mobile", 1, rows, {})
    both = run("status", table.uri)[1]
    assert "clicks (2)" in both
    assert "clicks (2)" in run("status", table.uri, "--group", "web")[1]


def test_the_log_is_read_for_a_quarter_of_an_hour(
    table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait is drawn as such, however many commits came after it within a quarter of an hour."""
    monkeypatch.setattr(recordings, "_FEWEST_COMMITS", 4)
    waits = entry(NEW, group="web", waiting=1, held_by="clicks-0", timeout_ms=60_000, waits=("clicks-1",))
    table.note({MEMBER: waits.to_text()})
    for batch in range(2, 12):
        append(table, NEW, batch, START_MS + batch * 1000, "clicks", told=True)
    assert "paused" in legend(plot(table, sources=["clicks"]))


def test_a_picture_reads_the_rows_of_its_sources_only(
    table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table can have thousands of sources that are gone, each of which began without its checkpoint."""
    asked: list[Member] = []
    rows = Recordings.rows

    def spied(
        self: Recordings, batches: Mapping[Member, range], newest: Mapping[Member, Recording]
    ) -> pa.Table:
        asked.extend(batches)
        return rows(self, batches, newest)

    monkeypatch.setattr(Recordings, "rows", spied)
    [run] = read_runs(table, None, ["clicks"], 10)
    assert run.name == "clicks"
    assert asked == [Member("web", NEW)]
