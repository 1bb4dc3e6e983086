"""The picture: watermarks of the splits over the batches, drawn from the split-watermark table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.demo.comparison import ALIGNED, BUILT_IN
from flip27_stream.demo.picture import ARROW, DPI, DROPPED, shade_dropped, title_with_lost
from flip27_stream.demo.run import Positions
from flip27_stream.demo.skew.backlog import SkewedTopic
from flip27_stream.demo.skew.query import GROUP, SkewRun
from flip27_stream.demo.windowed_count import DELAY
from watermark_alignment import plot
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_rows import SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STORY = {
    BUILT_IN: "is hours behind:\nits rows are late",
    ALIGNED: "is read first,\nthe others wait for it",
}


def record_built_in(table: SplitWatermarkTable, backlog: SkewedTopic, run: SkewRun) -> None:
    """Appends the rows of the built-in source, which does not write them itself.

    They are computed from the offsets in the query's progress and the event times that were written.
    """
    before: Positions = dict.fromkeys(backlog.splits, 0)
    for number, batch in enumerate(run.batches):
        after = batch.positions
        fronts = [backlog.next_event_time(p, after[split]) for p, split in enumerate(backlog.splits)]
        rows = [
            SplitRow(
                group=GROUP,
                source=BUILT_IN,
                split=split,
                batch=number,
                start_position=str(before[split]),
                end_position=str(after[split]),
                rows=after[split] - before[split],
                watermark=fronts[partition] - 1,
                max_event_time=backlog.last_event_time(partition, after[split]),
                status=str(SplitStatus.ACTIVE),
                drift_ms=fronts[partition] - min(fronts),
                recorded_at=batch.began_at,
            )
            for partition, split in enumerate(backlog.splits)
        ]
        table.append(BUILT_IN, number, rows, {})
        before = after


def draw(table: SplitWatermarkTable, backlog: SkewedTopic, runs: Sequence[SkewRun], path: Path) -> None:
    """Writes the picture: :func:`watermark_alignment.plot`, the range that Spark drops, and an explanation."""
    figure = plot(table, group=GROUP, sources=[run.format for run in runs], over="batch")
    for panel, run in zip(figure.axes, runs, strict=False):  # The panels come first.
        title_with_lost(panel, run.format, backlog.rows - run.counts.total(), backlog.rows, "rows")
        panel.yaxis.get_offset_text().set_visible(False)  # The date would cover the title.
        rows = table.rows(group=GROUP, source=run.format)
        _shade_dropped(panel, rows)
        _point_at_laggard(panel, rows, backlog.splits[backlog.laggard], _STORY[run.format])
    figure.savefig(path, dpi=DPI)


def _shade_dropped(panel: Axes, rows: pa.Table) -> None:
    """Shades the range below Spark's watermark, which is the greatest event time read so far, less the delay."""
    rows = rows.filter(pc.is_valid(rows["max_event_time"]))  # The first batch of a run may be empty.
    latest = rows.group_by("batch").aggregate([("max_event_time", "max")]).sort_by("batch")
    greatest = list(accumulate(latest["max_event_time_max"].cast(pa.int64()).to_pylist(), max))
    watermarks = (np.array(greatest) - DELAY * 1000).astype("datetime64[us]")
    shade_dropped(panel, latest["batch"].to_pylist(), watermarks)
    text = "below Spark's watermark:\nwhat is read here is dropped"
    panel.text(0.94, 0.05, text, transform=panel.transAxes, ha="right", color=DROPPED)


def _point_at_laggard(panel: Axes, rows: pa.Table, split: str, remark: str) -> None:
    line = rows.filter(pc.equal(rows["split"], split))
    watermarks = line["watermark"].cast(pa.timestamp("us")).to_numpy()
    batches = line["batch"].to_numpy()
    half_way = int((watermarks < watermarks[0] + (watermarks[-1] - watermarks[0]) // 2).sum()) - 1
    text, at = f"{split} {remark}", (batches[half_way], watermarks[half_way])
    panel.annotate(text, at, xytext=(22, -34), textcoords="offset points", arrowprops=ARROW)
