"""A source is shown by the id that a user gave it, otherwise by what it reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.watermark_alignment.support.command import Run
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.monitoring.source_names import source_names
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.recordings import Member
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

ONE, TWO, THREE = (f"0123456{n}-0123456789abcde{n}" for n in range(3))


def told(source: str, reads: str, began: int = 1) -> MemberInfo:
    return MemberInfo(entry(source, reads=reads, began=began))


def names(*told_by: tuple[str, MemberInfo]) -> dict[str, str]:
    news = {Member("g", source): about for source, about in told_by}
    return {member.source: name for member, name in source_names(news, dict.fromkeys(news, ())).items()}


def test_an_id_of_the_user_is_the_name() -> None:
    assert names(("web clicks", told("web clicks", "clicks"))) == {"web clicks": "web clicks"}


def test_names_are_unique_within_the_table() -> None:
    """Sources that read the same have numbers in their names, the later one the greater number.

    Names differ from ids too.
    """
    assert names(
        (ONE, told(ONE, "clicks", began=9)),
        (TWO, told(TWO, "clicks", began=5)),
        (THREE, told(THREE, "/data/history")),
        ("clicks", told("clicks", "views")),
    ) == {ONE: "clicks (3)", TWO: "clicks (2)", THREE: "/data/history", "clicks": "clicks"}


def test_sources_of_an_earlier_release_keep_their_ids() -> None:
    assert names((ONE, told(ONE, ""))) == {ONE: ONE}


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    """A table with rows and an entry of a source without an id of the user."""
    made = SplitWatermarkTable(str(tmp_path / "table"), {})
    note = BatchNote("web", ONE, "0123456789abcde0", 1, 2500, 2, reads="clicks")
    made.append("one", 1, [replace(row, source=ONE) for row in split_rows(1)], {KEY: note.to_text()})
    there = entry(ONE, group="web", reads="clicks", waiting=1, held_by="clicks-3", timeout_ms=10**15)
    made.note({MEMBER: there.to_text()})
    return made


def test_a_name_with_spaces_is_in_quotes_in_a_sentence(tmp_path: Path, run: Run) -> None:
    hybrid = "Delta table /data/history, then a source made at the switch"
    made = SplitWatermarkTable(str(tmp_path / "table"), {})
    note = BatchNote("web", ONE, "0123456789abcde0", 1, 2500, 2, reads=hybrid)
    made.append("one", 1, [replace(row, source=ONE) for row in split_rows(1)], {KEY: note.to_text()})
    there = entry(ONE, group="web", reads=hybrid, waiting=1, held_by="clicks-3", timeout_ms=10**15)
    made.note({MEMBER: there.to_text()})
    out = run("status", made.uri)[1]
    assert f"1 split of source '{hybrid}' waits for clicks-3." in out
    assert f"Watermarks of source '{hybrid}' are planned" in " ".join(out.split())


def test_hashes_are_in_no_view(table: SplitWatermarkTable, run: Run) -> None:
    out = run("status", table.uri)[1]
    assert ONE[:8] not in out
    assert "1 split of source clicks waits for clicks-3." in out
    assert "Watermarks of source clicks are planned" in out
    assert plot(table).axes[0].get_title() == "clicks"
    assert plot(table, sources=["clicks"]).axes[0].get_title() == "clicks"


def test_the_table_keeps_the_id(table: SplitWatermarkTable, run: Run) -> None:
    [first, *_] = json.loads(run("status", table.uri, "--json")[1])
    assert (first["source"], first["name"]) == (ONE, "clicks")
