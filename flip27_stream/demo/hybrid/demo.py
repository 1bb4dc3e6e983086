"""The course of the demo: write table and topic, start the query, write more, compare, draw."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flip27_stream.demo import windowed_count
from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.display import Screen
from flip27_stream.demo.event_time import MINUTE, clock
from flip27_stream.demo.hybrid import display, picture
from flip27_stream.demo.hybrid.clicks import Clicks
from flip27_stream.demo.hybrid.query import FORMAT, HybridRun, clicks_source
from flip27_stream.demo.windowed_count import DELAY, WINDOW
from flip27_stream.wall_clock import now_ms

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PORTION_S = 1.0


def run_demo(resources: DemoResources) -> bool:
    """Runs the demo. Returns true if every record was counted once.

    Raises:
        StreamingQueryException: The query failed.
    """
    clicks = Clicks.make("clicks", resources.folder / "history", resources.records, now_ms())
    resources.console.print(f"Writing {clicks.rows:,} records ...")
    clicks.write_table()
    clicks.write_topic(resources.broker)
    _describe(resources, clicks)

    servers = resources.broker.bootstrap_servers
    source = clicks_source(str(clicks.table), servers, clicks.topic, resources.rows_per_batch)
    run = HybridRun(FORMAT)
    query = run.start(resources, source)
    try:
        _follow(resources, run, query, clicks)
    finally:
        query.stop()

    counted = windowed_count.counted(resources, FORMAT)
    right = counted == clicks.counts()
    verdict = "no record lost, none read twice" if right else "counted WRONG"
    title = f"One query: a Delta table, then the live topic\n{clicks.rows:,} records, {verdict}"
    picture.draw(clicks, run.batches, title, resources.picture)
    resources.show(display.result(clicks, run.batches, counted))
    return right


def _describe(resources: DemoResources, clicks: Clicks) -> None:
    resources.console.print(
        f"  Delta table   from {clock(clicks.begin)} to {display.seconds(clicks.table_end)} UTC, "
        "its files in no order\n"
        f"  topic         from {clock(clicks.topic_begin)} to {clock(clicks.live_begin)}, "
        f"and up to {clock(clicks.end)} while the query runs\n"
        f"  {clicks.rows_in_both:,} records are in both.\n"
        f"Counting by partition and window of {WINDOW // MINUTE} minutes, delay {DELAY // MINUTE} minutes ...\n"
    )


def _follow(resources: DemoResources, run: HybridRun, query: StreamingQuery, clicks: Clicks) -> None:
    """Shows the progress of the query, and writes the live records once it reads the topic, until all is read."""
    live = clicks.write_live(resources.broker)
    written, next_portion = clicks.live_begin, 0.0
    with Screen(resources.console) as terminal:
        while not run.follow(query):
            latest = run.batches[-1] if run.batches else None
            if latest and latest.index == 1 and time.monotonic() > next_portion:
                written = next(live, written)
                next_portion = time.monotonic() + _PORTION_S
            terminal.update(display.live(clicks, run.batches, written), display.line(run.batches))
            if latest and latest.positions == clicks.positions:
                query.processAllAvailable()
                return
