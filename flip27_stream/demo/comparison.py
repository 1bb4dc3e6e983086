"""The demo's story: write the backlog, run the job with both sources, compare, draw."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

import flip27_stream
from flip27_stream.demo import display, picture
from flip27_stream.demo.backlog import DELAY, MINUTE, WINDOW, Backlog
from flip27_stream.demo.job import ALIGNED, BUILT_IN, MAX_DRIFT, Run, WindowedCount
from flip27_stream.testing import KafkaBroker
from watermark_alignment.table import SplitWatermarkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PICTURE = "alignment.png"

_TOPIC = "clicks"


def compare(
    console: Console,
    broker: KafkaBroker,
    spark: SparkSession,
    records: int,
    rows_per_batch: int,
    output: Path,
) -> bool:
    """Run the whole comparison; true if ``flip27_kafka`` counted every row right.

    Raises:
        StreamingQueryException: a query failed.
    """
    backlog = Backlog.skewed(_TOPIC, records, time.time_ns() // 1_000_000)
    console.print(f"Writing {backlog.rows:,} records to {len(backlog.event_times)} partitions ...")
    backlog.write(broker)
    _describe(console, backlog, rows_per_batch)

    flip27_stream.register(spark)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    job = WindowedCount(broker.bootstrap_servers, backlog.topic, rows_per_batch, output.absolute())
    runs = [Run(BUILT_IN), Run(ALIGNED)]
    with Live(console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False) as screen:
        for run in runs:
            query = job.start(spark, run.format)
            while not run.follow(query):
                screen.update(display.live(backlog, runs))
            run.counts = job.counts(spark, run.format)
            screen.update(display.live(backlog, runs))

    table = SplitWatermarkTable(job.watermarks, {})
    picture.record_built_in(table, backlog, runs[0])
    picture.draw(table, backlog, runs, output / PICTURE)
    console.print()
    console.print(display.result(backlog, runs))
    console.print(f"Picture: {output / PICTURE} (drawn from the Delta table beside it)")
    return verdict(console, backlog, runs[1])


def _describe(console: Console, backlog: Backlog, rows_per_batch: int) -> None:
    others = (backlog.laggard + 1) % len(backlog.event_times)
    console.print(
        f"  {backlog.topic}-{backlog.laggard} begins at {display.clock(backlog.begin)} UTC, the others at "
        f"{display.clock(int(backlog.event_times[others][0]))}; all end at {display.clock(backlog.end)}.\n"
        "  A later record closes the last windows of each, and is not counted.\n"
        f"Counting rows by partition and window of {WINDOW // MINUTE} minutes ...\n"
        f"  {rows_per_batch:,} rows a batch, watermark delay {DELAY // MINUTE} minutes, "
        f"max-drift {MAX_DRIFT // MINUTE} minutes\n"
    )


def verdict(console: Console, backlog: Backlog, aligned: Run) -> bool:
    """Whether the run counted every row right; says so if it did not."""
    right = aligned.counts == backlog.counts()
    if not right:
        missing = backlog.rows - aligned.counts.total()
        console.print(
            f"flip27_kafka should have counted every row, and has {missing:,} too few.", style="bold red"
        )
    return right
