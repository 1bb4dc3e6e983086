"""A partition's log in memory with difficult cases: markers, aborted records, gaps, disorder, odd times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP, FetchFrom, OffsetAndTimestamp
from flip27_stream.connectors.kafka.event_time.event_time_cache import NO_EVENT_TIME, Chunk
from flip27_stream.connectors.kafka.split import TopicPartition


@dataclass(frozen=True)
class LogRecord:
    """A record. ``data`` is false for transaction markers and aborted records.

    ``time`` is negative if the record has no event time.
    """

    offset: int
    time: int
    data: bool = True


Log = Sequence[LogRecord]


@st.composite
def logs(draw: st.DrawFn, most: int = 40, disorder: int = 5) -> list[LogRecord]:
    """Draws a log: times rise and fall back by at most ``disorder``, markers have later times, offsets have gaps."""
    records, offset, front = [], draw(st.integers(0, 3)), draw(st.integers(0, 50))
    for _ in range(draw(st.integers(0, most))):
        front += draw(st.sampled_from([0, 0, 1, 3, 10]))
        kind = draw(st.sampled_from(["data"] * 7 + ["null", "marker", "aborted", "future"]))
        time = {
            "data": max(0, front - draw(st.integers(0, disorder))),
            "null": NO_EVENT_TIME,
            "marker": 10_000 + offset,
            "aborted": draw(st.integers(0, 200)),
            "future": 1_000_000 + draw(st.integers(0, 3)),
        }[kind]
        records.append(LogRecord(offset, time, kind not in ("marker", "aborted")))
        offset += draw(st.sampled_from([1, 1, 1, 2, 5]))
    return records


class SimulatedCluster:
    """A cluster that answers ListOffsets like a broker, and is read like the probe, some records at a time."""

    def __init__(self, logs: Mapping[TopicPartition, Log], batch: int = 3) -> None:
        self.logs = dict(logs)
        self.batch = batch
        self.reads: list[tuple[TopicPartition, int]] = []
        self.silent: set[TopicPartition] = set()

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        return [
            {tp: self._indexed(self.logs[tp], time) for tp, time in wanted.items() if tp not in self.silent}
            for wanted in rounds
        ]

    out_of_range: frozenset[TopicPartition] = frozenset()

    def read(self, wanted: Mapping[TopicPartition, FetchFrom]) -> dict[TopicPartition, Chunk]:
        self.reads += [(tp, at.offset) for tp, at in wanted.items()]
        return {tp: self._chunk(tp, at.offset) for tp, at in wanted.items() if tp not in self.silent}

    def _chunk(self, tp: TopicPartition, offset: int) -> Chunk:
        rest = [record for record in self.logs[tp] if record.offset >= offset]
        taken = rest[: self.batch]
        stop = taken[-1].offset + 1 if taken else offset + 1
        data = [record for record in taken if record.data]
        times = np.array([max(r.time, NO_EVENT_TIME) for r in data], np.int64)
        return Chunk(offset, stop, np.array([r.offset for r in data], np.int64), times)

    @staticmethod
    def _indexed(log: Log, time: int) -> OffsetAndTimestamp:
        if time == MAX_TIMESTAMP:
            greatest = max(log, key=lambda r: (r.time, -r.offset), default=None)
            return (
                OffsetAndTimestamp(-1, -1)
                if greatest is None
                else OffsetAndTimestamp(greatest.offset, greatest.time)
            )
        found = (OffsetAndTimestamp(r.offset, r.time) for r in log if r.time >= time)
        return next(found, OffsetAndTimestamp(-1, -1))


def readable(log: Log, position: int, end: int, latest: int | None) -> list[LogRecord]:
    """Returns the data records of a range that have a plausible event time."""
    return [
        r
        for r in log
        if position <= r.offset < end and r.data and r.time >= 0 and (latest is None or r.time <= latest)
    ]


def first_at_or_after(log: Log, position: int, end: int, latest: int | None, event_time: int) -> int:
    """Returns the first offset at or after an event time, by checking every record."""
    return next((r.offset for r in readable(log, position, end, latest) if r.time >= event_time), end)
