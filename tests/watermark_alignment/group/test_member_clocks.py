"""Whether a member is there does not depend on the clock of its machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import split_rows
from tests.watermark_alignment.support.writer_clocks import shift_clock
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.monitoring.metrics import samples_of
from watermark_alignment.monitoring.status import Status, StatusReader
from watermark_alignment.table.recordings import Member
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

CLICKS = Member("web", "clicks")
MINUTE, HOUR = 60_000, 3_600_000
TOLD = entry("clicks", group="web", timeout_ms=MINUTE)


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    return table


def now_ms() -> int:
    return int(time.time() * 1000)


def read(table: SplitWatermarkTable, now: int) -> Status:
    return StatusReader(SplitWatermarkTable(table.uri, {})).read(now)


@pytest.mark.parametrize("ahead", [-2 * MINUTE, 0, HOUR])
def test_the_clock_of_a_member_does_not_matter(table: SplitWatermarkTable, ahead: int) -> None:
    table.note({MEMBER: TOLD.to_text()})
    shift_clock(table, ahead)
    now = now_ms()
    alive, dead = read(table, now), read(table, now + 2 * MINUTE)
    assert alive.is_there(CLICKS, now) is True
    assert "currentWatermark" in {sample.name for sample in samples_of(alive, now)}
    assert dead.is_there(CLICKS, now + 2 * MINUTE) is False


def test_a_store_whose_clock_is_ahead_keeps_no_member_alive(table: SplitWatermarkTable) -> None:
    table.note({MEMBER: TOLD.to_text()})
    for commit in (Path(table.uri) / "_delta_log").iterdir():
        os.utime(commit, (time.time() + 3600, time.time() + 3600))
    now = now_ms()
    assert read(table, now).is_there(CLICKS, now) is True
    assert read(table, now).is_there(CLICKS, now + 2 * MINUTE) is False


def test_a_commit_of_a_clock_that_is_ahead_hides_no_entry(table: SplitWatermarkTable) -> None:
    """The span of the newest commits decides how many are read at once."""
    table.note({MEMBER: TOLD.to_text()})
    for n in range(210):
        table.note({"some": "entry"})
        if n == 100:
            shift_clock(table, HOUR)
    assert read(table, now_ms()).info_of(CLICKS).entry == TOLD
