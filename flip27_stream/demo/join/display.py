"""What the terminal shows: the latest batches of both runs while they go on, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flip27_stream.demo.backlog import HOUR
from flip27_stream.demo.display import NAMES, clock
from flip27_stream.demo.join.job import Batch, Run
from flip27_stream.demo.join.shop import ORDERS, PAYMENTS, Shop

_LATEST = 5


def live(shop: Shop, runs: Sequence[Run]) -> RenderableType:
    """Both runs and their latest batches."""
    return Group(*(_run(shop, run) for run in runs))


def result(shop: Shop, runs: Sequence[Run]) -> Table:
    """Both runs beside each other."""
    table = Table(caption="The first run also warms Spark up; make bench compares speed.")
    table.add_column()
    for run in runs:
        table.add_column(NAMES[run.format], justify="right")
    apart = [max((shop.apart(batch.positions) for batch in run.batches), default=0) for run in runs]
    table.add_row("expected rows", *(f"{shop.pairs:,}" for _ in runs))
    table.add_row("joined rows", *(f"{run.joined:,}" for run in runs))
    table.add_row("joined rows lost", *(_alarm(shop.pairs - run.distinct) for run in runs))
    table.add_row("joined twice", *(_alarm(run.joined - run.distinct) for run in runs))
    table.add_row("rows dropped as late", *(f"{run.dropped:,}" for run in runs))
    table.add_row("peak state rows", *(f"{run.peak_state_rows:,}" for run in runs))
    table.add_row("peak state memory", *(megabytes(run.peak_state_bytes) for run in runs))
    table.add_row("hours apart, at most", *(f"{ms / HOUR:.1f}" for ms in apart))
    table.add_row("batches", *(f"{len(run.batches):,}" for run in runs))
    table.add_row("seconds", *(f"{run.seconds:.1f}" for run in runs))
    return table


def megabytes(size: int) -> str:
    """For people: ``12.3 MB``."""
    return f"{size / 1e6:,.1f} MB"


def _alarm(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "bold green")


def _run(shop: Shop, run: Run) -> RenderableType:
    mark = Text("✓ ", style="green") if run.finished else Text("▸ " if run.started else "  ", style="cyan")
    so_far = f"{len(run.batches)} batches, {run.seconds:.0f} s" if run.started else "waits"
    head = Text.assemble(mark, (NAMES[run.format], "bold"), "   ", so_far)
    latest = Table.grid(padding=(0, 2))
    if run.batches:
        columns = (
            "batch",
            f"{ORDERS} at",
            f"{PAYMENTS} at",
            "state rows",
            "memory",
            "late",
            "joined",
            "time",
        )
        latest.add_row(*columns, style="dim")
    first = max(len(run.batches) - _LATEST, 0)
    for number, batch in enumerate(run.batches[first:], first):
        latest.add_row(str(number), *_figures(shop, batch))
    for column in latest.columns[3:]:
        column.justify = "right"
    return Padding(Group(head, Padding(latest, (0, 0, 0, 4))), (0, 0, 1, 0))


def _figures(shop: Shop, batch: Batch) -> tuple[str, ...]:
    return (
        _span(shop, batch, ORDERS),
        _span(shop, batch, PAYMENTS),
        f"{batch.state_rows:,}",
        megabytes(batch.state_bytes),
        f"{batch.dropped:,}",
        f"{batch.joined:,}",
        f"{batch.milliseconds / 1000:.1f} s",
    )


def _span(shop: Shop, batch: Batch, topic: str) -> str:
    """How far the partition furthest behind has been read, and the one furthest ahead."""
    times = [
        shop.read_until(split, p) for split, p in batch.positions.items() if split.startswith(f"{topic}-")
    ]
    known = [time for time in times if time is not None]
    return f"{clock(min(known))} - {clock(max(known))}" if known else "not begun"
