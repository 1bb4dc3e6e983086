"""Kafka through the conformance suite, on a real broker: SX-01 to SX-08, CO-11, CO-25, alignment, replays."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pytest

from flip27_stream.api import ReadLimits, WatermarkStrategy
from flip27_stream.connectors.kafka.source import KafkaSource
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import ExternalSystem, KafkaBroker, SourceConformanceSuite
from flip27_stream.testing.conformance.checks import Checks
from flip27_stream.testing.conformance.event_times import EventTimeChecks
from flip27_stream.testing.conformance.running import RunningChecks
from tests.connectors.support.paused_server import PausedServerSystem

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
DISORDER_MS = 25
NO_TIMESTAMP = -1

_systems = itertools.count()


class KafkaTopics(PausedServerSystem):
    """A topic for each split. Event times rise by 10 ms, and every third one falls back by 25 ms.

    They are the timestamps of the records, and are also in their values.
    """

    def __init__(self, broker: KafkaBroker, strategy: WatermarkStrategy) -> None:
        super().__init__(broker)
        self._broker = broker
        self._strategy = strategy
        self._prefix = f"conformance-{next(_systems)}-"
        self._written: dict[int, list[int | None]] = {}

    def _source(self, **more: str) -> KafkaSource:
        options = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "subscribePattern": f"{re.escape(self._prefix)}.*",
            "startingOffsets": "earliest",
            "scan.topic-partition-discovery.interval": "100 ms",
            "kafka.default.api.timeout.ms": "5000",
            "fetchOffset.numRetries": "1",
            "kafka.max.partition.fetch.bytes": "4096",
        }
        return KafkaSource(
            {**options, **{name.replace("_", "."): value for name, value in more.items()}}, self._strategy
        )

    @property
    def source(self) -> KafkaSource:
        return self._source()

    @property
    def bounded(self) -> KafkaSource:
        return self._source(scan_bounded_mode="latest-offset")

    def limited(self, limits: ReadLimits) -> KafkaSource | None:
        rows = limits.max_rows
        return self._source(maxOffsetsPerTrigger=str(rows)) if rows is not None else None

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = len(self._written.get(split, ()))
        numbers = range(first, first + count)
        times = [NOON + 1000 * split + 10 * i - (DISORDER_MS if i % 3 == 2 else 0) for i in numbers]
        return self.write_at(split, times)

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        topic = f"{self._prefix}{split}"
        if split not in self._written:
            self._broker.create_topic(topic)
            self._written[split] = []
        first = len(self._written[split])
        self._written[split] += times
        self._send(topic, times)
        return [(topic, number) for number in range(first, first + len(times))]

    def _send(self, topic: str, times: Sequence[int | None]) -> None:
        stamps = [NO_TIMESTAMP if t is None else t for t in times]
        values = [json.dumps({"t": t}).encode() for t in times]
        self._broker.write(topic, [(0, stamp, None, v) for stamp, v in zip(stamps, values, strict=True)])

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["topic"], row["offset"]

    def hide(self, split: int) -> str:
        topic = f"{self._prefix}{split}"
        self._broker.delete_topic(topic)
        return topic

    def restore(self, split: int) -> None:
        """Makes a new topic with the same records at the same offsets."""
        topic = f"{self._prefix}{split}"
        self._broker.create_topic(topic)
        self._send(topic, self._written[split])

    def close(self) -> None:
        super().close()
        for split in self._written:
            self._broker.delete_topic(f"{self._prefix}{split}")


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    """A broker that only this module uses, because its tests pause it."""
    with KafkaBroker() as running:
        yield running


class OnBroker(Checks):
    large_split = 2000

    @pytest.fixture(autouse=True)
    def _uses(self, own_broker: KafkaBroker) -> None:
        self._broker = own_broker

    def create_system(self) -> ExternalSystem:
        return KafkaTopics(self._broker, self.strategy)


class TestRecordTimestamps(OnBroker, SourceConformanceSuite):
    """The event time is the record's timestamp, which the broker's index finds."""

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS)


class TestKafkaTimesInTheValue(OnBroker, EventTimeChecks, RunningChecks):
    """The event time is in the payload, where the source probes for it. Only checks of event times and of runs
    are affected by that.
    """

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS).with_timestamp_assigner(
        timestamp_assigner("/t", KafkaSource({"kafka.bootstrap.servers": "host:1", "subscribe": "t"}).schema)
    )
