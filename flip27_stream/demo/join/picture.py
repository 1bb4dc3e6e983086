"""The picture: event time of both topics over the batches, and the state below it, for both sources side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flip27_stream.demo import picture
from flip27_stream.demo.event_time import HOUR, MINUTE, to_numpy
from flip27_stream.demo.join.display import megabytes
from flip27_stream.demo.join.query import MAX_DRIFT, JoinBatch, JoinRun
from flip27_stream.demo.join.shop import ORDERS, PAYMENTS, Shop
from flip27_stream.demo.picture import ARROW, DROPPED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {ORDERS: "#0072B2", PAYMENTS: "#E69F00"}
# Different widths, so that both lines are visible where one covers the other.
_WIDTHS = {ORDERS: 3.2, PAYMENTS: 1.4}
_STATE = "#009E73"


def draw(shop: Shop, runs: Sequence[JoinRun], path: Path) -> None:
    """Writes the picture, with a column for each run and common axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 + 5.2 * len(runs), 7.4), layout="constrained")
    panels = figure.subplots(
        2, len(runs), squeeze=False, sharex="col", sharey="row", gridspec_kw={"height_ratios": (3, 2)}
    )
    for run, (above, below) in zip(runs, panels.T, strict=True):
        picture.title_with_lost(above, run.format, shop.pairs - run.distinct, shop.pairs, "joined rows")
        _draw_event_times(above, shop, run)
        _say_how_far_apart(above, shop, run)
        _say_what_is_dropped(above, shop, run)
        _draw_state(below, run)
    panels[0, 0].set_ylabel("event time read (UTC)")
    panels[1, 0].set_ylabel("rows in the state of the join")
    _add_title_and_legend(figure, shop, runs)
    figure.savefig(path, dpi=picture.DPI)


def _draw_event_times(panel: Axes, shop: Shop, run: JoinRun) -> None:
    for split in shop.records:
        times = [_read_until(shop, split, batch) for batch in run.batches]
        topic, _, _ = split.rpartition("-")
        panel.plot(to_numpy(times), color=_COLOURS[topic], linewidth=_WIDTHS[topic], drawstyle="steps-mid")
    panel.margins(y=0.02)
    known = [(n, batch.watermark) for n, batch in enumerate(run.batches) if batch.watermark is not None]
    watermarks = to_numpy([watermark for _, watermark in known])
    picture.shade_dropped(panel, [n for n, _ in known], watermarks, linestyle="--")
    picture.event_time_axis(panel, show_offset=False)
    picture.tidy(panel)


def _say_how_far_apart(panel: Axes, shop: Shop, run: JoinRun) -> None:
    apart = [shop.apart(batch.positions) for batch in run.batches]
    furthest = int(np.argmax(apart))
    if apart[furthest] <= MAX_DRIFT:
        text = f"both topics go together:\nat most {apart[furthest] // MINUTE} minutes apart"
        panel.text(0.04, 0.9, text, transform=panel.transAxes, va="top")
        return
    ahead = max(_read_until(shop, split, run.batches[furthest]) for split in shop.records)
    panel.annotate(
        f"up to {apart[furthest] / HOUR:.1f} hours apart: what is\nread ahead waits in the state",
        (furthest, to_numpy([ahead])[0]), xytext=(24, -30), textcoords="offset points", arrowprops=ARROW,
        fontsize="small",
    )  # fmt: skip


def _say_what_is_dropped(panel: Axes, shop: Shop, run: JoinRun) -> None:
    if not run.dropped:
        return
    reads = [_read_until(shop, shop.laggard, batch) for batch in run.batches]
    behind = [(batch.watermark or 0) - read for batch, read in zip(run.batches, reads, strict=True)]
    deepest = int(np.argmax(behind))
    panel.annotate(
        f"{shop.laggard} is hours behind the others:\n{run.dropped:,} rows dropped as late, payments too",
        (deepest, to_numpy([reads[deepest]])[0]), xytext=(0.38, 0.12), textcoords="axes fraction", color=DROPPED,
        arrowprops={**ARROW, "color": DROPPED},
    )  # fmt: skip


def _read_until(shop: Shop, split: str, batch: JoinBatch) -> int:
    """Returns the event time up to which the split was read, or where it begins if nothing was read."""
    time = shop.read_until(split, batch.positions.get(split, 0))
    return int(shop.records[split].times[0]) if time is None else time


def _draw_state(panel: Axes, run: JoinRun) -> None:
    from matplotlib.ticker import StrMethodFormatter

    rows = [batch.state_rows for batch in run.batches]
    panel.fill_between(range(len(rows)), rows, color=_STATE, alpha=0.3, linewidth=0)
    panel.plot(rows, color=_STATE, linewidth=1.6)
    text = f"at most {max(rows):,} rows, {megabytes(run.peak(lambda batch: batch.state_bytes))}"
    panel.text(0.97, 0.9, text, transform=panel.transAxes, ha="right", fontweight="bold")
    panel.margins(y=0.18)
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    picture.batch_axis(panel)
    picture.tidy(panel)


def _add_title_and_legend(figure: Figure, shop: Shop, runs: Sequence[JoinRun]) -> None:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [
        Line2D([], [], color=colour, linewidth=_WIDTHS[topic], label=f"{topic}, a line for each partition")
        for topic, colour in _COLOURS.items()
    ]
    handles.append(Line2D([], [], color=DROPPED, linestyle="--", linewidth=1, label="Spark's watermark"))
    handles.append(Patch(color=DROPPED, alpha=0.12, label="what is read here is dropped as late"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle(_verdict(shop, runs), fontsize="x-large")


def _verdict(shop: Shop, runs: Sequence[JoinRun]) -> str:
    without, aligned = (run.peak(lambda batch: batch.state_rows) for run in runs)
    lost = [f"{shop.pairs - run.distinct:,}" if run.distinct < shop.pairs else "none" for run in runs]
    return (
        f"Two topics joined: without alignment {without / max(aligned, 1):.1f} times the state, "
        f"and {lost[0]} of the joined rows lost; with it {lost[1]}"
    )
