"""Records that were fetched beyond the range of a task, for the next task (Spark ``FetchedDataPool``)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from flip27_stream.connectors.kafka.client.protocol import FetchedPartition
from flip27_stream.connectors.kafka.records.batch_headers import batch_at
from flip27_stream.connectors.kafka.split import TopicPartition

_SERVED_S = 2.0
_MOST_OF_ONE = 256 << 10
_MOST = 4 << 20


class Log(NamedTuple):
    """The log of a partition as it was fetched.

    Attributes:
        tp: The partition.
        topic_id: The id of its topic; empty if it is not known.
        read_committed: Whether it was fetched in isolation ``read_committed``.
    """

    tp: TopicPartition
    topic_id: str
    read_committed: bool


@dataclass(frozen=True)
class _Kept:
    """The records of one log from an offset on.

    Attributes:
        start: The offset.
        records: The record batches as they are in the log, from the batch with this offset on.
        fetched_at: The time at which they came, in monotonic seconds.
    """

    start: int
    records: bytes
    fetched_at: float


class FetchedAhead:
    """Keeps what a broker sent after the end of a range. It is used for 2 s.

    A broker sends whole batches, up to the size of the fetch, and a small range takes few of them. If a query reads a
    backlog in small micro-batches, the next range of the partition begins there, so its task needs no fetch.

    The records at an offset of a topic id do not change, unless the log lost its end and got others there (unclean
    leader election); like any consumer that has fetched records already, the task then reads the lost ones. An answer
    that names aborted transactions is not kept, because the task that reads the rest would have to know them.

    At most 256 KiB of a log are kept, and 4 MiB of all logs of a fetcher. They stay until others take their place.
    """

    def __init__(self) -> None:
        self._kept: dict[Log, _Kept] = {}
        self._size = 0

    def keep(self, log: Log, start: int, fetched: FetchedPartition) -> None:
        """Keeps the records of an answer from the offset ``start`` on, in place of those that were kept of the log."""
        self._drop(log)
        if not log.topic_id or (log.read_committed and fetched.aborted):
            return
        at = batch_at(fetched.records, start)
        part = fetched.records[at : at + _MOST_OF_ONE] if at is not None else b""
        if batch_at(part, start) is None:
            return
        self._kept[log] = _Kept(start, bytes(part), time.monotonic())
        self._size += len(part)
        while self._size > _MOST:
            self._drop(next(iter(self._kept)))

    def take(self, log: Log, start: int) -> FetchedPartition | None:
        """Returns the records of a log from the batch with the offset ``start`` on; ``None`` if they are not kept."""
        kept = self._kept.get(log)
        if kept is None:
            return None
        at = batch_at(kept.records, start) if start >= kept.start else None
        if at is None or time.monotonic() - kept.fetched_at > _SERVED_S:
            self._drop(log)
            return None
        return FetchedPartition(0, memoryview(kept.records)[at:], [])

    def _drop(self, log: Log) -> None:
        kept = self._kept.pop(log, None)
        self._size -= len(kept.records) if kept is not None else 0
