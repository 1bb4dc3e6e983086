"""Draws runs of sources: watermarks as lines, states as coloured strips below them, the allowed drift as a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from watermark_alignment.formatting import duration
from watermark_alignment.monitoring.plotting.labels import hide_times, label, show_times
from watermark_alignment.monitoring.plotting.line_styles import LineStyle, line_style
from watermark_alignment.monitoring.plotting.runs import SourceRun, least
from watermark_alignment.monitoring.plotting.strips import Over, cells, draw_states, legend_patches
from watermark_alignment.planner import BACKLOG, GROUP
from watermark_alignment.table.recordings import natural

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from numpy.typing import NDArray

_STEPS = {"time": "steps-post", "batch": "steps-mid"}
_BAND = "#56B4E9"
_CROWD, _CROWD_SLOWEST = LineStyle("#5A6B7B", 0.8, alpha=0.35), LineStyle("#D55E00", 2.0)
_SMALL_LEGEND_ABOVE, _CROWD_ABOVE = 10, 28  # The greatest number of splits.
_CALENDAR = (-719_162, -719_161), (2_932_895.99, 2_932_896.99)
"""The limits of an axis (days since the epoch). Matplotlib adds margins, and fails after the year 9999."""
_SHORTEST_LINE = 3.0  # points; a shorter part of a line is hardly visible, and has a dot
_LONGEST_DRIFT_MS = 10_000 * 366 * 86_400_000
_MOST_IN_A_ROW = 3  # panels
_WIDTH, _HEIGHT = 4.6, 4.6  # of a panel (inches)
_MARGIN = 0.035  # on both sides of the shown time, as a fraction of it
_AXIS_LABELS = 0.9  # the width of the labels of a panel's axis (inches)
_LEGEND_LINE = 40.0  # points
_HOLDERS = {GROUP: "another source of the group", BACKLOG: "splits that are not assigned yet"}


def draw(runs: Sequence[SourceRun], over: Over) -> Figure:
    """Returns a figure with a panel for each run, and below it the states of its splits.

    The panels come first in ``figure.axes``.
    """
    from matplotlib import rc_context

    # Names can have dollar signs. The margin has room for half a dot.
    with rc_context({"text.parse_math": False, "axes.xmargin": _MARGIN}):
        return _figure(runs, over)


def _figure(runs: Sequence[SourceRun], over: Over) -> Figure:
    from matplotlib.figure import Figure

    splits = sorted({split for run in runs for split in run.splits}, key=natural)
    styles = {split: _style(n, len(splits)) for n, split in enumerate(splits)}
    figure = Figure(layout="constrained")
    rows = -(-len(runs) // _MOST_IN_A_ROW)
    columns = -(-len(runs) // rows)
    strips_high = min(0.5 + 0.16 * max(len(run.splits) for run in runs), 2.2)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[_HEIGHT, strips_high] * rows)
    words = [_words(run, over) for run in runs]
    panels: list[Axes] = []
    for n, run in enumerate(runs):
        row, column = divmod(n, columns)
        panel = figure.add_subplot(grid[2 * row, column], sharey=panels[0] if panels else None)
        panels.append(panel)
        _draw_watermarks(panel, run, over, styles)
        if run.max_drift_ms is not None:
            _draw_band(panel, run, runs, over, run.max_drift_ms)
        panel.tick_params(labelleft=column == 0, labelbottom=False)
        if column == 0:
            panel.set_ylabel("watermark of the split (event time, UTC)")
        _add_title(panel, run, words[n], max(map(len, words)))
    panels[0].set_ylim(*np.clip(panels[0].get_ylim(), *_CALENDAR))
    if not any(map(_has_watermarks, runs)):
        hide_times(panels[0])
    names = _AXIS_LABELS
    for n, run in enumerate(runs):
        row, column = divmod(n, columns)
        strips = figure.add_subplot(grid[2 * row + 1, column], sharex=panels[n])
        draw_states(strips, run, over)
        names = max([names, *(_inches(label)[0] for label in strips.get_yticklabels())])
    figure.set_size_inches(columns * (names + _WIDTH), rows * (_HEIGHT + strips_high))
    _add_legend(figure, styles, runs, over)
    return figure


def _has_watermarks(run: SourceRun) -> bool:
    return not np.isnat(run.watermarks).all()


def _along(run: SourceRun, over: Over) -> NDArray[Any]:
    return run.times if over == "time" else run.batches


def _draw_watermarks(panel: Axes, run: SourceRun, over: Over, styles: dict[str, LineStyle]) -> None:
    for split, watermarks in zip(run.splits, run.watermarks, strict=True):
        _draw_line(panel, run, over, watermarks, styles[split])
    if len(styles) > _CROWD_ABOVE:
        _point_out_slowest(panel, run, over)
    show_times(panel, "y")
    panel.grid(color="#DDDDDD", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_line(
    panel: Axes, run: SourceRun, over: Over, watermarks: NDArray[np.datetime64], style: LineStyle
) -> None:
    """Draws a line in steps, since watermarks rise only between batches, with gaps where no batch was recorded."""
    along, heights = _with_gaps(run, over, watermarks)
    points = max([_SHORTEST_LINE, *style.dashes[1:]])  # A dashed line begins with a gap.
    dots = _short_parts(along, heights, points / (72 * _WIDTH))
    panel.plot(along, heights, drawstyle=_STEPS[over], marker="o", markevery=dots, **style.for_matplotlib())


def _short_parts(along: NDArray[Any], heights: NDArray[np.datetime64], shortest: float) -> list[int]:
    """Returns the index of the last point of each part of a line, between gaps, that is short.

    Args:
        along: The places of the points on the axis of time or batches.
        heights: The heights of the points; NaT in a gap.
        shortest: The greatest length of a short part, as a fraction of the whole line.
    """
    known = np.concatenate([[False], ~np.isnat(heights), [False]])
    first = np.flatnonzero(known[1:-1] & ~known[:-2])
    last = np.flatnonzero(known[1:-1] & ~known[2:])
    is_short = along[last] - along[first] <= (along[-1:] - along[:1]) * shortest
    found: list[int] = last[is_short].tolist()
    return found


def _with_gaps(
    run: SourceRun, over: Over, heights: NDArray[np.datetime64]
) -> tuple[NDArray[Any], NDArray[np.datetime64]]:
    """Inserts an unknown height after each batch that no other batch followed for a long time.

    While the source is known to have been alive after such a batch, or after the newest one, the height stays. A single
    batch is drawn as wide as its strip.
    """
    along = _along(run, over)
    if len(along) == 1:
        along, heights = cells(run, over)[0][:2], np.repeat(heights, 2)
    if over == "batch" or not len(along):
        return along, heights
    points: list[tuple[int, Any, bool]] = []  # The batch before, the time, and whether the height is known.
    newest = len(run.times) - 1
    for batch in (*run.gaps, newest):
        last = run.times[batch]
        for begin, end in run.alive_after[batch]:
            if begin > last:
                points += [(batch, last, False), (batch, begin, True)]
            points.append((batch, end, True))
            last = end
        if batch < newest and last < run.begins[batch + 1]:
            points.append((batch, last, False))
    if not points:
        return along, heights
    before, times, is_known = (np.array(column) for column in zip(*points, strict=True))
    inserted = np.where(is_known, heights[before], np.datetime64("NaT"))
    after = before + len(along) - newest
    return np.insert(along, after, times), np.insert(heights, after, inserted)


def _point_out_slowest(panel: Axes, run: SourceRun, over: Over) -> None:
    """Highlights and names the split that was furthest behind most of the time."""
    behind = (run.counting == run.floor).sum(axis=1)
    slowest = int(behind.argmax())
    if not behind[slowest]:
        return
    _draw_line(panel, run, over, run.watermarks[slowest], _CROWD_SLOWEST)
    panel.text(
        0.98, 0.03, f"most often slowest:\n{label(run.splits[slowest])}",
        transform=panel.transAxes, ha="right", color=_CROWD_SLOWEST.color, fontsize="small",
    )  # fmt: skip


def _draw_band(panel: Axes, run: SourceRun, runs: Sequence[SourceRun], over: Over, max_drift_ms: int) -> None:
    """Draws the band from the least watermark of the group to ``max_drift_ms`` above it."""
    group = [other for other in runs if other.member.group == run.member.group]
    floor = least(np.stack([_at(run.times, other) for other in group]))
    top = floor + np.timedelta64(min(max_drift_ms, _LONGEST_DRIFT_MS) * 1000, "us")
    along, floor = _with_gaps(run, over, floor)
    _, top = _with_gaps(run, over, top)
    step: Any = _STEPS[over].removeprefix("steps-")
    panel.fill_between(along, floor, top, step=step, color=_BAND, alpha=0.25, linewidth=0, zorder=0)


def _words(run: SourceRun, over: Over) -> list[str]:
    """Returns the remarks below the title of a run, one for each line. Over batches, no remark is about time."""
    words = []
    if not _has_watermarks(run):
        words.append("no event time was read, so no watermark is known")
    if (
        over == "time"
        and (silence := run.silence) is not None
        and (run.is_there is False or (run.is_there is None and run.ends_early))
    ):
        ago = duration(int(silence.astype("timedelta64[ms]").astype(np.int64)))
        words.append(f"{'gone; ' if run.is_there is False else ''}the last batch was {ago} ago")
    if (wait := run.last_wait) is not None:
        splits = "1 split waits" if wait.waiting == 1 else f"{wait.waiting:,} splits wait"
        words.append(f"at the end, {splits} for {_HOLDERS.get(wait.held_by) or label(wait.held_by)}")
    if run.max_drift_ms is not None:
        words.append(f"allowed drift: {duration(run.max_drift_ms)}")
    return words


def _add_title(panel: Axes, run: SourceRun, words: Sequence[str], most_lines: int) -> None:
    """Adds the title and the remarks above the panel."""
    panel.set_title(label(run.name), fontweight="bold", pad=6 + 12 * most_lines)
    if words:
        panel.text(
            0.5, 1.01, "\n".join(words),
            transform=panel.transAxes, ha="center", va="bottom", color="#2B6C93", fontsize="small",
        )  # fmt: skip


def _at(times: NDArray[np.datetime64], run: SourceRun) -> NDArray[np.datetime64]:
    """Returns the least watermark of a run at each of these times, as it was after the last batch before that time."""
    places = np.searchsorted(run.times, times, side="right") - 1
    return np.where(places < 0, np.datetime64("NaT"), run.floor[np.maximum(places, 0)])


def _add_legend(figure: Figure, styles: dict[str, LineStyle], runs: Sequence[SourceRun], over: Over) -> None:
    """Adds the legend next to the panels, or for many splits below them in small type.

    For very many splits the legend does not name them.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    if len(styles) <= _CROWD_ABOVE:
        handles += [
            Line2D([], [], label=label(split), **style._replace(offset=0).for_matplotlib())
            for split, style in styles.items()
        ]
    handles += legend_patches(runs, over)
    if any(run.max_drift_ms is not None for run in runs):
        handles.append(Patch(color=_BAND, alpha=0.25, label="allowed drift"))
    width, height = figure.get_size_inches()
    is_beside = len(styles) <= _SMALL_LEGEND_ABOVE
    legend = _legend(figure, handles, is_beside)
    if is_beside:
        figure.set_size_inches(width + _inches(legend)[0], height)
        return
    columns = max(1, int(width / _inches(legend)[0]))
    legend.remove()
    legend = _legend(figure, handles, is_beside, columns)
    figure.set_size_inches(width, height + _inches(legend)[1])


def _legend(figure: Figure, handles: Sequence[Artist], is_beside: bool, columns: int = 1) -> Legend:
    """Adds a legend beside the panels or below them, at most as wide as ``columns`` legends with one column."""
    points = 10.0 if is_beside else 7.0
    return figure.legend(
        handles=handles, loc="outside right upper" if is_beside else "outside lower center", fontsize=points,
        ncols=columns, handlelength=_LEGEND_LINE / points, frameon=False, borderpad=1, columnspacing=2,
    )  # fmt: skip


def _inches(artist: Artist) -> tuple[float, float]:
    """Returns the width and the height of an artist that has been added to a figure."""
    extent, figure = artist.get_window_extent(), artist.get_figure(root=True)
    assert figure is not None
    return extent.width / figure.dpi, extent.height / figure.dpi


def _style(index: int, splits: int) -> LineStyle:
    return _CROWD if splits > _CROWD_ABOVE else line_style(index, splits)
