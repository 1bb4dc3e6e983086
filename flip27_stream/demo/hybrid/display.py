"""The terminal output: the progress of both sources, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from flip27_stream.demo.display import alarm, mark
from flip27_stream.demo.event_time import clock
from flip27_stream.demo.hybrid.clicks import Clicks
from flip27_stream.demo.hybrid.query import HybridBatch
from flip27_stream.demo.run import count_of_batches
from flip27_stream.demo.windowed_count import Counts


def live(clicks: Clicks, done: Sequence[HybridBatch], written: int) -> RenderableType:
    """Returns the progress of both sources in event time."""
    lines = Table.grid(padding=(0, 2))
    spans = ((0, "Delta table", clicks.begin, clicks.table_end), (1, "topic", clicks.table_end, clicks.end))
    for index, name, begin, end in spans:
        mine = [batch for batch in done if batch.index == index]
        at = min(max((batch.greatest for batch in mine), default=begin), end)
        over = bool(done) and (done[-1].index > index or at >= written == end)
        so_far = f"{sum(b.rows for b in mine):,} rows in {count_of_batches(mine)}" if mine else "waits"
        bar = ProgressBar(end - begin, end - begin if over else at - begin, width=22)
        sign = mark(begun=bool(mine) or not index, over=over)
        lines.add_row(sign, name, bar, f"at {clock(at)}" if mine else "", so_far)
    return lines


def line(done: Sequence[HybridBatch]) -> str:
    """Returns the progress of both sources in one line."""
    counts = [sum(batch.rows for batch in done if batch.index == index) for index in (0, 1)]
    return f"Delta table: {counts[0]:,} rows, topic: {counts[1]:,} rows, in {count_of_batches(done)}"


def result(clicks: Clicks, done: Sequence[HybridBatch], counted: Counts) -> Table:
    """Returns the number of rows that were lost or read twice, and the position of the seam."""
    right = clicks.counts()
    switch = next(n for n, batch in enumerate(done) if batch.index == 1)
    seam = done[switch].seam
    table = Table(show_header=False)
    table.add_row("records", f"{clicks.rows:,}")
    table.add_row("of them in the table and in the topic", f"{clicks.rows_in_both:,}")
    table.add_row("lost", alarm((right - counted).total()))
    table.add_row("counted twice", alarm((counted - right).total()))
    table.add_row("batches of the table", str(switch))
    table.add_row("batches of the topic", str(len(done) - switch))
    table.add_row("event time of the seam, UTC", seconds(seam) if seam is not None else "none")
    return table


def seconds(event_time: int) -> str:
    """Returns an event time to the millisecond, UTC."""
    return f"{clock(event_time)}:{event_time // 1000 % 60:02}.{event_time % 1000:03}"
