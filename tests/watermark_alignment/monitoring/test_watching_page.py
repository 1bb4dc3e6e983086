"""``docs/watching.md`` agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from tests.watermark_alignment.support.group_entries import entry
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.monitoring.dashboard import SPLIT_STATUS
from watermark_alignment.monitoring.status import BATCHES, SplitMetrics, Status
from watermark_alignment.monitoring.status_view import render, to_json
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.recordings import Member

PAGE = (Path(__file__).parents[3] / "docs" / "watching.md").read_text()
SECOND, MINUTE = 1000, 60_000
NOON = 1_772_366_400_000  # 2026-03-01 12:00


def split(number: int, status: SplitStatus, watermark: int, rate: float) -> SplitMetrics:
    return SplitMetrics(
        group="web",
        source="clicks",
        split=f"clicks-{number}",
        status=status,
        batch=412,
        recorded_at=NOON - 2100,
        watermark=watermark,
        lag=NOON - watermark,
        drift=0,
        rows_per_second=rate,
        per_second=dict.fromkeys((SplitStatus.ACTIVE, SplitStatus.PAUSED, SplitStatus.IDLE), 0),
    )


STATUS = Status(
    [
        split(0, SplitStatus.PAUSED, NOON - 55 * MINUTE - SECOND, 0),
        split(1, SplitStatus.ACTIVE, NOON - 68 * MINUTE - 30 * SECOND, 12_250),
    ],
    {
        Member("web", "clicks"): MemberInfo(
            entry("clicks", waiting=1, held_by="clicks-1"),
            entry_at=NOON,
            stored_at=NOON,
            note=BatchNote("web", "clicks", "lineage", 412, 300_000, 0),
        )
    },
)


def test_the_output_is_that_of_the_page() -> None:
    console = Console(width=100, highlight=False)
    with console.capture() as shown:
        console.print(render(STATUS, NOON))
    lines = [line.rstrip() for line in shown.get().splitlines() if line.strip()]
    printed = PAGE.split("```\n")[2].splitlines()
    assert lines == printed


def test_the_names_of_metrics_are_on_the_page() -> None:
    section = PAGE.split("## The names of metrics")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    keys = re.findall(r'"(\w+)":', to_json(STATUS, NOON))
    assert re.findall(r"`(\w+)`", " ".join(cells)) == keys[: len(keys) // 2]


def test_rates_are_over_as_many_batches_as_the_page_says() -> None:
    assert PAGE.count(f"over the newest {BATCHES} batches") == 2
    assert f"last.batch - {BATCHES} AND" in SPLIT_STATUS


def test_the_view_on_the_page_is_that_of_the_code() -> None:
    [view] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert view.partition("\n")[2] == SPLIT_STATUS.format(table="delta.`/delta/split_watermarks`")
