"""Tests of the layout of plots: no text covers another one, or leaves the figure, and each axis has a scale."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tests.watermark_alignment.support.plots import drawn, fill_before_a_wait, legend, millis, titles
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.formatting import duration
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

DAY_MS = 86_400_000
LONG = "part-00001-03d3c89b-da24-42c3-{}.parquet"


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def fill(table: SplitWatermarkTable, source: str, splits: Sequence[str], every_ms: int = 10_000) -> None:
    """Appends 30 batches at once."""
    rows = [
        replace(split_rows(0)[0], source=source, split=split, batch=batch, recorded_at=at, watermark=at)
        for batch in range(30)
        for at in [START_MS + batch * every_ms]
        for split in splits
    ]
    table.append(f"{source}/1", 0, rows, {})


def texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Returns the texts of a figure that are shown, and their boxes."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in found if text.get_text().strip()]
    return [(text, box) for text, box in boxes if box.width]


@pytest.mark.parametrize("sources", [1, 3, 4, 8, 10])
@pytest.mark.parametrize("split", ["topic-of-team-{}", LONG])
def test_the_texts_of_many_sources_are_apart(table: SplitWatermarkTable, sources: int, split: str) -> None:
    for n in range(sources):
        fill(table, f"orders-of-region-{n}", [split.format(f"{n}-{i}") for i in range(3 if n else 2)])
    check(plot(table, max_drift="5 minutes"))


@pytest.mark.parametrize("splits", [8, 28, 29])
@pytest.mark.parametrize("split", ["clicks-{}", LONG])
def test_the_texts_of_many_splits_are_apart(table: SplitWatermarkTable, splits: int, split: str) -> None:
    fill(table, "clicks", [split.format(n) for n in range(splits)])
    check(plot(table, max_drift="5 minutes"))


def check(figure: Figure) -> None:
    found = texts(figure)
    for text, box in found:
        assert figure.bbox.x0 <= box.x0, text
        assert box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0, text
        assert box.y1 <= figure.bbox.y1, text
    for (text, box), (other, other_box) in combinations(found, 2):
        assert not box.overlaps(other_box), (text, other)
    panels = len(titles(figure))
    for strips in figure.axes[panels:]:
        least, most = strips.get_xlim()
        assert sum(least <= tick <= most for tick in strips.xaxis.get_majorticklocs()) >= 2


def test_panels_are_in_the_order_of_the_names_of_their_sources(table: SplitWatermarkTable) -> None:
    """A source without an id is sorted by what it reads, since its hash is not shown."""
    fill(table, "0123abcd-0123456789abcdef", ["views-0", "views-1"])
    fill(table, "clicks-10", ["a-0"])
    fill(table, "clicks-9", ["b-0"])
    assert titles(plot(table)) == ["clicks-9", "clicks-10", "views"]


def test_a_single_batch_is_as_wide_as_its_strip(table: SplitWatermarkTable) -> None:
    table.append("clicks/1", 7, split_rows(7), {})
    for over in ("time", "batch"):
        panel, strips = plot(table, max_drift="5 minutes", over=over).axes
        [strip] = strips.collections
        begin, end = strip.get_datalim(strips.transData).intervalx
        assert begin < end
        assert all(drawn(line)[:, 0].tolist() == [begin, end] for line in panel.lines)
        [band] = panel.collections
        assert band.get_datalim(panel.transData).intervalx.tolist() == [begin, end]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(300_000, "5m"), (5000, "5s"), (5200, "5.2s"), (3_660_000, "1h1m"), (3_600_000, "1h"), (0, "0ms")],
)
def test_a_duration_has_no_unit_of_zero(ms: int, text: str) -> None:
    assert duration(ms) == text
    assert duration(-ms) == (f"-{text}" if ms else text)


def test_the_first_of_a_month_has_its_day(table: SplitWatermarkTable) -> None:
    fill(table, "clicks", ["clicks-0"], every_ms=DAY_MS)
    figure = plot(table)
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels() if label.get_text()]
    assert "01 Dec" in labels
    assert all(label[:2].isdecimal() for label in labels)


def test_the_picture_of_a_stall_names_who_is_waited_for(table: SplitWatermarkTable) -> None:
    """The borders between the strips go on through the stall, also if it is longer than the run."""
    now = time.time_ns() // 1_000_000 - 1000
    fill_before_a_wait(table, now)
    figure = plot(table, max_drift="5 minutes")
    panel, strips = figure.axes
    assert [text.get_text() for text in panel.texts] == [
        "at the end, 3 splits wait for clicks-0\nallowed drift: 5m"
    ]
    assert "paused" in legend(figure)
    assert millis(drawn(panel.lines[0])[-1:, 0])[0] > now
    assert [drawn(border)[:, 0].tolist() for border in strips.lines] == [[0, 1]] * 3
    check(figure)
