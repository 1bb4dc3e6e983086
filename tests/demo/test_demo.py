"""A small run of the whole demo, as a user starts it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flip27_stream.demo.comparison import ALIGNED, BUILT_IN
from tests.demo.support.small_run import shown_by
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


@pytest.mark.jvm
def test_the_demo_shows_that_only_the_aligned_source_keeps_every_row(tmp_path: Path) -> None:
    leftover = tmp_path / "demo-output" / "leftover"
    leftover.parent.mkdir()
    leftover.touch()

    shown = shown_by("flip27_stream.demo", tmp_path, records=24_000, rows_per_batch=6_000)

    built_in, aligned = row(shown, "rows lost")
    assert built_in > 0
    assert aligned == 0
    assert row(shown, "rows written") == [24_000, 24_000]
    assert row(shown, "rows counted") == [24_000 - built_in, 24_000]
    assert row(shown, "batches") == [
        batches_in_the_picture(tmp_path, source) for source in (BUILT_IN, ALIGNED)
    ]
    assert not leftover.exists()


def batches_in_the_picture(folder: Path, source: str) -> int:
    """Returns the number of batches of a source in the split-watermark table, from which the picture is drawn."""
    [log] = (folder / "demo-output").glob("**/split_watermarks/_delta_log")
    rows = SplitWatermarkTable(str(log.parent), {}).rows(source=source)
    return len(set(rows["batch"].to_pylist()))


def row(shown: str, name: str) -> list[int]:
    """Returns the two numbers in a row of the demo's table."""
    cells = re.search(rf"│ {name} +│ +([\d,]+) │ +([\d,]+) │", shown)
    assert cells, shown
    return [int(cell.replace(",", "")) for cell in cells.groups()]
