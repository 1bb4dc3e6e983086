"""Reads a topic with Kafka's Python client."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from flip27_stream.testing import wait_until


def read(
    bootstrap_servers: str, topic: str, partitions: int = 1, isolation: str = "read_uncommitted"
) -> list[ConsumerRecord]:
    """Returns all records that a consumer reads from a topic, up to the ends of its partitions at the time of the
    call.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="none",
        enable_auto_commit=False,
        isolation_level=isolation,
    )
    try:
        splits = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(splits)
        consumer.seek_to_beginning(*splits)
        ends = consumer.end_offsets(splits)
        found: list[ConsumerRecord] = []
        wait_until(lambda: _poll_all(consumer, ends, found), f"the end of {topic}")
        return found
    finally:
        consumer.close()


def _poll_all(consumer: KafkaConsumer, ends: dict[TopicPartition, int], found: list[ConsumerRecord]) -> bool:
    for records in consumer.poll(timeout_ms=100, max_records=10_000).values():
        found.extend(records)
    return all(consumer.position(split) >= end for split, end in ends.items())
