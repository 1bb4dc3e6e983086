"""Draws the states of splits as coloured strips, a row for each split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from watermark_alignment.monitoring.plotting.labels import label, show_times
from watermark_alignment.monitoring.plotting.runs import STATES, SourceRun
from watermark_alignment.monitoring.plotting.timeline import Span, clipped
from watermark_alignment.states import SplitStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch
    from numpy.typing import NDArray

Over = Literal["time", "batch"]

NO_NEW_BATCH: Final = "no new batch"
"""The state of all splits while their source is alive and no batch is recorded, unless a split is known to wait."""
NOTHING_RECORDED: Final = "nothing recorded"
"""Where neither a batch nor an entry of the source is known, strips are blank."""

_COLOURS: Final = {
    SplitStatus.ACTIVE: "#B7DDC9",
    SplitStatus.PAUSED: "#E69F00",
    SplitStatus.IDLE: "#9DB7D5",
    SplitStatus.FINISHED: "#D4D4D4",
}
_ALIVE, _ALIVE_COLOUR = len(STATES), "#F4E9A6"
_MOST_NAMES: Final = 12  # next to the strips
_NARROWEST_STRIP: Final = 0.7  # points


def draw_states(strips: Axes, run: SourceRun, over: Over) -> None:
    """Draws the strips of a run."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MaxNLocator

    colours = ListedColormap([*(_COLOURS[state] for state in STATES), _ALIVE_COLOUR])
    norm = BoundaryNorm(np.arange(-0.5, colours.N), colours.N)
    edges, shown = cells(run, over)
    rows = np.arange(len(run.splits) + 1) - 0.5
    mesh = strips.pcolormesh(
        edges,
        rows,
        shown,
        cmap=colours,
        norm=norm,
        rasterized=True,
        edgecolors="face",
        linewidth=_NARROWEST_STRIP,
    )
    mesh.sticky_edges.x.clear()  # Leaves a margin, so that the first batch and the last one are not cut off.
    if over == "time":
        _draw_pauses(strips, run)
    strips.set_ylim(len(run.splits) - 0.5, -0.5)
    if len(run.splits) <= _MOST_NAMES:
        strips.set_yticks(range(len(run.splits)), [label(split) for split in run.splits], fontsize="x-small")
        for border in rows[1:-1]:
            strips.axhline(border, color="white", linewidth=1.5)
    else:
        strips.set_yticks([])
        strips.set_ylabel(f"{len(run.splits)} splits", fontsize="small")
    strips.spines[:].set_visible(False)
    if over == "time":
        show_times(strips, "x")
        strips.set_xlabel("recorded at (UTC)", fontsize="small", loc="left")
    else:
        strips.xaxis.set_major_locator(MaxNLocator(integer=True))
        strips.set_xlabel("batch")


def legend_patches(runs: Sequence[SourceRun], over: Over) -> list[Patch]:
    """Returns the parts of a legend for the states that the strips of these runs show."""
    from matplotlib.patches import Patch

    seen = {int(number) for run in runs for number in np.unique(run.states)}
    is_alive = is_blank = False
    if over == "time":
        seen |= {STATES.index(SplitStatus.PAUSED) for run in runs if _shown_pauses(run)}
        pieces = [piece for run in runs for _, _, piece in _pieces(run)]
        is_alive, is_blank = True in pieces, False in pieces
    found = [Patch(color=_COLOURS[state], label=state.lower()) for n, state in enumerate(STATES) if n in seen]
    if is_alive:
        found.append(Patch(color=_ALIVE_COLOUR, label=NO_NEW_BATCH))
    if is_blank:
        found.append(Patch(facecolor="white", edgecolor="#B0B0B0", label=NOTHING_RECORDED))
    return found


def cells(run: SourceRun, over: Over) -> tuple[NDArray[Any], np.ma.MaskedArray[Any, Any]]:
    """Returns the borders and the states of a strip's cells: one for each batch, and some for times without a batch.

    A state is an index of :data:`STATES`, or the number after these while the source is alive. It is masked if nothing
    is known.
    """
    if over == "batch":
        return np.append(run.batches[:1] - 0.5, run.batches + 0.5), np.ma.masked_less(run.states, 0)
    ends: list[np.datetime64] = list(run.times)
    columns = list(run.states.T)
    for batch, span, is_alive in reversed(_pieces(run)):
        before = run.states[:, batch]
        ends.insert(batch + 1, span.end)
        columns.insert(batch + 1, np.where(is_alive & (before >= 0), _ALIVE, -1))
    return np.array([*run.begins[:1], *ends]), np.ma.masked_less(np.stack(columns, axis=1), 0)


def _pieces(run: SourceRun) -> list[tuple[int, Span, bool]]:
    """Returns the times without a batch that are drawn, in order.

    Each has the batch before it, and whether the source is known to have been alive.
    """
    found = []
    newest = len(run.times) - 1
    for batch in (*run.gaps.tolist(), newest):
        last = run.times[batch]
        end = run.begins[batch + 1] if batch < newest else run.silent_until
        if end is None:
            continue
        for span in clipped(run.alive_after[batch], last, end):
            if last < span.begin:
                found.append((batch, Span(last, span.begin), False))
            found.append((batch, span, True))
            last = span.end
        if last < end:
            found.append((batch, Span(last, end), False))
    return found


def _shown_pauses(run: SourceRun) -> list[tuple[int, Span]]:
    """Returns the known pauses in times without a batch, and after the newest batch; each with its split."""
    return [
        (split, span)
        for _, piece, is_alive in _pieces(run)
        if is_alive
        for pause in run.pauses
        for span in clipped([pause], *piece)
        for split in pause.splits
    ]


def _draw_pauses(strips: Axes, run: SourceRun) -> None:
    for split, span in _shown_pauses(run):
        strips.fill_betweenx(
            [split - 0.5, split + 0.5], *span, color=_COLOURS[SplitStatus.PAUSED], linewidth=0
        )
