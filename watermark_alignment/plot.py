"""A picture of the split-watermark table: how the watermarks of the splits rose over the batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.errors import AlignmentError
from watermark_alignment.table import SplitWatermarkTable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, made for the colour-blind; dashes tell further splits from the first seven.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")
_MARKERS = {"PAUSED": "o", "IDLE": "D", "FINISHED": "s"}
_MOST_MARKERS = 30  # on one line
_SMALL_LEGEND_ABOVE, _NO_LEGEND_ABOVE = 10, 40  # splits


class _Style(NamedTuple):
    color: str
    linestyle: str
    linewidth: float


def plot(
    table: str | SplitWatermarkTable,
    *,
    group: str | None = None,
    sources: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the watermark of every split over the batches, one panel per source on a common time axis.

    A hollow marker says that the split was paused, idle or finished in that batch. Where a source was started
    anew without its checkpoint, its latest run is drawn.

    :param table: the table, or its path or URI, then reached with ``storage_options``.
    :param sources: the sources to show, from left to right; all of the table (and group) by default.
    :returns: a Matplotlib figure, which needs no display: ``figure.savefig("watermarks.png")``.
    :raises AlignmentError: the table cannot be read, or has no rows of these sources.
    """
    from matplotlib.figure import Figure

    table = (
        table if isinstance(table, SplitWatermarkTable) else SplitWatermarkTable(table, storage_options or {})
    )
    runs = _runs(table, group, sources)
    splits = sorted({split for run in runs.values() for split in run["split"].to_pylist()}, key=_natural)
    styles = {split: _style(index) for index, split in enumerate(splits)}
    figure = Figure(figsize=(2.5 + 5 * len(runs), 4.8), layout="constrained")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for panel, (source, run) in zip(panels, runs.items(), strict=True):
        _draw(panel, run, styles)
        panel.set_title(source, fontweight="bold")
    panels[0].set_ylabel("watermark of the split (event time, UTC)")
    _add_legend(figure, styles, {status for run in runs.values() for status in run["status"].to_pylist()})
    return figure


def _runs(
    table: SplitWatermarkTable, group: str | None, sources: Sequence[str] | None
) -> dict[str, pa.Table]:
    rows = table.rows(group=group)
    names = rows["source"].unique().to_pylist() if sources is None else list(sources)
    missing = set(names) - set(rows["source"].unique().to_pylist())
    if missing or not names:
        whose = f"source '{min(missing)}'" if missing else "any source"
        where = f" in group '{group}'" if group is not None else ""
        raise AlignmentError(f"The split-watermark table at '{table.uri}' has no rows of {whose}{where}")
    return {name: _latest_run(rows.filter(pc.equal(rows["source"], name))) for name in names}


def _latest_run(rows: pa.Table) -> pa.Table:
    """A run's batches only rise; where they fall back another has begun."""
    falls = np.flatnonzero(np.diff(rows["batch"].to_numpy()) < 0)
    return rows.slice(int(falls[-1]) + 1 if falls.size else 0)


def _draw(panel: Axes, run: pa.Table, styles: Mapping[str, _Style]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    for split in sorted(run["split"].unique().to_pylist(), key=_natural):
        rows = run.filter(pc.equal(run["split"], split))
        batches = rows["batch"].to_numpy()
        watermarks = rows["watermark"].cast(pa.timestamp("us")).to_numpy()
        panel.plot(batches, watermarks, **styles[split]._asdict())
        status = np.array(rows["status"].to_pylist())
        for name, marker in _MARKERS.items():
            shown = np.flatnonzero(status == name)
            shown = shown[:: 1 + shown.size // _MOST_MARKERS]
            panel.scatter(
                batches[shown], watermarks[shown], s=26, marker=marker, facecolors="white",
                edgecolors=styles[split].color, linewidths=1.2, zorder=3,
            )  # fmt: skip
    locator = AutoDateLocator(tz="UTC", maxticks=11)  # type: ignore[no-untyped-call]
    panel.yaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, tz="UTC")  # type: ignore[no-untyped-call]
    panel.yaxis.set_major_formatter(formatter)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("batch")
    panel.grid(color="#DDDDDD", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Figure, styles: Mapping[str, _Style], statuses: Iterable[str]) -> None:
    """Beside the panels; below them in small type for many splits; only the states for very many."""
    from matplotlib.lines import Line2D

    handles: list[Artist] = []
    if len(styles) <= _NO_LEGEND_ABOVE:
        handles += [Line2D([], [], label=split, **style._asdict()) for split, style in styles.items()]
    look: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "white", "markeredgecolor": "#444444"}
    handles += [
        Line2D([], [], label=status.lower(), marker=marker, **look)
        for status, marker in _MARKERS.items()
        if status in statuses
    ]
    if len(styles) <= _SMALL_LEGEND_ABOVE:
        figure.legend(handles=handles, loc="outside right upper", frameon=False)
    elif handles:
        columns = max(4, 4 * len(figure.axes))
        figure.legend(
            handles=handles, loc="outside lower center", frameon=False, fontsize="x-small", ncols=columns
        )


def _style(index: int) -> _Style:
    # Narrower and narrower, so that splits with one watermark all show.
    width = max(1.3, 4.0 - 0.7 * index)
    return _Style(_COLOURS[index % len(_COLOURS)], _DASHES[index // len(_COLOURS) % len(_DASHES)], width)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts split 2 before split 10."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]
