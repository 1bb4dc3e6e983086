"""The picture of a split-watermark table, which Matplotlib draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def plot(
    table: str | SplitWatermarkTable,
    *,
    group: str | None = None,
    sources: Sequence[str] | None = None,
    batches: int = 1000,
    over: Literal["time", "batch"] = "time",
    max_drift: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Figure:
    """Draw how the watermark of every split rose, one panel per source, all on one axis of event time.

    Below each panel a strip of colour per split shows its state. A band shows how far splits may drift: from the
    slowest split of the group that counts up to ``max_drift`` above it. A split whose next record lies above
    the band is paused.

    Args:
        table: the table, or its path or URI, then reached with ``storage_options``.
        sources: the sources to show, from left to right; by default those that ran when the newest did.
        batches: how many of the newest batches of a source are drawn, of its latest run; of more than 2,000 every
            second, third, ... one.
        over: what lies along the other axis, the time batches were recorded at or their numbers.
        max_drift: as in ``scan.watermark.alignment.max-drift``, "5 minutes"; by default what the sources told with
            their newest batches. Of sources that wrote nothing lately it is unknown, and no band is drawn.

    Returns:
        a Matplotlib figure, which needs no display. ``figure.savefig("watermarks.png")`` writes it.

    Raises:
        AlignmentError: the table cannot be read, or has no rows of these sources.
        OptionError: ``max_drift`` is not a duration.
    """
    from flip27_stream.extras import check_installed
    from flip27_stream.options.durations import parse_duration

    check_installed("matplotlib", "monitoring", "plot()")
    from watermark_alignment.monitoring.plotting.picture import draw
    from watermark_alignment.monitoring.plotting.runs import read_runs
    from watermark_alignment.options import MAX_DRIFT
    from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

    drift_ms = None if max_drift is None else parse_duration(max_drift, MAX_DRIFT.name)
    if isinstance(table, str):
        table = SplitWatermarkTable(table, storage_options or {})
    runs = read_runs(table, group, sources, batches)
    return draw(runs if drift_ms is None else [replace(run, max_drift_ms=drift_ms) for run in runs], over)
