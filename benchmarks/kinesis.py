"""``flip27_kinesis`` beside a plain boto3 loop on the same emulator, and the calls that planning makes.

``python -m benchmarks.kinesis`` needs Node.js. The emulator (kinesalite) answers in one thread, so both wait for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import flip27_stream
from benchmarks.count import Count
from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator
from flip27_stream.testing import KinesisServer, local_session
from flip27_stream.testing.source_query import SourceQuery

STREAM = "benchmark"
_PAGE = 10_000
_PUT = 100


def write(server: KinesisServer, shards: int, records: int, size: int) -> None:
    """So many records, evenly over the shards."""
    data = b"x" * size
    for first in range(0, records, _PUT):
        server.put(STREAM, [(i % shards, data) for i in range(first, min(first + _PUT, records))])


def plain_loop(server: KinesisServer) -> tuple[int, float]:
    """Records, and seconds, of a loop that reads shard after shard and makes rows of them."""
    client, began, rows = server.client, time.perf_counter(), []
    for shard in client.list_shards(StreamName=STREAM)["Shards"]:
        iterator: str | None = client.get_shard_iterator(
            StreamName=STREAM, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator is not None:
            page = client.get_records(ShardIterator=iterator, Limit=_PAGE)
            rows += [
                (r["PartitionKey"], r["Data"], shard["ShardId"], r["SequenceNumber"]) for r in page["Records"]
            ]
            iterator = page.get("NextShardIterator") if page["Records"] else None
    return len(rows), time.perf_counter() - began


def options_of(server: KinesisServer) -> dict[str, str]:
    """Without waits for quotas, which the emulator does not have."""
    fast = {"initialPosition": "trim_horizon", "minFetchPeriod": "0", "maxFetchRate": "2.0"}
    return {**server.options, **fast, "streamName": STREAM}


def readers(server: KinesisServer) -> tuple[int, float]:
    """Records, and seconds, of our planning and readers, without Spark, in one process."""
    began, rows = time.perf_counter(), 0
    with SourceQuery(KinesisSource(options_of(server)), available_now=True) as query:
        while (batch := query.next_batch()) is not None:
            for task in query.tasks(*batch):
                output = Count()
                for _ in query.poll(task, output):  # type: ignore[arg-type]
                    pass
                rows += output.rows
            query.offset = batch[1]
    return rows, time.perf_counter() - began


def in_spark(server: KinesisServer) -> tuple[int, float]:
    """Records, and seconds, of a batch read in Spark into the noop sink."""
    spark = local_session("kinesis benchmark")
    flip27_stream.register(spark)
    frame = spark.read.format("flip27_kinesis").options(**options_of(server)).load()
    frame.limit(1).collect()  # starts Spark's workers
    began = time.perf_counter()
    frame.write.format("noop").mode("append").save()
    took = time.perf_counter() - began
    rows = frame.count()
    spark.stop()
    return rows, took


def calls(server: KinesisServer, plans: int) -> tuple[float, float]:
    """Calls for each shard and plan of a stream that stands still, and seconds for a plan."""
    with SourceQuery(KinesisSource(options_of(server))) as query, query.enumerator() as (found, splits):
        assert isinstance(found, TimedKinesisSourceEnumerator)
        positions: dict[Any, int | None] = dict.fromkeys(splits)
        found.split_ranges(positions)
        before, began = _reads(found), time.perf_counter()
        for _ in range(plans):
            ranges = found.split_ranges(positions)
            to_read = {name: r for name, r in ranges.items() if r.position < r.end}
            found.event_time_positions(PositioningRequest(to_read)).event_times()
            positions = {split: ranges[split.split_id].end for split in splits}
        took = time.perf_counter() - began
        return (_reads(found) - before) / (plans * len(splits)), took / plans


def _reads(enumerator: TimedKinesisSourceEnumerator) -> int:
    return sum(enumerator.calls.get(name, 0) for name in ("GetRecords", "GetShardIterator"))


def run(arguments: Sequence[str] | None = None) -> Table:
    """Measure, and make the table."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args(arguments)
    table = Table("what", "records", "seconds", "rows/s", "beside the loop")
    with KinesisServer("kinesalite") as server:
        server.create_stream(STREAM, given.shards)
        write(server, given.shards, given.records, given.bytes)
        count, beside = plain_loop(server)
        table.add_row("plain boto3 loop", f"{count:,}", f"{beside:.2f}", f"{count / beside:,.0f}", "1.0")
        contenders = {"planning and readers": readers, "spark.read": in_spark}
        for name, contender in contenders.items():
            if contender is in_spark and not given.spark:
                continue
            rows, took = contender(server)
            table.add_row(
                name, f"{rows:,}", f"{took:.2f}", f"{rows / took:,.0f}", f"{rows / took * beside / count:.1f}"
            )
        asked, plan = calls(server, given.plans)
        table.add_row(f"calls for each shard and plan: {asked:.2f}; a plan takes {plan * 1000:.0f} ms")
    return table


if __name__ == "__main__":
    Console(width=120).print(run())
