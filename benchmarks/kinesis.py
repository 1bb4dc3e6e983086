"""Measures ``flip27_kinesis`` beside a plain boto3 loop on the same service, and the calls and times of planning.

``python -m benchmarks.kinesis`` needs Node.js. The emulator (kinesalite) answers in one thread, and needs longer for an
answer than boto3 for the call, so both wait for it. A stand-in that answers from memory
(:mod:`benchmarks.support.canned_kinesis`) shows the costs of the clients. It has so many records that the plans of a
batch (0.2 s each) do not count for much. The row ``answers alone`` is its ceiling: all
answers are received, eight at a time, and thrown away. CPU seconds are those of this process, without Spark's. The loop
does not keep the quota of 2 MB a second of a shard, so the quota is lifted for the others, too. The service itself
allows no client more.
"""

from __future__ import annotations

import argparse
import http.client
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import flip27_stream
from benchmarks.support.canned_kinesis import CannedKinesis, canned_kinesis
from benchmarks.support.count import read_without_spark
from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator
from flip27_stream.testing import KinesisServer, local_session
from flip27_stream.testing.source_query import SourceQuery

STREAM = "benchmark"
Service = KinesisServer | CannedKinesis
_PAGE = 10_000
_PUT = 100
_CONNECTIONS = 8
_NO_QUOTA = 1e6
"""The read quota of a shard (MB/s)."""


def write(server: KinesisServer, shards: int, records: int, size: int) -> None:
    """Writes a number of records, spread evenly over the shards."""
    data = b"x" * size
    for first in range(0, records, _PUT):
        server.put(STREAM, [(i % shards, data) for i in range(first, min(first + _PUT, records))])


def plain_loop(server: Service) -> tuple[int, float]:
    """Returns the number of records and the time (s) of a loop that reads shard after shard and makes rows."""
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


def answers_alone(server: CannedKinesis) -> tuple[int, float]:
    """Returns the number of records and the time (s) of reading the stand-in's answers without looking into them."""

    def received(shard: int) -> int:
        connection, count, place = http.client.HTTPConnection(server.address), 0, 0
        while True:
            asked = json.dumps({"ShardIterator": f"{shard}:{place}"})
            connection.request("POST", "/", asked, {"X-Amz-Target": "Kinesis.GetRecords"})
            answer = connection.getresponse().read()
            if (more := answer.count(b'"SequenceNumber"')) == 0:
                connection.close()
                return count
            count, place = count + more, place + more

    shards = len(server.client.list_shards(StreamName=STREAM)["Shards"])
    began = time.perf_counter()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return sum(pool.map(received, range(shards))), time.perf_counter() - began


def options_of(server: Service) -> dict[str, str]:
    """Returns options without waits for quotas, which the emulator does not have."""
    fast = {"initialPosition": "trim_horizon", "minFetchPeriod": "0", "maxFetchRate": "2.0"}
    return {**server.options, **fast, "streamName": STREAM}


def without_quota(server: Service, *, bounded: bool = False) -> KinesisSource:
    """Returns a source that reads a shard as fast as it can."""
    source = KinesisSource(options_of(server), bounded=bounded)
    source._options = replace(source._options, max_fetch_rate=_NO_QUOTA)
    return source


def readers(server: Service) -> tuple[int, float]:
    """Returns the number of records and the time (s) of our planning and readers, without Spark, in one process."""
    return read_without_spark(without_quota(server))


def in_spark(server: Service) -> tuple[int, float]:
    """Returns the number of records and the time (s) of a batch read in Spark into the noop sink."""
    spark = local_session("kinesis benchmark")
    source = without_quota(server, bounded=True)
    spark.dataSource.register(flip27_stream.data_source(source, "kinesis_without_quota"))
    frame = spark.read.format("kinesis_without_quota").load()
    frame.limit(1).collect()  # starts Spark's workers
    began = time.perf_counter()
    frame.write.format("noop").mode("append").save()
    took = time.perf_counter() - began
    rows = frame.count()
    spark.stop()
    return rows, took


def calls(server: Service, plans: int) -> tuple[float, float, float, float]:
    """Returns the costs of plans for a stream without new records.

    These are the calls for each shard and plan, the time (s) of a plan, its CPU time (s) in this process, and in the
    stand-in.
    """
    with SourceQuery(KinesisSource(options_of(server))) as query, query.enumerator() as (found, splits):
        assert isinstance(found, TimedKinesisSourceEnumerator)
        positions: dict[Any, int | None] = dict.fromkeys(splits)
        found.split_ranges(positions)
        before, began = _reads(found), time.perf_counter()
        own, service = time.process_time(), _cpu(server)
        for _ in range(plans):
            ranges = found.split_ranges(positions)
            to_read = {name: r for name, r in ranges.items() if r.position < r.end}
            found.event_time_positions(PositioningRequest(to_read)).event_times()
            positions = {split: ranges[split.split_id].end for split in splits}
        took = time.perf_counter() - began
        own, service = time.process_time() - own, _cpu(server) - service
        return (_reads(found) - before) / (plans * len(splits)), took / plans, own / plans, service / plans


def _cpu(server: Service) -> float:
    return server.cpu_s if isinstance(server, CannedKinesis) else 0.0


def _reads(enumerator: TimedKinesisSourceEnumerator) -> int:
    return sum(enumerator.calls.get(name, 0) for name in ("GetRecords", "GetShardIterator"))


def run(arguments: Sequence[str] | None = None) -> Table:
    """Runs the measurements and returns the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kinesis",
        description="Measures flip27_kinesis beside a plain boto3 loop on the same service. Needs Node.js.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--shards", type=int, default=8, help="shards of each stream")
    parser.add_argument("--records", type=int, default=200_000, help="records in the emulator")
    parser.add_argument("--bytes", type=int, default=200, help="size of a record")
    parser.add_argument(
        "--many-records", type=int, default=800_000, help="records of this size in the first stand-in"
    )
    parser.add_argument(
        "--large-bytes", type=int, default=5000, help="size of a record of the second stand-in"
    )
    parser.add_argument("--large-records", type=int, default=240_000, help="number of these records")
    parser.add_argument("--rounds", type=int, default=3, help="rounds on the stand-ins")
    parser.add_argument("--plans", type=int, default=20, help="plans of which the calls are counted")
    parser.add_argument(
        "--many-shards", type=int, default=1000, help="shards of the stream that is only planned"
    )
    parser.add_argument(
        "--spark", action=argparse.BooleanOptionalAction, default=True, help="read with Spark, too"
    )
    given = parser.parse_args(arguments)
    table = Table("what", "records", "seconds", "rows/s", "beside the loop", "CPU seconds here")
    with KinesisServer("kinesalite") as server:
        server.create_stream(STREAM, given.shards)
        write(server, given.shards, given.records, given.bytes)
        _add_pairs(table, f"kinesalite, {given.bytes} B", server, spark=given.spark)
        asked, plan, _, _ = calls(server, given.plans)
        table.add_row(f"calls for each shard and plan: {asked:.2f}; a plan takes {plan * 1000:.0f} ms")
    for size, records in ((given.bytes, given.many_records), (given.large_bytes, given.large_records)):
        with canned_kinesis(given.shards, records // given.shards, size) as stand_in:
            _add_pairs(table, f"stand-in, {size} B", stand_in, spark=given.spark, rounds=given.rounds)
    with canned_kinesis(given.many_shards, 10, given.bytes) as stand_in:
        asked, plan, own, service = calls(stand_in, given.plans)
        table.add_row(
            f"a plan of {given.many_shards:,} shards: {plan:.2f} s, {own:.2f} s of CPU here and {service:.2f} s in the "
            f"stand-in; {asked:.2f} calls for each shard"
        )
    return table


def _add_pairs(table: Table, title: str, server: Service, *, spark: bool, rounds: int = 1) -> None:
    """Runs the loop and each contender in turns, with clients that exist before.

    The fastest round counts, since others may use the machine.
    """
    server.client.list_shards(StreamName=STREAM)
    calls(server, 1)
    contenders: dict[str, Callable[[Any], tuple[int, float]]] = {
        "plain boto3 loop": plain_loop,
        "planning and readers": readers,
    }
    if spark:
        contenders["spark.read"] = in_spark
    if isinstance(server, CannedKinesis):
        contenders["answers alone"] = answers_alone
    found = [{name: _measured(run, server) for name, run in contenders.items()} for _ in range(rounds)]
    loop = min(measured["plain boto3 loop"].seconds for measured in found)
    for name in contenders:
        best = min((measured[name] for measured in found), key=lambda one: one.seconds)
        table.add_row(
            f"{title}: {name}",
            f"{best.rows:,}",
            f"{best.seconds:.2f}",
            f"{best.rows / best.seconds:,.0f}",
            f"{loop / best.seconds:.1f}",
            f"{best.cpu:.2f}",
        )


class _MeasuredStream(NamedTuple):
    rows: int
    seconds: float
    cpu: float


def _measured(contender: Callable[[Any], tuple[int, float]], server: Service) -> _MeasuredStream:
    cpu = time.process_time()
    rows, took = contender(server)
    return _MeasuredStream(rows, took, time.process_time() - cpu)


if __name__ == "__main__":
    Console(width=120).print(run())
