"""Kafka through the conformance suite, on a real broker: SX-01 to SX-08, CO-11, CO-25, alignment, replays."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka.source import KafkaSource
from flip27_stream.testing import ExternalSystem, KafkaBroker, SourceConformanceSuite
from watermark_alignment.event_time import timestamp_assigner

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
DISORDER_MS = 25

_systems = itertools.count()


class KafkaTopics(ExternalSystem):
    """A topic for each split; event times rise by 10 ms and fall back by 25 at every third record.

    They are the records' timestamps and stand in their values, too.
    """

    def __init__(self, broker: KafkaBroker, strategy: WatermarkStrategy) -> None:
        self._broker = broker
        self._strategy = strategy
        self._prefix = f"conformance-{next(_systems)}-"
        self._written: dict[int, int] = {}

    @property
    def source(self) -> KafkaSource:
        options = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "subscribePattern": f"{re.escape(self._prefix)}.*",
            "startingOffsets": "earliest",
            "scan.topic-partition-discovery.interval": "100 ms",
        }
        return KafkaSource(options, self._strategy)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        topic = f"{self._prefix}{split}"
        if split not in self._written:
            self._broker.create_topic(topic)
        first = self._written.get(split, 0)
        numbers = range(first, first + count)
        self._written[split] = first + count
        times = [NOON + 1000 * split + 10 * i - (DISORDER_MS if i % 3 == 2 else 0) for i in numbers]
        self._broker.write(topic, [(0, t, None, json.dumps({"t": t}).encode()) for t in times])
        return [(topic, number) for number in numbers]

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["topic"], row["offset"]

    def close(self) -> None:
        for split in self._written:
            self._broker.delete_topic(f"{self._prefix}{split}")


class OnBroker(SourceConformanceSuite):
    @pytest.fixture(autouse=True)
    def _uses(self, broker: KafkaBroker) -> None:
        self._broker = broker

    def create_system(self) -> ExternalSystem:
        return KafkaTopics(self._broker, self.strategy)


class TestRecordTimestamps(OnBroker):
    """Event time is the record's timestamp: the broker's index is asked."""

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS)


class TestTimesInTheValue(OnBroker):
    """Event time is in the payload: it is probed."""

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS).with_timestamp_assigner(
        timestamp_assigner("/t", KafkaSource({"kafka.bootstrap.servers": "host:1", "subscribe": "t"}).schema)
    )
