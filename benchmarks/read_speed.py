"""Rows a second of ``flip27_kafka`` beside Spark's built-in Kafka source: a real broker, a stream into the noop sink.

The sources take turns, so that a machine that slows down slows both; medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import flip27_stream
from flip27_stream.testing import KafkaBroker, local_session, write_bulk

FORMATS = ("kafka", "flip27_kafka")


def write(broker: KafkaBroker, topic: str, records: int, value_bytes: int, partitions: int) -> None:
    """Records of random bytes, one a millisecond in each partition."""
    broker.create_topic(topic, partitions)
    count = records // partitions
    random = np.random.default_rng(0)
    for partition in range(partitions):
        data = pa.py_buffer(random.integers(0, 256, count * value_bytes, dtype=np.uint8).tobytes())
        bounds = pa.py_buffer(np.arange(0, (count + 1) * value_bytes, value_bytes, dtype=np.int32).tobytes())
        values = pa.Array.from_buffers(pa.binary(), count, [None, bounds, data])
        times = 1_700_000_000_000 + np.arange(count, dtype=np.int64)
        write_bulk(broker.bootstrap_servers, topic, partition, times, values)


def seconds(spark: SparkSession, fmt: str, bootstrap_servers: str, topic: str, records: int) -> float:
    """How long the one micro-batch takes that reads the whole topic, from its first plan to its commit."""
    stream = (
        spark.readStream.format(fmt)
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        began = time.perf_counter()
        query = (
            stream.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        total = time.perf_counter() - began
        progress = [p for p in query.recentProgress if p.numInputRows]
    rows = sum(p.numInputRows for p in progress)
    if rows != records:
        raise RuntimeError(f"{fmt} read {rows} of {records} rows")
    batches = sum(p.durationMs["triggerExecution"] for p in progress) / 1000
    return min(batches, total)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    spark = local_session("read-speed", kafka_source=True)
    flip27_stream.register(spark)
    times: dict[str, list[float]] = {fmt: [] for fmt in FORMATS}
    with KafkaBroker() as broker:
        write(broker, "bench", options.records, options.value_bytes, options.partitions)
        for run in range(-1, options.runs):  # the first one warms up
            for fmt in FORMATS:
                taken = seconds(spark, fmt, broker.bootstrap_servers, "bench", options.records)
                if run >= 0:
                    times[fmt].append(taken)
    spark.stop()
    print(
        f"{options.records:,} records of {options.value_bytes} bytes, {options.partitions} partitions, "
        f"{options.runs} runs"
    )
    for fmt in FORMATS:
        median = statistics.median(times[fmt])
        megabytes = options.records * options.value_bytes / median / 1e6
        spread = ", ".join(f"{t:.2f}" for t in sorted(times[fmt]))
        print(
            f"{fmt:>13}: {options.records / median:>10,.0f} rows/s {megabytes:>6.0f} MB/s   median of {spread} s"
        )
    ratio = statistics.median(k / f for k, f in zip(times["kafka"], times["flip27_kafka"], strict=True))
    print(f"flip27_kafka is {ratio:.2f} times as fast as Spark's own source (median of pairs)")


if __name__ == "__main__":
    main(sys.argv[1:])
