"""Topics whose records are counted: each is to be read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing

from kafka import KafkaAdminClient

from tests.spark.support.kafka_queries import KafkaQueries

MakeTopic = Callable[..., str]
FOUR = {"maxOffsetsPerTrigger": "4"}


def add_partitions(queries: KafkaQueries, topic: str, count: int) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)) as admin:
        admin.create_partitions({topic: count})


def each_once(sizes: Mapping[tuple[str, int], int]) -> Counter[tuple[str, int, int]]:
    return Counter((topic, p, n) for (topic, p), size in sizes.items() for n in range(size))
