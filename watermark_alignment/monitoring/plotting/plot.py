"""The picture of a split-watermark table, which Matplotlib draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def plot(
    table: str | PathLike[str] | SplitWatermarkTable,
    *,
    group: str | None = None,
    sources: Sequence[str] | None = None,
    batches: int = 1000,
    over: Literal["time", "batch"] = "time",
    max_drift: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Figure:
    """Returns a picture of the watermark of every split over time, with a panel for each source and one time axis.

    Below each panel a coloured strip for each split shows its state. A band shows the allowed drift: from the slowest
    split of the group that counts up to ``max_drift`` above it. A split whose next record is above the band is paused.
    If splits wait at the end of the picture, a remark names the split for which they wait.

    Args:
        table: The table, or its path or URI.
        group: The group to show; by default all groups.
        sources: The names of the sources to show, in this order, at most three in a row; or one name. By default the
            sources that ran at the same time as the newest one, sorted by name.
        batches: The number of newest batches to draw of each source, from its latest run. Of more than 2,000 batches
            only every second, third, ... batch is drawn.
        over: The other axis: the time at which batches were recorded, or the numbers of batches.
        max_drift: A duration as in ``scan.watermark.alignment.max-drift``; by default the value in the newest batches
            of the sources. If it is unknown, no band is drawn.
        storage_options: The storage options if ``table`` is a path or URI.

    Returns:
        A Matplotlib figure, which needs no display. ``figure.savefig("watermarks.png")`` writes it.

    Raises:
        AlignmentError: The table cannot be read, or has no rows of these sources.
        OptionError: ``max_drift`` is not a duration, or ``batches`` or ``over`` is wrong.
    """
    from flip27_stream.extras import check_installed
    from flip27_stream.options.durations import parse_duration

    _check_arguments(over, batches)
    check_installed("matplotlib", "monitoring", "plot()")
    from watermark_alignment.monitoring.plotting.picture import draw
    from watermark_alignment.monitoring.plotting.runs import read_runs
    from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

    drift_ms = None if max_drift is None else parse_duration(max_drift, "max_drift")
    if not isinstance(table, SplitWatermarkTable):
        table = SplitWatermarkTable(table, storage_options or {})
    if isinstance(sources, str):
        sources = [sources]
    runs = read_runs(table, group, sources, batches)
    return draw(runs if drift_ms is None else [replace(run, max_drift_ms=drift_ms) for run in runs], over)


def _check_arguments(over: str, batches: int) -> None:
    from flip27_stream.errors import OptionError

    if over not in ("time", "batch"):
        raise OptionError.of("over", over, "Allowed: time, batch.")
    if type(batches) is not int or batches < 1:
        raise OptionError.of("batches", batches, "Allowed: a whole number > 0.")
