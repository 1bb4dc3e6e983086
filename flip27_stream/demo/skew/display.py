"""The terminal output: both runs, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from flip27_stream.demo.comparison import section, side_by_side
from flip27_stream.demo.display import alarm
from flip27_stream.demo.event_time import clock
from flip27_stream.demo.skew.backlog import SkewedTopic
from flip27_stream.demo.skew.query import SkewRun


def live(backlog: SkewedTopic, runs: Sequence[SkewRun]) -> RenderableType:
    """Returns both runs: rows read, batches, and the event time of each split."""
    return Group(*(_run(backlog, run) for run in runs))


def result(backlog: SkewedTopic, runs: Sequence[SkewRun]) -> Table:
    """Returns the results of both runs side by side."""
    right = backlog.counts()
    return side_by_side(
        runs,
        {
            "rows written": lambda run: f"{backlog.rows:,}",
            "rows counted": lambda run: f"{run.counts.total():,}",
            "rows lost": lambda run: alarm(backlog.rows - run.counts.total()),
            f"wrong results of {len(right)}": lambda run: (
                f"{sum(run.counts[key] != rows for key, rows in right.items()):,}"
            ),
            "batches": lambda run: f"{len(run.batches):,}",
            "peak state rows": lambda run: f"{run.peak(lambda batch: batch.state_rows):,}",
        },
    )


def _run(backlog: SkewedTopic, run: SkewRun) -> RenderableType:
    splits = Table.grid(padding=(0, 2))
    for partition, split in enumerate(backlog.splits):
        read_until = backlog.last_event_time(partition, run.positions.get(split, 0)) or backlog.begin
        done, total = min(read_until, backlog.end) - backlog.begin, backlog.end - backlog.begin
        splits.add_row(
            split, ProgressBar(total, done, width=44), f"at {clock(read_until)} UTC" if done else ""
        )
    return section(run, splits)
