"""What the terminal shows: both runs while they go on, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flip27_stream.demo.backlog import Backlog
from flip27_stream.demo.job import ALIGNED, BUILT_IN, Run

NAMES = {BUILT_IN: "Spark's own kafka source", ALIGNED: "flip27_kafka, aligned"}


def live(backlog: Backlog, runs: Sequence[Run]) -> RenderableType:
    """Both runs: rows read, batches, and how far each split has come in event time."""
    return Group(*(_run(backlog, run) for run in runs))


def result(backlog: Backlog, runs: Sequence[Run]) -> Table:
    """Both runs beside each other."""
    table = Table(caption="The first run also warms Spark up; make bench compares speed.")
    table.add_column()
    for run in runs:
        table.add_column(NAMES[run.format], justify="right")
    lost = [backlog.rows - run.counts.total() for run in runs]
    right = backlog.counts()
    wrong = [sum(run.counts[key] != rows for key, rows in right.items()) for run in runs]
    table.add_row("rows written", *(f"{backlog.rows:,}" for _ in runs))
    table.add_row("rows counted", *(f"{run.counts.total():,}" for run in runs))
    table.add_row("rows lost", *(Text(f"{n:,}", style="bold red" if n else "bold green") for n in lost))
    table.add_row(f"wrong results of {len(right)}", *(f"{n:,}" for n in wrong))
    table.add_row("batches", *(f"{len(run.batches):,}" for run in runs))
    table.add_row("peak state rows", *(f"{run.peak_state_rows:,}" for run in runs))
    table.add_row("seconds", *(f"{run.seconds:.1f}" for run in runs))
    return table


def clock(event_time: int) -> str:
    """An event time as hours and minutes, UTC."""
    return f"{datetime.fromtimestamp(event_time / 1000, tz=timezone.utc):%H:%M}"


def _run(backlog: Backlog, run: Run) -> RenderableType:
    mark = Text("✓ ", style="green") if run.finished else Text("▸ " if run.started else "  ", style="cyan")
    so_far = f"{run.rows:,} rows in {len(run.batches)} batches, {run.seconds:.0f} s"
    head = Text.assemble(mark, (NAMES[run.format], "bold"), "   ", so_far if run.started else "waits")
    splits = Table.grid(padding=(0, 2))
    for partition in range(len(backlog.event_times)):
        read_until = backlog.last_event_time(partition, run.positions.get(partition, 0)) or backlog.begin
        done, total = min(read_until, backlog.end) - backlog.begin, backlog.end - backlog.begin
        text = f"at {clock(read_until)}" if done else ""
        splits.add_row(f"{backlog.topic}-{partition}", ProgressBar(total, done, width=48), text)
    return Padding(Group(head, Padding(splits, (0, 0, 0, 4))), (0, 0, 1, 0))
