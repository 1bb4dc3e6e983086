"""The input of the hybrid query: a topic, and a Delta table with copies of its first records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from kafka import KafkaConsumer, TopicPartition

from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.testing import KafkaCluster

PARTITIONS = 2
_RECORDS, _SECONDS = 150, 100
_COPIED = {0: 150, 1: 131}
_ROWS_OF_A_FILE = 30
_TIME_LIMIT_MS = 30_000


def begin(cluster: KafkaCluster, topic: str, table: Path) -> None:
    """Creates the topic with recent records, and the table with copies of the older ones."""
    cluster.create_topic(topic, PARTITIONS)
    end = time.time_ns() // 1_000_000
    times = {
        p: [end - (_RECORDS - n) * _SECONDS * 1000 // _RECORDS for n in range(_RECORDS)] for p in _COPIED
    }
    cluster.write(topic, [(p, at, b"", b"") for p, each in times.items() for at in each])
    copied = [
        {"topic": topic, "partition": p, "offset": n, "timestamp": times[p][n] * 1000, "timestampType": 0}
        for p, count in _COPIED.items()
        for n in range(count)
    ]
    rows = pa.Table.from_pylist(copied, SCHEMA).sort_by("timestamp")
    for first in range(0, rows.num_rows, _ROWS_OF_A_FILE):
        write_deltalake(table, rows.slice(first, _ROWS_OF_A_FILE), mode="append")


def ends(servers: str, topic: str, partitions: int) -> Mapping[int, int]:
    """Returns the number of records of each partition of a topic."""
    with closing(KafkaConsumer(bootstrap_servers=servers)) as consumer:
        splits = [TopicPartition(topic, number) for number in range(partitions)]
        found = consumer.end_offsets(splits, timeout_ms=_TIME_LIMIT_MS)
        return {split.partition: end for split, end in found.items()}
