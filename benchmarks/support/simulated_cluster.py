"""A Kafka cluster in memory, used in place of the client.

It answers at once, and has any number of equal partitions.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TypeVar

import numpy as np

from benchmarks.support.backlog import START_MS, word_values
from flip27_stream.connectors.kafka.client.protocol import (
    MAX_TIMESTAMP,
    FetchedPartition,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.testing.kafka.bulk import Codec, encode_batch

_STEP_MS = 1000
_MOST_RECORDS = 100

T = TypeVar("T")


class SimulatedTopic:
    """One topic; the record at an offset has a timestamp that follows from it, the same in each partition.

    Args:
        topic: Its name.
        partitions: The number of its partitions.
        compression: The codec of its record batches.

    Attributes:
        end: The end offset of every partition, which may grow.
        seconds: The CPU time (s) that the calling threads have spent in this class.
    """

    def __init__(self, topic: str, partitions: int, compression: Codec | None = None) -> None:
        self.end = 0
        self._compression = compression
        self.seconds = 0.0
        self._topics = {topic: TopicMetadata("", False, dict.fromkeys(range(partitions), 0))}

    def close(self) -> None:
        """Does nothing, because there are no connections."""

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicMetadata]:
        return self._topics

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        return self._timed(lambda: [{tp: self._at(time) for tp, time in wanted.items()} for wanted in rounds])

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        return self._timed(
            lambda: {
                tp: FetchedPartition(0, _records(at.offset, self.end, self._compression), [])
                for tp, at in wanted.items()
            }
        )

    @staticmethod
    def timestamp(offset: int) -> int:
        """Returns the timestamp (ms) of the record at an offset."""
        return START_MS + offset * _STEP_MS

    def _at(self, timestamp: int) -> OffsetAndTimestamp:
        if timestamp in (EARLIEST, LATEST):
            return OffsetAndTimestamp(0 if timestamp == EARLIEST else self.end, -1, epoch=0)
        offset = self.end - 1 if timestamp == MAX_TIMESTAMP else -((START_MS - timestamp) // _STEP_MS)
        offset = max(offset, 0)
        found = offset < self.end
        return OffsetAndTimestamp(offset, self.timestamp(offset)) if found else OffsetAndTimestamp(-1, -1)

    def _timed(self, answer: Callable[[], T]) -> T:
        began = time.thread_time()
        try:
            return answer()
        finally:
            self.seconds += time.thread_time() - began


@lru_cache(maxsize=64)
def _records(offset: int, end: int, compression: Codec | None) -> bytes:
    count = min(end - offset, _MOST_RECORDS)
    times = START_MS + _STEP_MS * np.arange(offset, offset + count, dtype=np.int64)
    batch = bytearray(encode_batch(times, word_values(count, 100, 0), compression=compression))
    struct.pack_into(">q", batch, 0, offset)
    return bytes(batch)
