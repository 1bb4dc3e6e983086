"""Random logs with batches of all kinds, and a broker in memory that answers about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder

from flip27_stream.api import RecordTimestampAssigner
from flip27_stream.connectors.kafka.client.protocol import (
    MAX_TIMESTAMP,
    FetchedPartition,
    FetchFrom,
    OffsetAndTimestamp,
)
from flip27_stream.connectors.kafka.client.unanswered import UnansweredPartitions
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.event_time.timestamp_positions import TimestampFinder
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.support.batch_bytes import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    patched,
)

PLAUSIBLE = 5_000
MARKER = (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")  # COMMIT
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
KINDS = ["plain"] * 12 + [*CODECS] * 2 + ["appended", "appended gzip", "transaction", "marker", "compacted"]


class LogBatch(NamedTuple):
    """A batch of a log: its bytes, and the (offset, time) of each data record that a reader gets."""

    base: int
    last: int
    data: bytes
    records: list[tuple[int, int]]


def some_time(rng: Random) -> int:
    odd = [-1, 0, PLAUSIBLE, PLAUSIBLE + 1, 1_000_000]
    return rng.choice(odd) if rng.random() < 0.05 else rng.randrange(40)


def some_log(rng: Random) -> list[LogBatch]:
    """Returns a log with batches of all kinds that a broker stores. Its offsets have gaps, as after compaction."""
    batches: list[LogBatch] = []
    offset = rng.randrange(2)
    for _ in range(rng.randrange(5)):
        times = [some_time(rng) for _ in range(rng.randint(1, 4))]
        first = offset + rng.choice([0] * 6 + [2])
        offsets = [first + i * rng.choice([1, 1, 1, 2]) for i in range(len(times))]
        offsets = sorted(set(offsets))
        batches.append(
            _batch(rng.choice(KINDS), offset, offsets, times[: len(offsets)], rng.choice([0, 0, 0, 1]))
        )
        offset = batches[-1].last + 1 + rng.choice([0] * 6 + [2])
    return batches


def _batch(kind: str, base: int, offsets: Sequence[int], times: Sequence[int], tail: int) -> LogBatch:
    key, value = MARKER if kind == "marker" else (b"k", b"v" * 10)
    if kind == "marker":
        offsets, times, base = offsets[:1], times[:1], offsets[0]
    attributes = {
        "appended": LOG_APPEND_TIME,
        "appended gzip": LOG_APPEND_TIME,
        "transaction": TRANSACTIONAL,
        "marker": TRANSACTIONAL | CONTROL,
        "compacted": DELETE_HORIZON,
    }.get(kind, 0)
    greatest, last = max(times), offsets[-1] + (tail if kind != "marker" else 0)
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, 0, 0, 1 << 30)
    for offset, time in zip(offsets, times, strict=True):
        builder.append(offset - base, time, key, value, [])
    data = patched(
        builder.build(),
        base_offset=base,
        codec=CODECS.get(kind.split()[-1], 0),
        attributes=attributes,
        max_timestamp=greatest,
        last_delta=last - base,
    )
    seen = [
        (offset, greatest if kind.startswith("appended") else t)
        for offset, t in zip(offsets, times, strict=True)
    ]
    return LogBatch(base, last, data, seen if kind != "marker" else [])


class Broker:
    """A broker that answers Fetch and ListOffsets about the logs of one topic, with some batches at a time."""

    options = ConnectionOptions("nowhere:1")

    def __init__(self, all_logs: Mapping[TopicPartition, list[LogBatch]], most: int) -> None:
        self.logs = all_logs
        self.most = most
        self.fetched: list[TopicPartition] = []

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        self.fetched += wanted
        return {
            tp: FetchedPartition(
                0,
                b"".join(b.data for b in rest[: self.most])
                + b"".join(b.data[:30] for b in rest[self.most :][:1]),
                [],
            )
            for tp, at in wanted.items()
            if (rest := [b for b in self.logs[tp] if b.last >= at.offset])
        }

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        return [{tp: self._indexed(self.logs[tp], time) for tp, time in wanted.items()} for wanted in rounds]

    @staticmethod
    def _indexed(log: list[LogBatch], time: int) -> OffsetAndTimestamp:
        records = [record for batch in log for record in batch.records]
        if time == MAX_TIMESTAMP and records:
            return OffsetAndTimestamp(*max(records, key=lambda record: (record[1], -record[0])))
        found = (OffsetAndTimestamp(*record) for record in records if record[1] >= time)
        return next(found, OffsetAndTimestamp(-1, -1))


def reads_of(
    broker: Any, unanswered: UnansweredPartitions | None = None
) -> tuple[EventTimeProbe, PositionReads]:
    probe = EventTimeProbe(broker, RecordTimestampAssigner(), read_committed=True)
    return probe, PositionReads(broker, probe, read_committed=True, unanswered=unanswered)


def finder(broker: Any, unanswered: UnansweredPartitions | None = None) -> TimestampFinder:
    return TimestampFinder(*reads_of(broker, unanswered))
