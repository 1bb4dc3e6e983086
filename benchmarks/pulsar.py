"""``flip27_pulsar`` beside a plain reader loop of pulsar-client on the same server: ``python -m benchmarks.pulsar``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.support.count import read_without_spark
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import PulsarServer

TOPIC = "benchmark"
_BATCH = 500


def plain_loop(server: PulsarServer, partitions: int) -> tuple[int, float]:
    """Returns messages, and seconds, of a loop that reads one partition after the other and makes rows of them."""
    import pulsar

    began, rows = time.perf_counter(), []
    for number in range(partitions):
        reader = server.client.create_reader(
            f"persistent://public/default/{TOPIC}-partition-{number}", pulsar.MessageId.earliest
        )
        while reader.has_message_available():
            m = reader.read_next()
            rows.append(
                (
                    m.data(),
                    m.partition_key(),
                    m.topic_name(),
                    m.message_id().serialize(),
                    m.publish_timestamp(),
                    m.event_timestamp(),
                    m.properties(),
                )
            )
        reader.close()
    return len(rows), time.perf_counter() - began


def readers(server: PulsarServer) -> tuple[int, float]:
    """Returns messages, and seconds, of planning and readers, without Spark, in one process."""
    options = {**server.options, "topic": TOPIC, "startingOffsets": "earliest"}
    return read_without_spark(PulsarSource(options))


def run(arguments: Sequence[str] | None = None) -> Table:
    """Measures, and returns the table."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=200)
    given = parser.parse_args(arguments)
    table = Table("what", "records", "seconds", "rows/s", "beside the loop")
    with PulsarServer() as server:
        server.create_topic(TOPIC, given.partitions)
        values = [b"x" * given.bytes] * (given.records // given.partitions)
        for number in range(given.partitions):
            server.put(f"{TOPIC}-partition-{number}", values, batch=_BATCH)
        count, beside = plain_loop(server, given.partitions)
        table.add_row(
            "plain loop of pulsar-client", f"{count:,}", f"{beside:.2f}", f"{count / beside:,.0f}", "1.0"
        )
        rows, took = readers(server)
        speed = rows / took
        table.add_row(
            "planning and readers",
            f"{rows:,}",
            f"{took:.2f}",
            f"{speed:,.0f}",
            f"{speed * beside / count:.1f}",
        )
    return table


if __name__ == "__main__":
    Console(width=120).print(run())
