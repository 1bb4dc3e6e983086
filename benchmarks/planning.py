"""Planning an aligned batch of 1,000 partitions on a real broker: our own CPU beside what the broker takes to answer.

No Spark: the coordinator is driven as Spark drives it. Prints the size of the offset, then medians over batches.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client import KafkaClient
from flip27_stream.spark.coordinator import SourceCoordinator
from flip27_stream.spark.job import Driver, Job
from flip27_stream.testing import KafkaBroker
from offsets import INITIAL
from watermark_alignment.options import AlignmentOptions

PARTITIONS = 1_000
BATCHES = 12
START = 1_700_000_000_000
TOPIC = "transactions-authorised"


class BrokerTime:
    """Adds up the time spent waiting for the broker."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def measure(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began - (time.thread_time() - cpu)

        return measured


def job(bootstrap_servers: str, table: str) -> Job:
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": TOPIC,
        "startingoffsets": "earliest",
    }
    alignment = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "bench",
            "scan.watermark.alignment.max-drift": "5 minutes",
            "scan.watermark.alignment.table": table,
        }
    )
    source = KafkaSource(options)
    return Job(source, WatermarkStrategy(), alignment, None, Driver())


def main() -> None:
    with KafkaBroker() as broker, tempfile.TemporaryDirectory() as table:
        broker.create_topic(TOPIC, PARTITIONS)
        broker_time = BrokerTime()
        for name in ("list_offsets", "fetch"):
            setattr(KafkaClient, name, broker_time.measure(getattr(KafkaClient, name)))
        coordinator = SourceCoordinator(job(broker.bootstrap_servers, table))
        offset: dict[str, Any] = dict(INITIAL)
        walls, cpus, waits = [], [], []
        for batch in range(BATCHES):
            records = [(p, START + batch * 1000 + p % 1000, b"k", b"v" * 100) for p in range(PARTITIONS)]
            broker.write(TOPIC, records)
            wall, cpu, broker_time.seconds = time.perf_counter(), time.thread_time(), 0.0
            offset = coordinator.latest_offset(offset, None)
            if batch > 1:
                walls.append(time.perf_counter() - wall)
                cpus.append(time.thread_time() - cpu)
                waits.append(broker_time.seconds)
        coordinator.close()
    milliseconds = [statistics.median(x) * 1000 for x in (walls, cpus, waits)]
    print(
        f"{PARTITIONS} partitions, one new record each per batch; offset of {len(json.dumps(offset)):,} bytes"
    )
    print(
        "a plan takes {:.0f} ms: {:.0f} ms of our own CPU, {:.0f} ms waiting for the broker".format(
            *milliseconds
        )
    )


if __name__ == "__main__":
    main()
