"""Aligned queries that run for longer than they wait for a silent leader, in a simulated cluster. No JVM.

Some partitions get a record now and then, one gets none. Leaders are silent or move for a shorter time than that.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from flip27_stream.api import RecordTimestampAssigner, WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client import unanswered
from flip27_stream.connectors.kafka.client.protocol import (
    MAX_TIMESTAMP,
    FetchedPartition,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.event_time import event_time_probe
from flip27_stream.connectors.kafka.planning import enumerator, log_ranges
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.planning import stall_detector
from flip27_stream.testing import ManualClock
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.batch_bytes import GZIP, LZ4, BatchRow, v2
from tests.support.module_time import replace_time
from watermark_alignment.options import AlignmentOptions

T0 = 1_700_000_000_000
STEP_S, STEPS = 20, 60
OFTEN = {0: 1.0, 1: 0.3, 2: 0.1, 3: 0.02, 4: 0.0}
"""How probable a new record is in each step, by partition."""
NOT_LEADER = 6
SILENT, MOVED, LONGEST = "silent", "moved", 4
"""The faults, and the greatest number of steps that one lasts: less than three minutes."""


class ClusterOfOneTopic:
    """A cluster with one topic, whose records have their timestamps also in their values."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.faults: dict[TopicPartition, str] = {}
        self.times: dict[TopicPartition, list[int]] = {TopicPartition("t", n): [] for n in OFTEN}
        self._batches: dict[TopicPartition, list[bytes]] = {tp: [] for tp in self.times}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def write(self, tp: TopicPartition, time: int, codec: int) -> None:
        row = BatchRow(len(self.times[tp]), time, None, b'{"at": %d}' % time)
        self.times[tp].append(time)
        self._batches[tp].append(v2([row], codec))

    def topics(
        self, names: Collection[str] | None = None, within_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        return {"t": TopicMetadata("", False, dict.fromkeys(OFTEN, 1))}

    def why_silent(self, tp: TopicPartition) -> str:
        return self.faults.get(tp, "it is well")

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        return [
            {tp: self._offset(tp, time) for tp, time in wanted.items() if tp not in self.faults}
            for wanted in rounds
        ]

    def _offset(self, tp: TopicPartition, time: int) -> OffsetAndTimestamp:
        times = self.times[tp]
        if time in (EARLIEST, LATEST):
            return OffsetAndTimestamp(0 if time == EARLIEST else len(times), -1)
        if time == MAX_TIMESTAMP:
            time = max(times, default=0)
        found = (OffsetAndTimestamp(i, t) for i, t in enumerate(times) if t >= time)
        return next(found, OffsetAndTimestamp(-1, -1))

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        return {
            tp: FetchedPartition(NOT_LEADER, b"", [])
            if tp in self.faults
            else FetchedPartition(0, b"".join(self._batches[tp][at.offset : at.offset + 3]), [])
            for tp, at in wanted.items()
            if self.faults.get(tp) != SILENT
        }

    def close(self) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterOfOneTopic:
    made = ClusterOfOneTopic()
    monkeypatch.setattr(enumerator, "KafkaClient", lambda _: made)
    for module in (unanswered, log_ranges, event_time_probe, stall_detector):
        replace_time(monkeypatch, module.__name__, monotonic=lambda: made.now, sleep=made.sleep)
    return made


def change(
    cluster: ClusterOfOneTopic, step: int, draw: random.Random, until: dict[TopicPartition, int]
) -> None:
    """Writes some records, and begins and ends faults. The first and the last steps have no faults."""
    for tp in cluster.times:
        if draw.random() < OFTEN[tp.partition]:
            cluster.write(
                tp, T0 + step * STEP_S * 1000 + draw.randrange(1000), draw.choice([0, 0, GZIP, LZ4])
            )
        if until.get(tp, 0) <= step:
            cluster.faults.pop(tp, None)
            if draw.random() < 0.05 and LONGEST < step < STEPS - 2 * LONGEST:
                until[tp] = step + draw.randint(1, LONGEST)
                cluster.faults[tp] = draw.choice([SILENT, MOVED])


def positions(query: SourceQuery) -> dict[str, int]:
    splits: Mapping[str, Iterable[int]] = query.offset["splits"]
    return {split: next(iter(state)) for split, state in splits.items()}


@pytest.mark.long
@pytest.mark.parametrize("in_payload", [False, True])
def test_records_that_come_slowly_for_twenty_minutes_are_read_once(
    cluster: ClusterOfOneTopic, tmp_path: Path, in_payload: bool
) -> None:
    given = {
        "scan.watermark.alignment.group": "g",
        "scan.watermark.alignment.max-drift": "10 s",
        "scan.watermark.alignment.table": str(tmp_path / "table"),
    }
    assigner = timestamp_assigner("/at", SCHEMA) if in_payload else RecordTimestampAssigner()
    options = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "startingOffsets": "earliest"}
    clock, draw, until = ManualClock(T0), random.Random(0), dict[TopicPartition, int]()
    with SourceQuery(
        KafkaSource(options),
        strategy=WatermarkStrategy(0, assigner),
        alignment=AlignmentOptions.parse(given),
        clock=clock,
    ) as query:
        for step in range(STEPS):
            change(cluster, step, draw, until)
            cluster.now += STEP_S
            clock.advance(STEP_S * 1000)
            batch = query.next_batch(limit=1000)
            if batch is not None:
                query.offset = batch[1]
        for _ in range(10):  # plans of records that idle partitions held back
            clock.advance(STEP_S * 1000)
            if (batch := query.next_batch(limit=1000)) is not None:
                query.offset = batch[1]
        assert positions(query) == {str(tp): len(times) for tp, times in cluster.times.items()}
