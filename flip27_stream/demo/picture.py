"""The picture: watermarks of the splits over the batches, drawn from the Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.demo.backlog import DELAY, Backlog
from flip27_stream.demo.display import NAMES
from flip27_stream.demo.job import ALIGNED, BUILT_IN, GROUP, Positions, Run
from watermark_alignment import plot
from watermark_alignment.states import SplitStatus
from watermark_alignment.table import SplitRow, SplitWatermarkTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DROPPED = "#B22222"
_STORY = {
    BUILT_IN: "is hours behind:\nits rows are late",
    ALIGNED: "is read first,\nthe others wait for it",
}


def record_built_in(table: SplitWatermarkTable, backlog: Backlog, run: Run) -> None:
    """Append the rows of the built-in source, which keeps no such table.

    They follow from the offsets in the query's progress and the event times that were written.
    """
    before: Positions = dict.fromkeys(range(len(backlog.event_times)), 0)
    for number, batch in enumerate(run.batches):
        fronts = {p: backlog.next_event_time(p, position) for p, position in batch.positions.items()}
        rows = [
            SplitRow(
                group=GROUP,
                source=BUILT_IN,
                split=f"{backlog.topic}-{partition}",
                batch=number,
                start_position=str(before[partition]),
                end_position=str(position),
                rows=position - before[partition],
                watermark=fronts[partition] - 1,
                max_event_time=backlog.last_event_time(partition, position),
                status=str(SplitStatus.ACTIVE),
                drift_ms=fronts[partition] - min(fronts.values()),
                recorded_at=batch.recorded_at,
            )
            for partition, position in batch.positions.items()
        ]
        table.append(BUILT_IN, number, rows, {})
        before = batch.positions


def draw(table: SplitWatermarkTable, backlog: Backlog, runs: Sequence[Run], path: Path) -> None:
    """Write the picture: :func:`watermark_alignment.plot`, what Spark drops, and what to look at."""
    figure = plot(table, group=GROUP, sources=[run.format for run in runs], over="batch")
    for panel, run in zip(figure.axes, runs, strict=False):  # the panels come first
        lost = backlog.rows - run.counts.total()
        colour = _DROPPED if lost else "black"
        title = f"{NAMES[run.format]}\n{lost:,} of {backlog.rows:,} rows lost"
        panel.set_title(title, fontweight="bold", color=colour)
        rows = table.rows(group=GROUP, source=run.format)
        _shade_dropped(panel, rows)
        _point_at_laggard(panel, rows, f"{backlog.topic}-{backlog.laggard}", _STORY[run.format])
    figure.savefig(path, dpi=130)


def _shade_dropped(panel: Axes, rows: pa.Table) -> None:
    """Shade the event times below Spark's watermark, the greatest event time read so far less the delay."""
    rows = rows.filter(pc.is_valid(rows["max_event_time"]))  # the first batch of a run may be empty
    latest = rows.group_by("batch").aggregate([("max_event_time", "max")]).sort_by("batch")
    greatest = list(accumulate(latest["max_event_time_max"].cast(pa.int64()).to_pylist(), max))
    spark_watermark = (np.array(greatest) - DELAY * 1000).astype("datetime64[us]")
    batches = latest["batch"].to_numpy()
    bottom, top = panel.get_ylim()
    panel.fill_between(batches, bottom, spark_watermark, color=_DROPPED, alpha=0.12, linewidth=0, zorder=0)
    panel.plot(batches, spark_watermark, color=_DROPPED, linewidth=1, zorder=1)
    panel.set_ylim(bottom, top)
    text = "below Spark's watermark:\nwhat is read here is dropped"
    panel.text(0.94, 0.05, text, transform=panel.transAxes, ha="right", color=_DROPPED)


def _point_at_laggard(panel: Axes, rows: pa.Table, split: str, story: str) -> None:
    line = rows.filter(pc.equal(rows["split"], split))
    watermarks = line["watermark"].cast(pa.timestamp("us")).to_numpy()
    batches = line["batch"].to_numpy()
    half_way = int((watermarks < watermarks[0] + (watermarks[-1] - watermarks[0]) // 2).sum()) - 1
    at = (batches[half_way], watermarks[half_way])
    panel.annotate(
        f"{split} {story}", at, xytext=(22, -34), textcoords="offset points",
        arrowprops={"arrowstyle": "->", "color": "black"},
    )  # fmt: skip
