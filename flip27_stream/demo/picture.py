"""The picture: watermarks of the splits over the batches, drawn from the Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flip27_stream.demo.backlog import DELAY, Backlog
from flip27_stream.demo.display import NAMES
from flip27_stream.demo.job import BUILT_IN, GROUP, Positions, Run
from watermark_alignment.plot import plot
from watermark_alignment.states import SplitStatus
from watermark_alignment.table import SplitRow, SplitWatermarkTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DROPPED = "#B22222"


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
    """Write the picture: :func:`watermark_alignment.plot.plot`, and what Spark drops."""
    figure = plot(table, group=GROUP, sources=[run.format for run in runs])
    for panel, run in zip(figure.axes, runs, strict=True):
        lost = backlog.rows - run.counts.total()
        panel.set_title(
            f"{NAMES[run.format]}\n{lost:,} of {backlog.rows:,} rows lost", fontweight="bold",
            color=_DROPPED if lost else "black",
        )  # fmt: skip
        _shade_dropped(panel, table.rows(group=GROUP, source=run.format))
    figure.savefig(path, dpi=130)


def _shade_dropped(panel: Axes, rows: pa.Table) -> None:
    """Shade the event times below Spark's watermark, the greatest event time read so far less the delay."""
    latest = rows.group_by("batch").aggregate([("max_event_time", "max")]).sort_by("batch")
    greatest = list(accumulate(latest["max_event_time_max"].cast(pa.int64()).to_pylist(), max))
    spark_watermark = (np.array(greatest) - DELAY * 1000).astype("datetime64[us]")
    batches = latest["batch"].to_numpy()
    bottom, top = panel.get_ylim()
    panel.fill_between(batches, bottom, spark_watermark, color=_DROPPED, alpha=0.12, linewidth=0, zorder=0)
    panel.plot(batches, spark_watermark, color=_DROPPED, linewidth=1, zorder=1)
    panel.set_ylim(bottom, top)
    middle = len(batches) // 2
    panel.annotate(
        "below Spark's watermark:\nrows are dropped", (batches[middle], bottom), xytext=(0, 8),
        textcoords="offset points", ha="center", color=_DROPPED,
    )  # fmt: skip
