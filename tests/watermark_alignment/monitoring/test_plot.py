from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

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
    """Returns the points of a line: batches, and watermarks in days since the epoch."""
    return np.asarray(line.get_xydata(), dtype=np.float64)


def millis(days: npt.NDArray[np.float64]) -> list[int]:
    return [int(ms) for ms in np.rint(days * DAY_MS)]


def titles(figure: Figure) -> list[str]:
    """Returns the titles of the panels."""
    return [panel.get_title() for panel in figure.axes if panel.get_title()]


def legend(figure: Figure) -> Sequence[str]:
    return [text.get_text() for entry in figure.legends for text in entry.get_texts()]


def test_one_panel_per_source_and_one_line_per_split(table: SplitWatermarkTable, tmp_path: Path) -> None:
    fill(table, "clicks")
    fill(table, "views", splits=2)
    figure = plot(table.uri, sources=["views", "clicks"])
    views, clicks = figure.axes[:2]
    assert [panel.get_title() for panel in (views, clicks)] == ["views", "clicks"]
    assert (len(views.lines), len(clicks.lines)) == (2, 4)
    assert views.get_ylim() == clicks.get_ylim(), "both on one time axis"
    assert legend(figure) == ["clicks-0", "clicks-1", "clicks-2", "clicks-3", "active"]
    assert [line.get_color() for line in views.lines] == [line.get_color() for line in clicks.lines[:2]]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


@pytest.mark.parametrize("over", ["time", "batch"])
def test_lines_show_the_watermarks(table: SplitWatermarkTable, over: Literal["time", "batch"]) -> None:
    fill(table, "clicks", batches=3)
    line = drawn(plot(table, over=over).axes[0].lines[1])
    if over == "batch":
        assert line[:, 0].tolist() == [0, 1, 2]
    else:
        assert millis(line[:, 0]) == [START_MS + 60_000 + batch * 1000 for batch in range(3)]
    assert millis(line[:, 1]) == [START_MS + batch * 1000 - 1001 for batch in range(3)]


def test_an_unknown_watermark_is_a_gap(table: SplitWatermarkTable) -> None:
    """An unknown watermark is a gap in the line, and no value is drawn in its place (I10)."""
    for batch in range(3):
        row = split_rows(batch)[0]
        table.append("clicks/1", batch, [row if batch != 1 else replace(row, watermark=None)], {})
    [line] = plot(table).axes[0].lines
    assert np.isnan(drawn(line)[:, 1]).tolist() == [False, True, False]


def test_states_are_strips_of_colour(table: SplitWatermarkTable, tmp_path: Path) -> None:
    """The state of a split is drawn from the batch before on.

    Nothing is drawn for a batch that has no row of the split.
    """
    words = ["ACTIVE", "PAUSED", "IDLE", "FINISHED"]
    for batch in range(3):
        rows = [replace(row, status=word) for row, word in zip(split_rows(batch), words, strict=True)]
        table.append("clicks/1", batch, rows[: 3 + (batch > 0)], {})
    figure = plot(table)
    panel, strips = figure.axes
    assert legend(figure)[4:] == ["active", "paused", "idle", "finished"]
    [mesh] = [part for part in strips.collections if isinstance(part, QuadMesh)]
    shown: np.ma.MaskedArray[Any, Any] = np.ma.asarray(mesh.get_array()).reshape(4, 3)
    assert shown.tolist() == [[0] * 3, [1] * 3, [2] * 3, [None, 3, 3]]
    edges = millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])
    assert edges == [START_MS + n * 1000 for n in (-1, 0, 1, 2)]
    assert [label.get_text() for label in strips.get_yticklabels()] == [f"clicks-{i}" for i in range(4)]
    assert panel.get_xlim() == strips.get_xlim()


def test_the_band_goes_from_the_slowest_split_to_max_drift_above_it(table: SplitWatermarkTable) -> None:
    """The band of the allowed drift begins at the slowest split of the whole group, without the splits that do not
    count (I3).
    """
    for batch in range(3):
        rows = split_rows(batch)
        rows[3] = replace(rows[3], status="IDLE")
        table.append("clicks/1", batch, rows, {})
        ahead = [replace(row, source="views", split=f"views{row.split[6:]}") for row in split_rows(batch)[:2]]
        table.append("views/1", batch, ahead, {})
    figure = plot(table, sources=["clicks", "views"], max_drift="5 s")
    assert legend(figure)[-1] == "allowed drift"
    least = [START_MS + batch * 1000 - 2001 for batch in range(3)]
    for panel in figure.axes[:2]:
        [band] = panel.collections
        [path] = band.get_paths()
        found = sorted(set(millis(np.asarray(path.vertices, dtype=np.float64)[:, 1])))
        assert found == sorted({*least, *(time + 5000 for time in least)})


def test_max_drift_is_the_one_that_the_source_published(table: SplitWatermarkTable) -> None:
    note = BatchNote("web", "clicks", "lineage", 0, max_drift_ms=7000, unreported=0)
    table.append("clicks/1", 0, split_rows(0), {KEY: note.to_text()})
    table.append("clicks/1", 1, split_rows(1), {})
    for given, drift in ((None, 7000), ("3 s", 3000)):
        [band] = plot(table, max_drift=given).axes[0].collections
        times = millis(np.asarray(band.get_paths()[0].vertices, dtype=np.float64)[:, 1])
        assert max(times) - min(times) == 1000 + drift
    fill(table, "views")
    assert plot(table, sources=["views"]).axes[0].collections[:] == []


def test_splits_are_in_natural_order_and_many_have_a_small_legend(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=2, splits=12)
    names = legend(plot(table))
    assert names == [*(f"clicks-{i}" for i in range(12)), "active"]


def test_of_very_many_splits_the_slowest_is_named(table: SplitWatermarkTable, tmp_path: Path) -> None:
    fill(table, "clicks", batches=3, splits=100)
    figure = plot(table)
    figure.savefig(tmp_path / "plot.png")
    assert legend(figure) == ["active"]
    panel, strips = figure.axes
    assert len(panel.lines) == 100 + 1
    assert [text.get_text() for text in panel.texts] == ["most often slowest:\nclicks-99"]
    assert strips.get_ylabel() == "100 splits"


def test_the_latest_run_is_drawn(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=9, run=1)
    fill(table, "clicks", batches=4, run=2)
    assert drawn(plot(table, over="batch").axes[0].lines[0])[:, 0].tolist() == [0, 1, 2, 3]


def test_the_newest_batches_are_drawn(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=9)
    assert drawn(plot(table, over="batch", batches=4).axes[0].lines[0])[:, 0].tolist() == [5, 6, 7, 8]


def test_of_very_many_batches_some_are_drawn(
    table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are too many batches to draw, some of them are drawn, among them the newest."""
    monkeypatch.setattr("watermark_alignment.monitoring.plotting.runs._MOST_COLUMNS", 4)
    fill(table, "clicks", batches=9)
    assert drawn(plot(table, over="batch").axes[0].lines[0])[:, 0].tolist() == [2, 5, 8]


def test_sources_that_ended_before_are_not_drawn_unless_named(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=3, run=1)
    fill(table, "views", batches=3, run=2)
    assert titles(plot(table)) == ["views"]
    assert titles(plot(table, sources=["clicks"])) == ["clicks"]


def test_a_group_selects_its_sources(table: SplitWatermarkTable) -> None:
    fill(table, "clicks")
    table.append("other/1", 0, split_rows(0, source="other", group="mobile"), {})
    assert titles(plot(table, group="mobile")) == ["other"]


@pytest.mark.parametrize(
    ("group", "sources", "why"),
    [
        (None, ["clicks", "views"], "no rows of source 'views'"),
        ("mobile", None, "no rows of any source in group 'mobile'"),
        (None, [], "no rows of any source"),
    ],
)
def test_a_table_without_rows_to_draw_is_an_error(
    table: SplitWatermarkTable, group: str | None, sources: Sequence[str] | None, why: str
) -> None:
    fill(table, "clicks", batches=1)
    with pytest.raises(AlignmentError, match=why):
        plot(table, group=group, sources=sources)


def test_a_plot_needs_no_display(table: SplitWatermarkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plot is drawn without pyplot, which holds global state and may look for a display."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    fill(table, "clicks")
    assert plot(table).canvas.manager is None


def test_the_names_of_files_leave_room_for_the_picture(table: SplitWatermarkTable) -> None:
    files = [
        f"file:///a/{'long/' * 20}part-0000{n}-03d3c89b-da24-42c3.parquet@17953223378{n}+28309"
        for n in (1, 2)
    ]
    rows = [replace(row, split=file) for file, row in zip(files, split_rows(0), strict=False)]
    table.append("files/1", 0, rows, {})
    figure = plot(table)
    figure.canvas.draw()
    left, right = (bound * figure.bbox.width for bound in figure.axes[0].get_position().intervalx)
    assert right - left > figure.bbox.width / 3
    [legend] = figure.legends
    shown = [text.get_text() for text in legend.get_texts()][:2]
    assert shown == ["part-00001-03d3c89b-da…33781+28309", "part-00002-03d3c89b-da…33782+28309"]


def test_names_may_have_any_characters(table: SplitWatermarkTable, tmp_path: Path) -> None:
    rows = [replace(row, split=f"$\\{row.split}$") for row in split_rows(0, source="$x_{$")]
    table.append("one", 0, rows, {})
    plot(table).savefig(tmp_path / "names.png")


def with_an_outage(table: SplitWatermarkTable) -> None:
    """Fills the table with ten batches a second apart, 17 minutes without a batch, and ten batches more."""
    for batch in range(20):
        later = 17 * 60_000 if batch >= 10 else 0
        rows = [replace(row, recorded_at=row.recorded_at + later) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})


def test_lines_have_a_gap_during_an_outage(table: SplitWatermarkTable) -> None:
    """Lines and strips have a gap for the time in which no batch ran."""
    with_an_outage(table)
    figure = plot(table, max_drift="5 s")
    panel, strips = figure.axes
    line = drawn(panel.lines[0])
    [gap] = np.flatnonzero(np.isnan(line[:, 1]))
    assert line[gap, 0] == line[gap - 1, 0]
    assert millis(line[[gap - 1, gap + 1], 0]) == [START_MS + 9000, START_MS + 17 * 60_000 + 10_000]
    assert panel.lines[0].get_drawstyle() == "steps-post"
    [mesh] = [part for part in strips.collections if isinstance(part, QuadMesh)]
    shown: np.ma.MaskedArray[Any, Any] = np.ma.asarray(mesh.get_array()).reshape(4, -1)
    edges = millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])
    blank = [(edges[n], edges[n + 1]) for n in range(shown.shape[1]) if shown[0].mask[n]]
    assert blank == [(START_MS + 9000, START_MS + 17 * 60_000 + 9000)]
    assert "no batch ran" in legend(figure)


def test_batches_that_take_longer_than_others_are_no_outage(table: SplitWatermarkTable) -> None:
    for batch in range(10):
        rows = [replace(row, recorded_at=START_MS + 1000 * batch**2 // 2) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    assert "no batch ran" not in legend(plot(table))


def test_waiting_splits_are_drawn_after_the_newest_batch(table: SplitWatermarkTable) -> None:
    """Splits that wait are drawn as paused after the newest batch: the source publishes that they wait, while no
    batch runs and no row is written.
    """
    now = time.time_ns() // 1_000_000
    for batch in range(3):
        rows = [replace(row, recorded_at=now - 2000 + batch * 1000) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    stalled = entry("clicks", group="web", waiting=3, held_by="clicks-0", timeout_ms=60_000)
    stalled = replace(stalled, waits=("clicks-0",), waits_all_but=True)
    for told in (stalled, stalled.again()):
        table.note({MEMBER: told.to_text()})
    figure = plot(table)
    panel, strips = figure.axes
    assert "paused" in legend(figure)
    bars = [part for part in strips.collections if isinstance(part, PolyCollection)]
    waiting = sorted({round(float(np.asarray(bar.get_paths()[0].vertices)[:, 1].mean())) for bar in bars})
    assert waiting == [1, 2, 3]
    line = drawn(panel.lines[1])
    assert line[-1, 1] == line[-2, 1]
    assert line[-1, 0] > line[-2, 0]


def test_lines_have_a_gap_during_an_outage_among_few_batches(table: SplitWatermarkTable) -> None:
    """The usual interval between batches is computed without the outage, so that an outage among few batches is blank
    too.
    """
    for batch, at in enumerate([0, 17 * 60_000, 17 * 60_000 + 1000]):
        table.append(
            "clicks/1", batch, [replace(r, recorded_at=START_MS + at) for r in split_rows(batch)], {}
        )
    figure = plot(table)
    assert "no batch ran" in legend(figure)
    [mesh] = [part for part in figure.axes[1].collections if isinstance(part, QuadMesh)]
    edges = millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])
    assert edges[:3] == [START_MS - 1000, START_MS, START_MS + 17 * 60_000 - 1000]


@pytest.mark.parametrize("batches", [2, 3])
def test_an_outage_before_a_start_is_blank(table: SplitWatermarkTable, batches: int) -> None:
    """Time before the start of the query that recorded a batch is blank, also if it lies between only two batches, or
    between batches that take as long. The source tells its group when it was started.
    """
    started = START_MS + (batches - 1) * 1_000_000 - 400_000
    for batch in range(batches):
        at = START_MS + batch * 1_000_000
        table.append("clicks/1", batch, [replace(row, recorded_at=at) for row in split_rows(batch)], {})
    table.note({MEMBER: entry("clicks", group="web", began=started).to_text()})
    figure = plot(table)
    assert "no batch ran" in legend(figure)
    [mesh] = [part for part in figure.axes[1].collections if isinstance(part, QuadMesh)]
    shown: np.ma.MaskedArray[Any, Any] = np.ma.asarray(mesh.get_array()).reshape(4, -1)
    edges = millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])
    blank = [(edges[n], edges[n + 1]) for n in range(shown.shape[1]) if shown[0].mask[n]]
    assert blank == [(started - 600_000, started)]


def test_lines_go_on_through_a_stall_that_has_ended(table: SplitWatermarkTable) -> None:
    """The lines of splits continue through a stall, also after it has ended: while splits are known to wait, their
    watermarks are known.
    """
    now = time.time_ns() // 1_000_000
    stalled = entry("clicks", group="web", waiting=3, held_by="clicks-0", timeout_ms=3_600_000)
    stalled = replace(stalled, waits=("clicks-0",), waits_all_but=True)
    for batch in range(4):
        at = now - 2000 + batch * 1000 if batch < 3 else now + 600_000
        table.append("clicks/1", batch, [replace(row, recorded_at=at) for row in split_rows(batch)], {})
        if batch == 2:
            table.note({MEMBER: stalled.to_text()})
            table.note({MEMBER: stalled.again().to_text()})
    line = drawn(plot(table).axes[0].lines[1])
    [gap] = np.flatnonzero(np.isnan(line[:, 1]))
    assert line[gap - 1, 1] == line[gap - 2, 1]
    assert now - 60_000 < millis(line[[gap - 1], 0])[0] < now + 300_000


def test_an_outage_before_a_wait_is_blank(table: SplitWatermarkTable) -> None:
    """A query that was stopped, and whose splits wait since it was started again, has a gap before the wait."""
    now = time.time_ns() // 1_000_000
    for batch in range(3):
        rows = [replace(row, recorded_at=now - 600_000 + batch * 1000) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    stalled = entry("clicks", group="web", waiting=3, held_by="clicks-0", timeout_ms=60_000)
    for told in (stalled, stalled.again()):
        table.note({MEMBER: replace(told, waits=("clicks-0",), waits_all_but=True).to_text()})
    line = drawn(plot(table).axes[0].lines[1])
    assert np.isnan(line[:, 1]).tolist() == [False, False, False, True, False, False]
    assert millis(line[[3], 0]) == [now - 598_000]
    assert now - 60_000 < millis(line[[4], 0])[0] < now + 300_000
    assert set(line[4:, 1]) == {line[2, 1]}


def test_minutes_are_shown_without_seconds(table: SplitWatermarkTable, tmp_path: Path) -> None:
    for batch in range(3):
        at = START_MS + batch * 20 * 60_000
        rows = [replace(row, recorded_at=at, watermark=at) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    figure = plot(table)
    figure.savefig(tmp_path / "plot.png")
    for axis in (figure.axes[0].yaxis, figure.axes[1].xaxis):
        assert {len(text.get_text()) for text in axis.get_ticklabels() if text.get_text()} == {len("12:30")}


@pytest.mark.parametrize("seconds", [8, 11, 47, 100, 290, 340, 550, 700, 1500, 3000, 5000, 20_000, 90_000])
def test_each_axis_has_several_ticks(table: SplitWatermarkTable, seconds: int) -> None:
    for batch in range(8):
        at = START_MS + 17_000 + batch * seconds * 1000 // 7
        rows = [replace(row, recorded_at=at, watermark=at) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    figure = plot(table)
    figure.canvas.draw()
    panel, strips = figure.axes
    for axis, (least, most) in ((panel.yaxis, panel.get_ylim()), (strips.xaxis, strips.get_xlim())):
        assert sum(least <= tick <= most for tick in axis.get_majorticklocs()) >= 2


def test_axes_are_labelled_and_the_drift_is_said_in_words(table: SplitWatermarkTable) -> None:
    """The allowed drift is written in words, however small it is at the scale of the picture."""
    fill(table, "clicks")
    panel, strips = plot(table, max_drift="10 ms").axes
    assert strips.get_xlabel() == "recorded at (UTC)"
    assert [text.get_text() for text in panel.texts] == ["allowed drift: 10ms"]


@pytest.mark.parametrize("splits", [2, 7, 14, 28])
def test_lines_that_lie_on_each_other_can_be_told_apart(table: SplitWatermarkTable, splits: int) -> None:
    fill(table, "clicks", batches=2, splits=splits)
    lines = plot(table).axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == splits
    widths = [line.get_linewidth() for line in lines if line.get_linestyle() == "-"]
    assert widths == sorted(set(widths), reverse=True), "each lies on wider ones"
