"""Tests of the plot of a split-watermark table: its lines, states, bands, legends and axes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from flip27_stream.errors import AlignmentError, OptionError
from tests.watermark_alignment.support.plots import drawn, fill, legend, millis, titles
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws pictures at the time of the first batch, so no picture says how long ago the last one was."""
    monkeypatch.setattr("watermark_alignment.monitoring.plotting.runs.now_ms", lambda: START_MS)


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


@pytest.mark.usefixtures("soon")
def test_a_source_without_event_times_says_so(table: SplitWatermarkTable, tmp_path: Path) -> None:
    """The panel of such a source, as with a wrong JSON pointer, says so in words; its axis has no times."""
    table.append("clicks/1", 0, [replace(row, watermark=None) for row in split_rows(0)], {})
    figure = plot(table)
    panel = figure.axes[0]
    assert [text.get_text() for text in panel.texts] == ["no event time was read, so no watermark is known"]
    assert list(panel.get_yticks()) == []
    figure.savefig(tmp_path / "picture.png")


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


@pytest.mark.usefixtures("soon")
def test_the_words_about_the_drift_cross_no_line(table: SplitWatermarkTable) -> None:
    """They stand between the title and the panel. The lines of splits can be anywhere in the panel."""
    fill(table, "clicks")
    figure = plot(table, max_drift="5 s")
    figure.draw_without_rendering()
    panel = figure.axes[0]
    [words] = panel.texts
    assert words.get_text() == "allowed drift: 5s"
    place = words.get_window_extent()
    assert panel.get_window_extent().y1 <= place.y0
    assert place.y1 <= panel.title.get_window_extent().y0


def test_splits_are_in_natural_order_and_many_have_a_small_legend(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", batches=2, splits=12)
    names = legend(plot(table))
    assert names == [*(f"clicks-{i}" for i in range(12)), "active"]


@pytest.mark.usefixtures("soon")
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


def test_a_path_is_a_location(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match=f"'{tmp_path}/none' cannot be read: there is no Delta table"):
        plot(tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"over": "times"}, "'over': 'times'. Allowed: time, batch."),
        ({"batches": 0}, "'batches': 0. Allowed: a whole number > 0."),
        ({"batches": "9"}, "'batches': '9'. Allowed: a whole number > 0."),
        ({"max_drift": "5"}, "'max_drift': '5'. Expected a duration"),
        ({"max_drift": 5}, "'max_drift': 5. Expected a duration"),
    ],
)
def test_wrong_arguments_are_refused(
    table: SplitWatermarkTable, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError) as refused:
        plot(table, **arguments)
    assert said in str(refused.value)


def test_a_single_source_can_be_named_by_a_text(table: SplitWatermarkTable) -> None:
    for source in ("clicks", "views"):
        fill(table, source)
    assert titles(plot(table, sources="views")) == ["views"]


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


@pytest.mark.usefixtures("soon")
def test_axes_are_labelled_and_the_drift_is_said_in_words(table: SplitWatermarkTable) -> None:
    """The allowed drift is written in words, however small it is at the scale of the picture."""
    fill(table, "clicks")
    panel, strips = plot(table, max_drift="10 ms").axes
    assert strips.get_xlabel() == "recorded at (UTC)"
    assert [text.get_text() for text in panel.texts] == ["allowed drift: 10ms"]


@pytest.mark.parametrize("splits", [2, 7])
def test_lines_that_lie_on_each_other_can_be_told_apart(table: SplitWatermarkTable, splits: int) -> None:
    fill(table, "clicks", batches=2, splits=splits)
    lines = plot(table).axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == splits
    widths = [line.get_linewidth() for line in lines if line.get_linestyle() == "-"]
    assert widths == sorted(set(widths), reverse=True), "each lies on wider ones"
