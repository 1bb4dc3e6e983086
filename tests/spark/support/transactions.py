"""Transactions of Kafka. Each has its own producer."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import closing

from kafka import KafkaProducer

from flip27_stream.testing import KafkaBroker, KafkaRecord


def write_transaction(
    broker: KafkaBroker, topic: str, written: Iterable[KafkaRecord], *, commit: bool = True
) -> None:
    """Appends records in one transaction, and commits or aborts it. A marker follows in both cases."""
    settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": uuid.uuid4().hex}
    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition, time, key, value, *_ in written:
            producer.send(topic, partition=partition, timestamp_ms=time, key=key, value=value)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
