"""The terminal output: the latest batches of both runs, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from flip27_stream.demo.comparison import section, side_by_side
from flip27_stream.demo.display import alarm
from flip27_stream.demo.event_time import HOUR, clock
from flip27_stream.demo.join.query import JoinBatch, JoinRun
from flip27_stream.demo.join.shop import ORDERS, PAYMENTS, Shop

_LATEST = 5
_COLUMNS = ("batch", ORDERS, PAYMENTS, "state rows", "memory", "late", "joined", "time")


def live(shop: Shop, runs: Sequence[JoinRun]) -> RenderableType:
    """Returns both runs with their latest batches."""
    return Group(*(_run(shop, run) for run in runs))


def result(shop: Shop, runs: Sequence[JoinRun]) -> Table:
    """Returns the results of both runs side by side."""
    return side_by_side(
        runs,
        {
            "expected rows": lambda run: f"{shop.pairs:,}",
            "joined rows": lambda run: f"{run.joined:,}",
            "joined rows lost": lambda run: alarm(shop.pairs - run.distinct),
            "joined twice": lambda run: alarm(run.joined - run.distinct),
            "rows dropped as late": lambda run: f"{run.dropped:,}",
            "peak state rows": lambda run: f"{run.peak(lambda batch: batch.state_rows):,}",
            "peak state memory": lambda run: megabytes(run.peak(lambda batch: batch.state_bytes)),
            "apart, at most": lambda run: (
                f"{run.peak(lambda batch: shop.apart(batch.positions)) / HOUR:.1f} h"
            ),
            "batches": lambda run: f"{len(run.batches):,}",
        },
    )


def megabytes(size: int) -> str:
    """Returns a size in the form ``12.3 MB``."""
    return f"{size / 1e6:,.1f} MB"


def _run(shop: Shop, run: JoinRun) -> RenderableType:
    latest = Table.grid(padding=(0, 1))
    if run.batches:
        latest.add_row(*_COLUMNS, style="dim")
    for number, batch in list(enumerate(run.batches))[-_LATEST:]:
        latest.add_row(
            str(number),
            _span(shop, batch, ORDERS),
            _span(shop, batch, PAYMENTS),
            f"{batch.state_rows:,}",
            megabytes(batch.state_bytes),
            f"{batch.dropped:,}",
            f"{batch.joined:,}",
            f"{batch.milliseconds / 1000:.1f} s",
        )
    for column in latest.columns[3:]:
        column.justify = "right"
    return section(run, latest)


def _span(shop: Shop, batch: JoinBatch, topic: str) -> str:
    """Returns the event times up to which the slowest and the fastest partition have been read."""
    positions = {split: p for split, p in batch.positions.items() if split.startswith(f"{topic}-")}
    times = [shop.read_until(split, position) for split, position in positions.items()]
    known = [time for time in times if time is not None]
    return f"{clock(min(known))}-{clock(max(known))}" if known else "not begun"
