"""Draws runs of sources: watermarks as lines, states as coloured strips below them, the allowed drift as a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from watermark_alignment.formatting import duration, name
from watermark_alignment.monitoring.plotting.line_styles import LineStyle, line_style
from watermark_alignment.monitoring.plotting.runs import STATES, SourceRun, least
from watermark_alignment.monitoring.plotting.timeline import SHORTEST_GAP
from watermark_alignment.planner import BACKLOG, GROUP
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.recordings import natural

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from numpy.typing import NDArray

Over = Literal["time", "batch"]

_STATE_COLOURS = {
    SplitStatus.ACTIVE: "#B7DDC9",
    SplitStatus.PAUSED: "#E69F00",
    SplitStatus.IDLE: "#9DB7D5",
    SplitStatus.FINISHED: "#D4D4D4",
}
_STEPS = {"time": "steps-post", "batch": "steps-mid"}
_BAND = "#56B4E9"
_CROWD, _CROWD_SLOWEST = LineStyle("#5A6B7B", 0.8, alpha=0.35), LineStyle("#D55E00", 2.0)
_SMALL_LEGEND_ABOVE, _CROWD_ABOVE = 10, 28  # The greatest number of splits.
_MOST_NAMES = 12  # next to the strips
_CALENDAR = (-719_162, -719_161), (2_932_895.99, 2_932_896.99)
"""The limits of an axis (days since the epoch). Matplotlib adds margins, and fails after the year 9999."""
_LONGEST_DRIFT_MS = 10_000 * 366 * 86_400_000
_LONGEST_LABEL = 33
_NARROWEST_STRIP = 0.7  # points
_MOST_IN_A_ROW = 3  # panels
_WIDTH, _HEIGHT = 4.6, 4.6  # of a panel (inches)
_AXIS_LABELS = 0.9  # the width of the labels of a panel's axis (inches)
_LEGEND_LINE = 40.0  # points
_HOLDERS = {GROUP: "another source of the group", BACKLOG: "splits that are not assigned yet"}


def draw(runs: Sequence[SourceRun], over: Over) -> Figure:
    """Returns a figure with a panel for each run, and below it the states of its splits.

    The panels come first in ``figure.axes``.
    """
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # Names can have dollar signs.
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
    words = [_words(run) for run in runs]
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
        _hide_times(panels[0])
    names = _AXIS_LABELS
    for n, run in enumerate(runs):
        row, column = divmod(n, columns)
        strips = figure.add_subplot(grid[2 * row + 1, column], sharex=panels[n])
        _draw_states(strips, run, over)
        names = max([names, *(_inches(label)[0] for label in strips.get_yticklabels())])
    figure.set_size_inches(columns * (names + _WIDTH), rows * (_HEIGHT + strips_high))
    _add_legend(figure, styles, runs)
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
    _show_times(panel, "y")
    panel.grid(color="#DDDDDD", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_line(
    panel: Axes, run: SourceRun, over: Over, watermarks: NDArray[np.datetime64], style: LineStyle
) -> None:
    """Draws a line in steps, since watermarks rise only between batches, with gaps where no batch was recorded."""
    along, heights = _with_gaps(run, over, watermarks)
    known = np.concatenate([[False], ~np.isnat(heights), [False]])
    alone = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])
    dots: dict[str, Any] = {"marker": "o", "markersize": 3, "markevery": alone.tolist()}
    panel.plot(along, heights, drawstyle=_STEPS[over], **dots, **style.for_matplotlib())


def _with_gaps(
    run: SourceRun, over: Over, heights: NDArray[np.datetime64]
) -> tuple[NDArray[Any], NDArray[np.datetime64]]:
    """Inserts an unknown height after each batch that no other batch followed for a long time.

    While splits are known to have waited after such a batch, or after the newest one, the height stays. A single batch
    is drawn as wide as its strip.
    """
    along = _along(run, over)
    if len(along) == 1:
        along, heights = _cells(run, over)[0], np.repeat(heights, 2)
    if over == "batch" or not len(along):
        return along, heights
    points: list[tuple[int, Any, bool]] = []  # The batch before, the time, and whether the height is known.
    newest = len(run.times) - 1
    for batch in (*run.gaps, newest):
        last = run.times[batch]
        for begin, end in run.waits(batch):
            if begin - last > SHORTEST_GAP:
                points += [(batch, last, False), (batch, begin, True)]
            points.append((batch, end, True))
            last = end
        if batch < newest:
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
        0.98, 0.03, f"most often slowest:\n{_label(run.splits[slowest])}",
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


def _words(run: SourceRun) -> list[str]:
    """Returns the remarks below the title of a run, one for each line."""
    words = []
    if not _has_watermarks(run):
        words.append("no event time was read, so no watermark is known")
    if (wait := run.last_wait) is not None:
        splits = "1 split waits" if wait.waiting == 1 else f"{wait.waiting:,} splits wait"
        words.append(f"at the end, {splits} for {_HOLDERS.get(wait.held_by) or _label(wait.held_by)}")
    if run.max_drift_ms is not None:
        words.append(f"allowed drift: {duration(run.max_drift_ms)}")
    return words


def _add_title(panel: Axes, run: SourceRun, words: Sequence[str], most_lines: int) -> None:
    """Adds the title and the remarks above the panel."""
    panel.set_title(_label(run.name), fontweight="bold", pad=6 + 12 * most_lines)
    if words:
        panel.text(
            0.5, 1.01, "\n".join(words),
            transform=panel.transAxes, ha="center", va="bottom", color="#2B6C93", fontsize="small",
        )  # fmt: skip


def _at(times: NDArray[np.datetime64], run: SourceRun) -> NDArray[np.datetime64]:
    """Returns the least watermark of a run at each of these times, as it was after the last batch before that time."""
    places = np.searchsorted(run.times, times, side="right") - 1
    return np.where(places < 0, np.datetime64("NaT"), run.floor[np.maximum(places, 0)])


def _draw_states(strips: Axes, run: SourceRun, over: Over) -> None:
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MaxNLocator

    colours = ListedColormap([_STATE_COLOURS[state] for state in STATES])
    norm = BoundaryNorm(np.arange(-0.5, len(STATES)), colours.N)
    edges, shown = _cells(run, over)
    rows = np.arange(len(run.splits) + 1) - 0.5
    strips.pcolormesh(
        edges,
        rows,
        shown,
        cmap=colours,
        norm=norm,
        rasterized=True,
        edgecolors="face",
        linewidth=_NARROWEST_STRIP,
    )
    if over == "time":
        _draw_pauses(strips, run)
    strips.set_ylim(len(run.splits) - 0.5, -0.5)
    if len(run.splits) <= _MOST_NAMES:
        strips.set_yticks(range(len(run.splits)), [_label(split) for split in run.splits], fontsize="x-small")
        for border in rows[1:-1]:
            strips.axhline(border, color="white", linewidth=1.5)
    else:
        strips.set_yticks([])
        strips.set_ylabel(f"{len(run.splits)} splits", fontsize="small")
    strips.spines[:].set_visible(False)
    if over == "time":
        _show_times(strips, "x")
        strips.set_xlabel("recorded at (UTC)", fontsize="small", loc="left")
    else:
        strips.xaxis.set_major_locator(MaxNLocator(integer=True))
        strips.set_xlabel("batch")


def _cells(run: SourceRun, over: Over) -> tuple[NDArray[Any], np.ma.MaskedArray[Any, Any]]:
    """Returns the borders and the states of a strip's cells: one for each batch, masked if no batch was recorded."""
    shown = np.ma.masked_less(run.states, 0)
    if over == "batch":
        return np.append(run.batches[:1] - 0.5, run.batches + 0.5), shown
    first = run.begins
    gaps = run.gaps
    edges = np.insert(np.append(first[:1], run.times), gaps + 2, first[gaps + 1])
    states = np.insert(run.states, gaps + 1, -1, axis=1)
    if run.silent_until is not None:
        edges = np.append(edges, run.silent_until)
        states = np.insert(states, states.shape[1], -1, axis=1)
    return edges, np.ma.masked_less(states, 0)


def _draw_pauses(strips: Axes, run: SourceRun) -> None:
    """Draws the known pauses of splits in times without a batch, and after the newest batch."""
    if not len(run.times):
        return
    ends = run.times
    starts = np.append(run.begins[1:], np.datetime64("9999-12-31"))
    for begin, end in zip(ends, starts, strict=True):
        for pause in run.pauses:
            left, right = max(pause.begin, begin), min(pause.end, end)
            for split in pause.splits if left < right else ():
                strips.fill_betweenx(
                    [split - 0.5, split + 0.5],
                    left,
                    right,
                    color=_STATE_COLOURS[SplitStatus.PAUSED],
                    linewidth=0,
                )


def _show_times(axes: Axes, which: Literal["x", "y"]) -> None:
    from matplotlib.dates import MINUTELY, SECONDLY, AutoDateLocator, ConciseDateFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    fewest, most = (5, 11) if which == "y" else (2, 6)
    locator = AutoDateLocator(tz="UTC", minticks=fewest, maxticks=most)  # type: ignore[no-untyped-call]
    for unit in (MINUTELY, SECONDLY):  # Matplotlib goes from 1 to 5, which can leave a single tick
        locator.intervald[unit] = [1, 2, 5, 10, 15, 30]
    axis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, tz="UTC")  # type: ignore[no-untyped-call]
    formatter.formats = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S.%f"]
    formatter.zero_formats = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M:%S"]
    formatter.offset_formats = ["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"]
    axis.set_major_formatter(formatter)


def _hide_times(panel: Axes) -> None:
    """Removes the ticks of an axis without times. Matplotlib would show days of January 1970."""
    from matplotlib.ticker import NullFormatter, NullLocator

    panel.yaxis.set_major_locator(NullLocator())
    panel.yaxis.set_major_formatter(NullFormatter())


def _add_legend(figure: Figure, styles: dict[str, LineStyle], runs: Sequence[SourceRun]) -> None:
    """Adds the legend next to the panels, or for many splits below them in small type.

    For very many splits the legend does not name them.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    if len(styles) <= _CROWD_ABOVE:
        handles += [
            Line2D([], [], label=_label(split), **style._replace(offset=0).for_matplotlib())
            for split, style in styles.items()
        ]
    seen = {int(number) for run in runs for number in np.unique(run.states)}
    seen |= {STATES.index(SplitStatus.PAUSED) for run in runs if run.pauses}
    handles += [
        Patch(color=_STATE_COLOURS[state], label=state.lower()) for n, state in enumerate(STATES) if n in seen
    ]
    if any(len(run.gaps) or len(run.pauses) or run.silent_until is not None for run in runs):
        handles.append(Patch(facecolor="white", edgecolor="#B0B0B0", label="no batch recorded"))
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


def _label(given: str) -> str:
    """Returns a short name. Of a long name, such as a path, it keeps the parts that differ from other names."""
    shown = name(given)
    if len(shown) > _LONGEST_LABEL:
        shown = shown.rpartition("/")[2]
    begin, end = 2 * _LONGEST_LABEL // 3, _LONGEST_LABEL // 3
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[:begin]}…{shown[-end:]}"
