"""The course of the demo: write both topics, join them with both sources, compare, draw."""

from __future__ import annotations

from rich.console import Console

from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.comparison import ALIGNED, BUILT_IN, compare
from flip27_stream.demo.event_time import MINUTE, clock
from flip27_stream.demo.join import display, picture
from flip27_stream.demo.join.query import DELAY, MAX_DRIFT, JoinRun
from flip27_stream.demo.join.shop import ORDERS, PAID_WITHIN, PAYMENTS, Shop
from flip27_stream.wall_clock import now_ms


def run_demo(resources: DemoResources) -> bool:
    """Runs the demo. Returns true if ``flip27_kafka`` joined every order with its payment, once.

    Raises:
        StreamingQueryException: A query failed.
    """
    shop = Shop.skewed(resources.records, resources.rows_per_batch, now_ms())
    resources.console.print(f"Writing {shop.rows:,} records ...")
    shop.write(resources.broker)
    _describe(resources, shop)

    resources.spark.conf.set("spark.sql.shuffle.partitions", "1")  # a join has four state stores for each
    runs = [JoinRun(BUILT_IN), JoinRun(ALIGNED)]
    compare(resources, runs, lambda: display.live(shop, runs))

    picture.draw(shop, runs, resources.picture)
    resources.show(display.result(shop, runs))
    return verdict(resources.console, shop, runs[1])


def _describe(resources: DemoResources, shop: Shop) -> None:
    begins = {split: clock(int(records.times[0])) for split, records in shop.records.items()}
    number = shop.laggard.rpartition("-")[2]
    resources.console.print(
        f"  {ORDERS} has four records for each order, {PAYMENTS} one, up to {PAID_WITHIN // MINUTE} minutes later.\n"
        f"  Partition {number} of both begins at {begins[shop.laggard]} UTC, the others at "
        f"{begins[f'{ORDERS}-0']}.\n"
        f"Joining {shop.pairs:,} placed orders with their payments ...\n"
        f"  {resources.rows_per_batch:,} rows a batch of each, watermark delay {DELAY // MINUTE} minutes, "
        f"max-drift {MAX_DRIFT // MINUTE} minutes\n"
    )


def verdict(console: Console, shop: Shop, aligned: JoinRun) -> bool:
    """Returns whether the run joined every order once. Prints a message if it did not."""
    right = aligned.joined == aligned.distinct == shop.pairs
    if not right:
        console.print(
            f"flip27_kafka should have joined {shop.pairs:,} orders once; it has {aligned.joined:,} rows of "
            f"{aligned.distinct:,} orders.",
            style="bold red",
        )
    return right
