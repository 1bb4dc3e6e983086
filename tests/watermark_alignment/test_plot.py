from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flip27_stream.errors import AlignmentError
from watermark_alignment.plot import plot
from watermark_alignment.table import SplitWatermarkTable

from .table_rows import START_MS, split_rows

DAY_MS = 86_400_000


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def fill(table: SplitWatermarkTable, source: str, batches: int = 5, splits: int = 4, run: int = 1) -> None:
    for batch in range(batches):
        rows = [
            replace(row, recorded_at=row.recorded_at + run * 60_000)
            for row in split_rows(batch, source=source, splits=splits)
        ]
        table.append(f"{source}/{run}", batch, rows, {})


def drawn(line: Line2D) -> npt.NDArray[np.float64]:
    """Batches and watermarks, these in days since the epoch."""
    return np.asarray(line.get_xydata(), dtype=np.float64)


def legend(figure: Figure) -> Sequence[str]:
    return [text.get_text() for entry in figure.legends for text in entry.get_texts()]


def test_one_panel_per_source_and_one_line_per_split(table: SplitWatermarkTable, tmp_path: Path) -> None:
    fill(table, "clicks")
    fill(table, "views", splits=2)
    figure = plot(table.uri, sources=["views", "clicks"])
    views, clicks = figure.axes
    assert [panel.get_title() for panel in figure.axes] == ["views", "clicks"]
    assert (len(views.lines), len(clicks.lines)) == (2, 4)
    assert views.get_ylim() == clicks.get_ylim(), "both on one time axis"
    assert legend(figure) == ["clicks-0", "clicks-1", "clicks-2", "clicks-3"]
    assert [line.get_color() for line in views.lines] == [line.get_color() for line in clicks.lines[:2]]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_lines_show_the_watermarks(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=3)
    line = plot(table).axes[0].lines[1]
    assert drawn(line)[:, 0].tolist() == [0, 1, 2]
    millis = np.rint(drawn(line)[:, 1] * DAY_MS).tolist()
    assert millis == [START_MS + batch * 1000 - 1001 for batch in range(3)]


def test_an_unknown_watermark_is_a_gap(table: SplitWatermarkTable) -> None:
    """I10: unknown is null, and no value is drawn in its place."""
    for batch in range(3):
        row = split_rows(batch)[0]
        table.append("clicks/1", batch, [row if batch != 1 else replace(row, watermark=None)], {})
    [line] = plot(table).axes[0].lines
    assert np.isnan(drawn(line)[:, 1]).tolist() == [False, True, False]


def test_states_are_marked(table: SplitWatermarkTable) -> None:
    words = ["ACTIVE", "PAUSED", "IDLE", "FINISHED"]
    for batch in range(3):
        rows = [replace(row, status=word) for row, word in zip(split_rows(batch), words, strict=True)]
        table.append("clicks/1", batch, rows, {})
    figure = plot(table)
    assert legend(figure)[4:] == ["paused", "idle", "finished"]
    marked = [len(np.asarray(marks.get_offsets())) for marks in figure.axes[0].collections]
    assert sorted(marked, reverse=True)[:4] == [3, 3, 3, 0]


def test_splits_are_in_natural_order_and_many_have_a_small_legend(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=2, splits=12)
    names = legend(plot(table))
    assert names == [f"clicks-{i}" for i in range(12)]


def test_very_many_splits_have_no_legend(table: SplitWatermarkTable, tmp_path: Path) -> None:
    fill(table, "clicks", batches=2, splits=100)
    figure = plot(table)
    figure.savefig(tmp_path / "plot.png")
    assert legend(figure) == []
    assert len(figure.axes[0].lines) == 100


def test_the_latest_run_is_drawn(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=9, run=1)
    fill(table, "clicks", batches=4, run=2)
    assert drawn(plot(table).axes[0].lines[0])[:, 0].tolist() == [0, 1, 2, 3]


def test_group_selects(table: SplitWatermarkTable) -> None:
    fill(table, "clicks")
    table.append("other/1", 0, split_rows(0, source="other", group="mobile"), {})
    assert [panel.get_title() for panel in plot(table, group="mobile").axes] == ["other"]


@pytest.mark.parametrize(
    ("group", "sources", "why"),
    [
        (None, ["clicks", "views"], "no rows of source 'views'"),
        ("mobile", None, "no rows of any source in group 'mobile'"),
        (None, [], "no rows of any source"),
    ],
)
def test_nothing_to_draw_is_an_error(
    table: SplitWatermarkTable, group: str | None, sources: Sequence[str] | None, why: str
) -> None:
    fill(table, "clicks", batches=1)
    with pytest.raises(AlignmentError, match=why):
        plot(table, group=group, sources=sources)


def test_needs_no_display(table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyplot holds global state and may look for a display, so it stays out."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    fill(table, "clicks")
    assert plot(table).canvas.manager is None
