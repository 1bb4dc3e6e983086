"""The course of the demo: write the backlog, run the query with both sources, compare, draw."""

from __future__ import annotations

from rich.console import Console

from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.comparison import ALIGNED, BUILT_IN, compare
from flip27_stream.demo.event_time import MINUTE, clock
from flip27_stream.demo.skew import display, picture
from flip27_stream.demo.skew.backlog import SkewedTopic
from flip27_stream.demo.skew.query import MAX_DRIFT, TOPIC, SkewRun
from flip27_stream.demo.windowed_count import DELAY, WINDOW
from flip27_stream.wall_clock import now_ms
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def run_demo(resources: DemoResources) -> bool:
    """Runs the demo. Returns true if ``flip27_kafka`` counted every row correctly.

    Raises:
        StreamingQueryException: A query failed.
    """
    backlog = SkewedTopic.skewed(TOPIC, resources.records, now_ms())
    resources.console.print(f"Writing {backlog.rows:,} records to {len(backlog.splits)} partitions ...")
    backlog.write(resources.broker)
    _describe(resources, backlog)

    runs = [SkewRun(BUILT_IN), SkewRun(ALIGNED)]
    compare(resources, runs, lambda: display.live(backlog, runs))

    table = SplitWatermarkTable(resources.watermarks, {})
    picture.record_built_in(table, backlog, runs[0])
    picture.draw(table, backlog, runs, resources.picture)
    resources.show(display.result(backlog, runs), " (drawn from the Delta table beside it)")
    return verdict(resources.console, backlog, runs[1])


def _describe(resources: DemoResources, backlog: SkewedTopic) -> None:
    others = (backlog.laggard + 1) % len(backlog.splits)
    resources.console.print(
        f"  {backlog.splits[backlog.laggard]} begins at {clock(backlog.begin)} UTC, the others at "
        f"{clock(int(backlog.event_times[others][0]))}; all end at {clock(backlog.end)}.\n"
        "  A later record closes the last windows of each, and is not counted.\n"
        f"Counting rows by partition and window of {WINDOW // MINUTE} minutes ...\n"
        f"  {resources.rows_per_batch:,} rows a batch, watermark delay {DELAY // MINUTE} minutes, "
        f"max-drift {MAX_DRIFT // MINUTE} minutes\n"
    )


def verdict(console: Console, backlog: SkewedTopic, aligned: SkewRun) -> bool:
    """Returns whether the run counted every row correctly. Prints a message if it did not."""
    right = aligned.counts == backlog.counts()
    if not right:
        missing = backlog.rows - aligned.counts.total()
        console.print(
            f"flip27_kafka should have counted every row, and has {missing:,} too few.", style="bold red"
        )
    return right
