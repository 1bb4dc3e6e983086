"""Fetched data of many partitions, with only the headers of record batches decoded so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress
from typing import Any, Protocol

import numpy as np

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition
from flip27_stream.connectors.kafka.event_time.event_time_cache import Chunk
from flip27_stream.connectors.kafka.records.batch_header_columns import (
    BatchHeaderColumns,
    batch_header_columns,
)
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.in_order import found_in

_MOST_UNDECODED = 128 << 20


class Decoder(Protocol):
    """Decodes the records in a broker's answer to a fetch, and finds their event times."""

    def decoded(self, tp: TopicPartition, offset: int, fetched: FetchedPartition) -> Chunk | None:
        """Returns the event times in an answer; ``None`` if it has no whole record batch."""


class UndecodedLogs(Set[TopicPartition]):
    """The set of the partitions whose leaders answered, with the headers of their record batches.

    Args:
        decoder: Decodes the records of a partition when they are needed.

    Attributes:
        chunks: The event times of the partitions whose records are decoded.
        partitions: The partitions whose headers were read, in the order of the indexes in ``headers``.
        headers: The headers of the batches of ``partitions``.
        size: The size of the answers that were added, in bytes.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.chunks: dict[TopicPartition, Chunk] = {}
        self.partitions: list[TopicPartition] = []
        self.headers = BatchHeaderColumns.empty()
        self.size = 0
        self._decoder = decoder
        self._answers: dict[TopicPartition, FetchedPartition] = {}
        self._offsets: dict[TopicPartition, int] = {}

    @classmethod
    def _from_iterable(cls, partitions: Iterable[Any]) -> Set[Any]:
        """Returns the result of a set operation (``collections.abc.Set``), which is a plain set."""
        return set(partitions)

    def add(self, answers: Mapping[TopicPartition, FetchedPartition], offsets: Sequence[int]) -> None:
        """Adds the partitions with a complete record batch whose headers can be used; see :func:`batch_header_columns`.

        Args:
            answers: The answer about each partition, without an error, and without records that must be left out.
            offsets: The offset of the fetch of each of these partitions.
        """
        records = [answer.records for answer in answers.values()]
        headers, usable = batch_header_columns(records, np.array(offsets, np.int64))
        taken = np.zeros(len(answers), bool)
        taken[headers.logs] = True
        taken &= usable
        index: Int64s = np.cumsum(taken) - 1 + len(self.partitions)
        self.headers = self.headers.followed_by(headers.only(taken[headers.logs]).renumbered(index))
        new = answers if taken.all() else dict(compress(answers.items(), taken.tolist()))
        self._answers.update(new)
        self._offsets.update(compress(zip(answers, offsets, strict=True), taken.tolist()))
        self.partitions += new
        self.size += sum(map(len, records))

    @property
    def is_full(self) -> bool:
        """Whether the answers that are kept have more than 128 MB, so that further answers must be decoded at once."""
        return self.size > _MOST_UNDECODED

    def chunk(self, tp: TopicPartition) -> Chunk:
        """Returns the event times of a partition.

        Raises:
            ConnectorError: The log of the partition is damaged.
        """
        if tp not in self.chunks:
            decoded = self._decoder.decoded(tp, self._offsets[tp], self._answers[tp])
            assert decoded is not None  # The headers of the partition were read, so it has a whole batch.
            self.chunks[tp] = decoded
        return self.chunks[tp]

    def read_beyond(self, positions: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Returns the partitions of ``headers`` whose last batch ends after their position in ``positions``.

        Partitions that were forgotten are left out.
        """
        last = np.searchsorted(self.headers.logs, np.arange(1, len(self.partitions) + 1)) - 1
        found = found_in(self.partitions, positions)
        stops = self.headers.stops[last].tolist()
        beyond = zip(self.partitions, found, stops, strict=True)
        return [tp for tp, at, stop in beyond if at is not None and at < stop and tp in self._answers]

    def forget(self, tp: TopicPartition) -> None:
        """Drops the records of a partition."""
        self._answers.pop(tp, None)
        self.chunks.pop(tp, None)

    @property
    def answered(self) -> Set[TopicPartition]:
        """The partitions as a Python set, in which look-ups are faster than in this object."""
        return self._answers.keys() | self.chunks.keys() if self.chunks else self._answers.keys()

    def __contains__(self, tp: object) -> bool:
        return tp in self._answers or tp in self.chunks

    def __iter__(self) -> Iterator[TopicPartition]:
        yield from self._answers
        yield from (tp for tp in self.chunks if tp not in self._answers)

    def __len__(self) -> int:
        return len(self.answered)
