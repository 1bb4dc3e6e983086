"""The demo's story: write table and topic, start the query, go on writing, compare, draw."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flip27_stream.demo.backlog import DELAY, MINUTE, WINDOW
from flip27_stream.demo.display import clock
from flip27_stream.demo.hybrid import picture
from flip27_stream.demo.hybrid.clicks import Clicks
from flip27_stream.demo.hybrid.job import Batch, ClicksPerWindow, batches, clicks_source
from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PICTURE = "hybrid.png"

_POLL_S = 0.2
_PORTION_S = 1.0


def tell(
    console: Console,
    broker: KafkaBroker,
    spark: SparkSession,
    records: int,
    rows_per_batch: int,
    output: Path,
) -> bool:
    """Run the whole demo; true if every record was counted once.

    Raises:
        StreamingQueryException: the query failed.
    """
    clicks = Clicks.make("clicks", output.absolute() / "history", records, time.time_ns() // 1_000_000)
    console.print(f"Writing {clicks.rows:,} records ...")
    clicks.write_table()
    clicks.write_topic(broker)
    console.print(
        f"  Delta table   from {clock(clicks.begin)} to {_seconds(clicks.table_end)} UTC, its files in no order\n"
        f"  topic         from {clock(clicks.topic_begin)} to {clock(clicks.live_begin)}, "
        f"and up to {clock(clicks.end)} while the query runs\n"
        f"  {clicks.rows_in_both:,} records are in both.\n"
        f"Counting by partition and window of {WINDOW // MINUTE} minutes, delay {DELAY // MINUTE} minutes ...\n"
    )
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    source = clicks_source(str(clicks.table), broker.bootstrap_servers, clicks.topic, rows_per_batch)
    job = ClicksPerWindow(source, output.absolute())
    query = job.start(spark)
    try:
        done = _follow(console, query, clicks, broker)
    finally:
        query.stop()
    counted = job.counts(spark)
    console.print()
    console.print(_result(clicks, done, counted))
    right = counted == clicks.counts()
    verdict = "no record lost, none read twice" if right else "counted WRONG"
    title = f"One query: a Delta table, then the live topic\n{clicks.rows:,} records, {verdict}"
    picture.draw(clicks, done, title, output / PICTURE)
    console.print(f"Picture: {output / PICTURE}")
    return right


def _follow(console: Console, query: StreamingQuery, clicks: Clicks, broker: KafkaBroker) -> list[Batch]:
    """Show how far the query is, and write the live records once it reads the topic, until all is read."""
    live = clicks.write_live(broker)
    written, next_portion = clicks.live_begin, 0.0
    with Live(console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False) as screen:
        while True:
            time.sleep(_POLL_S)
            done = batches(query)
            if (error := query.exception()) is not None:
                raise error
            if done and done[-1].index == 1 and time.monotonic() > next_portion:
                written = next(live, written)
                next_portion = time.monotonic() + _PORTION_S
            screen.update(_progress(clicks, done, written))
            if done and done[-1].positions == clicks.positions:
                query.processAllAvailable()
                return done


def _progress(clicks: Clicks, done: list[Batch], written: int) -> RenderableType:
    """Both sources: how far in event time they are read."""
    lines = Table.grid(padding=(0, 2))
    spans = ((0, "Delta table", clicks.begin, clicks.table_end), (1, "topic", clicks.table_end, clicks.end))
    for index, name, begin, end in spans:
        mine = [batch for batch in done if batch.index == index]
        at = min(max((batch.greatest for batch in mine), default=begin), end)
        over = bool(done) and (done[-1].index > index or at >= written == end)
        mark = Text("✓", style="green") if over else Text("▸" if mine or not index else " ", style="cyan")
        so_far = f"{sum(b.rows for b in mine):,} rows in {len(mine)} batches" if mine else "waits"
        bar = ProgressBar(end - begin, end - begin if over else at - begin, width=40)
        lines.add_row(mark, name, bar, f"at {clock(at)}" if mine else "", so_far)
    return Group(lines)


def _result(clicks: Clicks, done: list[Batch], counted: Counter[tuple[int, int]]) -> Table:
    right = clicks.counts()
    lost, twice = (right - counted).total(), (counted - right).total()
    switch = next(n for n, batch in enumerate(done) if batch.index == 1)
    seam = done[switch].seam
    table = Table(show_header=False)
    table.add_row("records", f"{clicks.rows:,}")
    table.add_row("of them in the table and in the topic", f"{clicks.rows_in_both:,}")
    table.add_row("lost", _number(lost))
    table.add_row("counted twice", _number(twice))
    table.add_row("batches of the table", str(switch))
    table.add_row("batches of the topic", str(len(done) - switch))
    table.add_row("event time of the seam, UTC", _seconds(seam) if seam is not None else "none")
    return table


def _number(count: int) -> Text:
    return Text(f"{count:,}", style="bold red" if count else "bold green")


def _seconds(event_time: int) -> str:
    return f"{clock(event_time)}:{event_time // 1000 % 60:02}.{event_time % 1000:03}"
