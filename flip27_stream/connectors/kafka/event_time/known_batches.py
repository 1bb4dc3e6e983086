"""The record batches of many logs that were fetched, in columns, kept from plan to plan.

Of most batches only the header and the first record are decoded. The other records of a batch are decoded when a search
ends in it, together with those of the batches in which the searches of the other logs end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Protocol

import numpy as np

from flip27_stream.arrays import Flags, Int64s
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition
from flip27_stream.connectors.kafka.event_time.event_time_cache import Chunk
from flip27_stream.connectors.kafka.event_time.ordered_batches import BATCH, Batches, OrderedBatches
from flip27_stream.connectors.kafka.event_time.segments import elements, first_of_each
from flip27_stream.connectors.kafka.records.batch_header_columns import batch_header_columns
from flip27_stream.connectors.kafka.records.batch_headers import corrupt
from flip27_stream.connectors.kafka.records.record_times import RecordTimes, record_times
from flip27_stream.connectors.kafka.records.varints import MalformedError
from flip27_stream.connectors.kafka.split import TopicPartition

MOST_BYTES = 128 << 20
"""The most bytes of fetched batches that are kept."""
UNKNOWN_TIME = 2**63 - 1
"""The greatest event time of a batch whose header does not have it."""
_MOST_RECORDS = 4_000_000
_MOST_BATCHES = 100_000
_NO_PIECE = -1


class Decoder(Protocol):
    """Decodes the records in a broker's answer to a fetch, and finds their event times."""

    def decoded(self, tp: TopicPartition, offset: int, fetched: FetchedPartition) -> Chunk | None:
        """Returns the event times in an answer; ``None`` if it has no whole record batch."""


class KnownBatches:
    """The known batches of the logs of one plan, whose event times are the timestamps of records.

    Args:
        decoder: Decodes the logs whose headers are not enough.

    Attributes:
        partitions: The partitions of the plan; the index of a log is the place of its partition.
        offsets: The offsets of the records that are decoded.
        times: Their event times (ms); -1 for a record without one.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.partitions: list[TopicPartition] = []
        self._ordered: OrderedBatches | None = None
        self._batches = np.empty(0, BATCH)
        self.offsets = self.times = np.empty(0, np.int64)
        self._decoder = decoder
        self._pieces: dict[int, bytes | memoryview] = {}
        self._next_piece = 0
        self._size = 0
        self._index: dict[TopicPartition, int] = {}
        self._forgotten: set[TopicPartition] = set()
        self._plausible_until = UNKNOWN_TIME

    @property
    def ordered(self) -> OrderedBatches:
        """The batches of all logs."""
        if self._ordered is None:
            self._ordered = OrderedBatches.of(self._batches, len(self.partitions))
            self._batches = self._ordered.batches
        return self._ordered

    @property
    def mean_record_size(self) -> float:
        """The mean size of a record in the known batches, in bytes as they were fetched."""
        fetched = self._batches[self._batches["size"] > 0]
        return float(fetched["size"].sum() / max(1, (fetched["stop"] - fetched["start"]).sum()))

    def keep(self, partitions: list[TopicPartition], positions: Int64s, plausible_until: int) -> None:
        """Begins a plan, and keeps the batches that it can use.

        Batches of other partitions are dropped, those that end before the position of their log, and the last ones of
        each log while there are very many.

        Args:
            partitions: The partitions of the plan.
            positions: The first offset of each of them.
            plausible_until: The greatest event time (ms); records above it are ignored.
        """
        if partitions != self.partitions or self._forgotten:
            new = {tp: log for log, tp in enumerate(partitions) if tp not in self._forgotten}
            logs = np.array([new.get(tp, -1) for tp in self.partitions], np.int32)
            self._batches["log"] = logs[self._batches["log"]]
            self._batches = self._batches[self._batches["log"] >= 0]
        self._batches = self._batches[self._batches["stop"] > positions[self._batches["log"]]]
        self.partitions, self._index, self._ordered = partitions, {}, None
        self._forgotten.clear()
        if len(self._batches) > _MOST_BATCHES:
            batches, begins = self.ordered.batches, self.ordered.begins
            is_near = np.arange(len(batches)) - begins[batches["log"]] < max(
                1, _MOST_BATCHES // len(partitions)
            )
            self._set(batches[is_near])
        self._drop_unused()
        moved = self._batches["latest"] > min(plausible_until, self._plausible_until)
        self._plausible_until = plausible_until
        self._set_greatest(np.flatnonzero(moved & (self._batches["record"] >= 0)))

    def free_memory(self) -> None:
        """Drops the oldest bytes if they exceed 128 MB, and the decoded records if they exceed 4 million.

        A search that needs them reads them again.

        It is called before bytes are read, and not between reading and decoding them.
        """
        while self._size > MOST_BYTES:
            self._size -= len(self._pieces.pop(next(iter(self._pieces))))
        if len(self.offsets) > _MOST_RECORDS:
            self._drop_unused()

    def forget(self, tp: TopicPartition) -> None:
        """Drops the batches of a partition when the next plan begins."""
        self._forgotten.add(tp)

    def add(
        self, answers: Mapping[TopicPartition, FetchedPartition], offsets: Sequence[int], *, if_room: bool
    ) -> set[TopicPartition]:
        """Adds the batches in answers, and returns the partitions whose headers cannot be used.

        Args:
            answers: The answer about each partition, without an error, and without records that must be left out.
            offsets: The offset of the fetch of each of these partitions.
            if_room: Whether the bytes of these batches are kept only if there is room for them.
        """
        asked, logs = np.array(offsets, np.int64), self._logs_of(answers)
        records = [answer.records for answer in answers.values()]
        found, usable = batch_header_columns(records, asked)
        new = np.zeros(len(found.logs), BATCH)
        new["log"], new["stop"] = logs[found.logs], found.stops
        new["start"][1:] = found.stops[:-1]
        first = first_of_each(found.logs)
        new["start"][first] = np.minimum(asked[found.logs[first]], found.first_offsets[first])
        new["greatest"] = np.where(found.greatest < 0, UNKNOWN_TIME, found.greatest)
        new["greatest"][~found.has_data] = -1
        new["latest"] = new["greatest"]
        new["first_offset"], new["first_time"] = found.first_offsets, found.first_times
        new["has_first"] = found.has_first & found.has_data
        new["place"], new["size"] = found.places, found.sizes
        new["record"] = new["record_end"] = -1
        new["piece"] = self._next_piece + found.logs
        self._keep_bytes(records, if_room)
        self._insert(new)
        taken = np.zeros(len(answers), bool)
        taken[found.logs] = True
        if (taken & usable).all():
            return set()
        return {tp for tp, has in zip(answers, (taken & usable).tolist(), strict=True) if not has}

    def add_chunk(self, tp: TopicPartition, chunk: Chunk) -> None:
        """Adds the event times of the decoded records of a partition."""
        new = np.zeros(1, BATCH)
        new["log"], new["start"], new["stop"] = self._logs_of([tp]), chunk.start, chunk.stop
        new["first_offset"], new["piece"] = chunk.start, _NO_PIECE
        self._insert(new)
        self._add_records(np.array([len(self._batches) - 1]), np.array([len(chunk.offsets)]), chunk)

    def decode(self, rows: Int64s) -> Flags:
        """Decodes the records of batches, and returns for each whether its bytes were there.

        A batch whose bytes were dropped is dropped, too, so that a search reads it again.

        Args:
            rows: The indexes of these batches in :attr:`ordered`.

        Raises:
            ConnectorError: The records of a batch are damaged.
        """
        pieces = self._batches["piece"][rows]
        found = [self._pieces.get(piece) for piece in pieces.tolist()]
        there = np.array([piece is not None for piece in found], bool)
        wanted = rows[there]
        places, sizes = self._batches["place"][wanted].tolist(), self._batches["size"][wanted].tolist()
        data = [piece for piece in found if piece is not None]
        bodies = [piece[at : at + size] for piece, at, size in zip(data, places, sizes, strict=True)]
        if bodies:
            decoded = self._times_of(wanted, bodies)
            self._add_records(wanted, decoded.counts, decoded)
            self._batches["piece"][wanted] = _NO_PIECE
        if len(wanted) < len(rows):  # The following batches of a piece are read again with it.
            self._set(self._batches[~np.isin(self._batches["piece"], pieces[~there])])
        return there

    def _times_of(self, rows: Int64s, bodies: list[bytes | memoryview]) -> RecordTimes:
        try:
            return record_times(bodies)
        except MalformedError as error:
            logs, starts = self._batches["log"][rows].tolist(), self._batches["start"][rows].tolist()
            partitions = [self.partitions[log] for log in logs]
            for tp, start, body in zip(partitions, starts, bodies, strict=True):
                self._decoder.decoded(tp, start, FetchedPartition(0, body, []))  # Its error names the batch.
            raise corrupt(str(partitions[0]), starts[0], error) from error

    def _add_records(self, rows: Int64s, counts: Int64s, records: RecordTimes | Chunk) -> None:
        """Adds the records of the batches in ``rows``, which have ``counts`` records."""
        behind = len(self.offsets) + np.cumsum(counts)
        self._batches["record"][rows], self._batches["record_end"][rows] = behind - counts, behind
        self.offsets = np.concatenate([self.offsets, records.offsets])
        self.times = np.concatenate([self.times, records.times])
        self._set_greatest(rows)

    def _set_greatest(self, rows: Int64s) -> None:
        """Sets the greatest event times of batches whose records are decoded."""
        index, owner = elements(self._batches["record"][rows], self._batches["record_end"][rows])
        times = self.times[index]
        greatest, latest = np.full((2, len(rows)), -1)
        np.maximum.at(latest, owner, times)
        np.maximum.at(greatest, owner, np.where(times <= self._plausible_until, times, -1))
        self._batches["greatest"][rows], self._batches["latest"][rows] = greatest, latest

    def _insert(self, new: Batches) -> None:
        self._set(np.concatenate([self._batches, new]) if len(self._batches) else new)

    def _set(self, batches: Batches) -> None:
        self._batches, self._ordered = batches, None

    def _logs_of(self, partitions: Iterable[TopicPartition]) -> Int64s:
        """Returns the index of the log of each partition, which is its place in :attr:`partitions`."""
        wanted = list(partitions)
        if wanted == self.partitions:
            return np.arange(len(wanted))
        if not self._index:
            self._index = {tp: log for log, tp in enumerate(self.partitions)}
        return np.fromiter(map(self._index.__getitem__, wanted), np.int64, len(wanted))

    def _keep_bytes(self, pieces: Sequence[bytes | memoryview], if_room: bool) -> None:
        size = sum(map(len, pieces))
        if not if_room or self._size + size <= MOST_BYTES:
            self._pieces.update(enumerate(pieces, self._next_piece))
            self._size += size
        self._next_piece += len(pieces)

    def _drop_unused(self) -> None:
        """Drops the bytes and the records that no batch has."""
        oldest = next(iter(self._pieces), self._next_piece)
        used = np.zeros(self._next_piece - oldest, bool)
        used[self._batches["piece"][self._batches["piece"] >= oldest] - oldest] = True
        places = np.fromiter(self._pieces, np.int64, len(self._pieces)) - oldest
        self._pieces = dict(compress(self._pieces.items(), used[places].tolist()))
        self._size = sum(map(len, self._pieces.values()))
        is_decoded = self._batches["record"] >= 0
        first, end = self._batches["record"][is_decoded], self._batches["record_end"][is_decoded]
        behind = np.cumsum(end - first)
        left = int(behind[-1]) if len(behind) else 0
        if left > _MOST_RECORDS:
            self._set(self._batches[~is_decoded])
            self.offsets = self.times = np.empty(0, np.int64)
        elif 2 * left < len(self.offsets):
            kept, _ = elements(first, end)
            self.offsets, self.times = self.offsets[kept], self.times[kept]
            self._batches["record"][is_decoded], self._batches["record_end"][is_decoded] = (
                behind - (end - first),
                behind,
            )
