"""The demo's story: write both topics, join them with both sources, compare, draw."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

import flip27_stream
from flip27_stream.demo.backlog import MINUTE
from flip27_stream.demo.display import clock
from flip27_stream.demo.job import ALIGNED, BUILT_IN
from flip27_stream.demo.join import display, picture
from flip27_stream.demo.join.job import DELAY, MAX_DRIFT, PaidOrders, Run
from flip27_stream.demo.join.shop import ORDERS, PAID_WITHIN, PAYMENTS, Shop
from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PICTURE = "join.png"


def tell(
    console: Console,
    broker: KafkaBroker,
    spark: SparkSession,
    records: int,
    rows_per_batch: int,
    output: Path,
) -> bool:
    """Run the whole demo; true if ``flip27_kafka`` joined every order with its payment, once.

    Raises:
        StreamingQueryException: a query failed.
    """
    shop = Shop.skewed(records, rows_per_batch, time.time_ns() // 1_000_000)
    console.print(f"Writing {shop.rows:,} records ...")
    shop.write(broker)
    _describe(console, shop, rows_per_batch)

    flip27_stream.register(spark)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # a join has four state stores for each
    job = PaidOrders(broker.bootstrap_servers, rows_per_batch, output.absolute())
    runs = [Run(BUILT_IN), Run(ALIGNED)]
    with Live(console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False) as screen:
        for run in runs:
            query = job.start(spark, run.format)
            while not run.follow(query):
                screen.update(display.live(shop, runs))
            job.count(spark, run)
            screen.update(display.live(shop, runs))

    picture.draw(shop, runs, output / PICTURE)
    console.print()
    console.print(display.result(shop, runs))
    console.print(f"Picture: {output / PICTURE}")
    return verdict(console, shop, runs[1])


def verdict(console: Console, shop: Shop, aligned: Run) -> bool:
    """Whether the run joined every order once; says so if it did not."""
    right = aligned.joined == aligned.distinct == shop.pairs
    if not right:
        console.print(
            f"flip27_kafka should have joined {shop.pairs:,} orders once; it has {aligned.joined:,} rows of "
            f"{aligned.distinct:,} orders.",
            style="bold red",
        )
    return right


def _describe(console: Console, shop: Shop, rows_per_batch: int) -> None:
    begins = {split: clock(int(records.times[0])) for split, records in shop.records.items()}
    number = shop.laggard.rpartition("-")[2]
    console.print(
        f"  {ORDERS} has four records for each order, {PAYMENTS} one, up to {PAID_WITHIN // MINUTE} minutes later.\n"
        f"  Partition {number} of both begins at {begins[shop.laggard]} UTC, the others at "
        f"{begins[f'{ORDERS}-0']}.\n"
        f"Joining {shop.pairs:,} placed orders with their payments ...\n"
        f"  {rows_per_batch:,} rows a batch of each, watermark delay {DELAY // MINUTE} minutes, "
        f"max-drift {MAX_DRIFT // MINUTE}\n"
    )
