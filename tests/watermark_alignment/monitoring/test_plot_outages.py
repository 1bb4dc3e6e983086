"""Tests of plots of tables in which no batch ran for some time: outages, stalls and waits."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure

from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.plots import drawn, fill_before_a_wait, legend, millis
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.group_view import Entry
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

OUTAGE_MS = 17 * 60_000


def blank(figure: Figure) -> list[tuple[int, int]]:
    """Returns the begins and ends (ms) of the times in which the strips of the only panel are blank."""
    [mesh] = [part for part in figure.axes[1].collections if isinstance(part, QuadMesh)]
    shown: np.ma.MaskedArray[Any, Any] = np.ma.asarray(mesh.get_array()).reshape(4, -1)
    edges = borders(figure)
    return [(edges[n], edges[n + 1]) for n in range(shown.shape[1]) if np.ma.getmaskarray(shown)[0][n]]


def borders(figure: Figure) -> list[int]:
    """Returns the borders (ms) of the cells of the strips of the only panel."""
    [mesh] = [part for part in figure.axes[1].collections if isinstance(part, QuadMesh)]
    return millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def record(table: SplitWatermarkTable, batch: int, at: int, splits: int = 4) -> None:
    """Appends a batch that is recorded ``at`` ms after the first batches of other tables."""
    rows = [replace(row, recorded_at=START_MS + at) for row in split_rows(batch, splits=splits)]
    table.append("clicks/1", batch, rows, {})


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
    assert "nothing recorded" in legend(figure)


def test_batches_that_take_longer_than_others_are_no_outage(table: SplitWatermarkTable) -> None:
    for batch in range(10):
        rows = [replace(row, recorded_at=START_MS + 1000 * batch**2 // 2) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    assert "nothing recorded" not in legend(plot(table))


def with_a_slow_batch(table: SplitWatermarkTable, *told: Entry) -> int:
    """Fills the table with ten batches a second apart, entries, and a batch that is recorded two minutes later.

    Returns the time (ms) of the tenth batch.
    """
    now = time.time_ns() // 1_000_000 - 100
    for batch in range(11):
        at = now - 9000 + batch * 1000 if batch < 10 else now + 120_000
        if batch == 10:
            for entry_ in told:
                table.note({MEMBER: entry_.to_text()})
        table.append("clicks/1", batch, [replace(row, recorded_at=at) for row in split_rows(batch)], {})
    return now


def test_a_batch_that_takes_long_is_no_outage(table: SplitWatermarkTable) -> None:
    """A source tells its group which batch it has planned, so a long batch is not taken for an outage."""
    with_a_slow_batch(table, entry("clicks", group="web", progress=10))
    figure = plot(table)
    assert blank(figure) == []
    assert "nothing recorded" not in legend(figure)


def test_a_batch_that_is_run_again_after_an_outage_began_after_it(table: SplitWatermarkTable) -> None:
    """The log has the plan of the batch before the outage too."""
    started = time.time_ns() // 1_000_000 + 60_000
    first = entry("clicks", group="web", progress=10)
    now = with_a_slow_batch(table, first, replace(first, began=started, run="2"))
    assert blank(plot(table)) == [(now, started)]


def test_the_time_since_the_newest_batch_is_blank(table: SplitWatermarkTable) -> None:
    """A picture that is drawn during an outage shows it, but not the days since a query was stopped for good."""
    now = time.time_ns() // 1_000_000
    for batch in range(11):
        at = now - 150_000 + batch * 10_000
        table.append("clicks/1", batch, [replace(row, recorded_at=at) for row in split_rows(batch)], {})
    figure = plot(table)
    [(begin, end)] = blank(figure)
    assert begin == now - 50_000
    assert now <= end < now + 60_000
    assert "nothing recorded" in legend(figure)
    assert blank(plot(table, batches=3)) == []


def test_waiting_splits_are_drawn_after_the_newest_batch(table: SplitWatermarkTable) -> None:
    """Splits that wait are drawn as paused after the newest batch: the source publishes that they wait, while no
    batch runs and no row is written.
    """
    fill_before_a_wait(table, time.time_ns() // 1_000_000)
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
    assert "nothing recorded" in legend(figure)
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
    assert "nothing recorded" in legend(figure)
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
    stalled = entry("clicks", group="web", began=now - 1000, waiting=3, held_by="clicks-0", timeout_ms=60_000)
    for told in (stalled, stalled.again()):
        table.note({MEMBER: replace(told, waits=("clicks-0",), waits_all_but=True).to_text()})
    line = drawn(plot(table).axes[0].lines[1])
    assert np.isnan(line[:, 1]).tolist() == [False, False, False, True, False, False]
    assert millis(line[[3], 0]) == [now - 598_000]
    assert now - 60_000 < millis(line[[4], 0])[0] < now + 300_000
    assert set(line[4:, 1]) == {line[2, 1]}


@pytest.mark.parametrize("splits", [4, 14])
def test_each_of_many_short_runs_has_a_dot(table: SplitWatermarkTable, splits: int) -> None:
    """A line of a few seconds in a picture of hours is narrower than a pixel, and dashes are wider than it."""
    for batch in range(12):
        record(table, batch, batch // 3 * 3_600_000 + batch % 3 * 5000, splits)
    figure = plot(table)
    for line in figure.axes[0].lines:
        dots = drawn(line)[np.asarray(line.get_markevery(), np.intp), 0]
        assert millis(dots) == [START_MS + run * 3_600_000 + 10_000 for run in range(4)]
    begin, end = millis(np.array(figure.axes[1].get_xlim()))
    cells = borders(figure)
    assert begin < cells[0], "the first batch is not cut off"
    assert cells[-1] < end, "the last batch is not cut off"


def test_a_line_that_is_wide_enough_has_no_dot(table: SplitWatermarkTable) -> None:
    for batch in range(20):
        record(table, batch, batch * 1000 + batch // 10 * 17_000)
    figure = plot(table)
    assert blank(figure)
    assert {tuple(np.asarray(line.get_markevery())) for line in figure.axes[0].lines} == {()}


@pytest.mark.parametrize("started", [None, -60_000, 2 * OUTAGE_MS])
def test_an_outage_between_only_two_batches_is_blank(table: SplitWatermarkTable, started: int | None) -> None:
    """Two batches can be of two runs. They have a usual interval only if the log shows the run of both."""
    for batch in range(2):
        record(table, batch, batch * OUTAGE_MS)
    if started is not None:
        table.note({MEMBER: entry("clicks", group="web", began=START_MS + started).to_text()})
    figure = plot(table)
    is_one_run = started == -60_000
    assert blank(figure)[:1] == ([] if is_one_run else [(START_MS, START_MS + OUTAGE_MS - 1000)])
    assert borders(figure)[0] == START_MS - (60_000 if is_one_run else 1000)


def test_the_first_batch_is_not_longer_than_a_usual_one(table: SplitWatermarkTable) -> None:
    for batch, at in enumerate([0, 9000, 10_000, 11_000]):
        record(table, batch, at)
    assert borders(plot(table))[0] == START_MS - 1000
