"""The picture: event time over batches, with the seam."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flip27_stream.demo.event_time import to_numpy
from flip27_stream.demo.hybrid.clicks import Clicks
from flip27_stream.demo.hybrid.query import HybridBatch
from flip27_stream.demo.picture import ARROW, DPI, batch_axis, event_time_axis, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TABLE, _TOPIC, _WATERMARK = "#0072B2", "#D55E00", "#444444"


def draw(clicks: Clicks, batches: Sequence[HybridBatch], title: str, path: Path) -> None:
    """Writes the picture: a bar for the event times of each batch, and Spark's watermark in that batch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.2), layout="constrained")
    panel = figure.subplots()
    for index, colour, label in ((0, _TABLE, "Delta table"), (1, _TOPIC, "topic")):
        _bars(
            panel,
            [(n, b) for n, b in enumerate(batches) if b.index == index],
            colour,
            f"read from the {label}",
        )
    known = [(n, b.watermark) for n, b in enumerate(batches) if b.watermark > 0]
    numbers = [n for n, _ in known]
    panel.plot(
        numbers, to_numpy([t for _, t in known]), color=_WATERMARK, linewidth=1.2, drawstyle="steps-mid",
        label="Spark's watermark: what is read below it is dropped",
    )  # fmt: skip
    _mark_seam(panel, clicks, batches)
    event_time_axis(panel)
    batch_axis(panel)
    tidy(panel)
    panel.set_xlim(-0.8, len(batches) - 0.2)
    panel.set_ylabel("event time (UTC)")
    panel.set_title(title, fontweight="bold")
    panel.legend(loc="lower right", facecolor="white", edgecolor="none", framealpha=1)
    figure.savefig(path, dpi=DPI)


def _bars(panel: Axes, batches: Sequence[tuple[int, HybridBatch]], colour: str, label: str) -> None:
    from matplotlib.dates import date2num

    bottoms = date2num(to_numpy([b.least for _, b in batches]))  # type: ignore[no-untyped-call]
    tops = date2num(to_numpy([b.greatest for _, b in batches]))  # type: ignore[no-untyped-call]
    numbers = [n for n, _ in batches]
    panel.bar(numbers, tops - bottoms, 0.8, bottoms, color=colour, label=label, zorder=2)


def _mark_seam(panel: Axes, clicks: Clicks, batches: Sequence[HybridBatch]) -> None:
    """Marks where the first batch of the topic begins, and the records that both sources have."""
    switch = next((n for n, batch in enumerate(batches) if batch.index == 1), None)
    if switch is None:
        return
    seam = batches[switch].seam
    assert seam is not None
    begin, end = to_numpy([clicks.topic_begin, seam])
    panel.axvline(switch - 0.5, color="black", linestyle="--", linewidth=1)
    panel.axhline(end, color="black", linestyle="--", linewidth=1)
    panel.axhspan(begin, end, color=_TOPIC, alpha=0.12, linewidth=0, zorder=0)
    panel.text(
        0.01, (begin + (end - begin) // 2), f"the topic has these, too:\n{clicks.rows_in_both:,} records, read once",
        transform=panel.get_yaxis_transform(), va="center", color=_TOPIC,
    )  # fmt: skip
    panel.annotate(
        f"the seam: up to {str(end)[11:23]} from the table,\nfrom the next millisecond on from the topic",
        (switch - 0.5, end), xytext=(-12, 34), textcoords="offset points", ha="right", arrowprops=ARROW,
    )  # fmt: skip
