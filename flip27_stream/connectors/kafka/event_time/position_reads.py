"""The requests with which the plans of a query find positions by event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import repeat

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom, OffsetAndTimestamp
from flip27_stream.connectors.kafka.client.unanswered import UnansweredPartitions
from flip27_stream.connectors.kafka.event_time.event_time_cache import Chunk
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.known_batches import KnownBatches
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.in_order import found_in

PROBE_BYTES = 32 << 10
"""The size of the first fetch of a search, in bytes."""
SCAN_BYTES = 1 << 20
"""The greatest size of a fetch that goes on with a search, in bytes."""


class PositionReads:
    """Sends lookups and small fetches, and notes which partitions were not answered.

    Args:
        client: Sends lookups in the time index of the brokers.
        probe: Fetches records and computes their event times.
        read_committed: Whether the isolation level is ``read_committed``.
        unanswered: Raises an error if a partition cannot be read for too long.
    """

    def __init__(
        self,
        client: KafkaClient,
        probe: EventTimeProbe,
        *,
        read_committed: bool,
        unanswered: UnansweredPartitions | None = None,
    ) -> None:
        self._client = client
        self._probe = probe
        self._read_committed = read_committed
        self._unanswered = unanswered
        self._read: Set[TopicPartition] = set()
        self._unread: Set[TopicPartition] = set()
        self._topic_ids: Mapping[TopicPartition, str] = {}

    def begin(self, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Begins a plan.

        Args:
            topic_ids: The ids of the topics of the partitions; empty for an id that is not known.

        Raises:
            UnreachableError: A partition could not be read for too long, even if its leader answered about its end.
        """
        if self._unanswered is not None:
            self._unanswered.note(self._read, self._read - self._unread if self._unread else self._read)
        self._read, self._unread = set(), set()
        self._topic_ids = topic_ids

    def lookups(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Returns the first records at or above timestamps (ms); partitions without an answer are left out."""
        return self._client.list_offsets(timestamps, read_committed=self._read_committed)[0]

    def chunks(self, reads: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Chunk]:
        """Returns the event times of some records of each partition; partitions without an answer are left out.

        Args:
            reads: The offset, and the greatest number of bytes.
        """
        offsets, sizes = zip(*reads.values(), strict=True)
        fetches = self._fetches(list(reads), offsets, sizes)
        chunks = self._probe.read(fetches)
        self._note(fetches.keys(), chunks.keys())
        return chunks

    def batches(
        self,
        partitions: list[TopicPartition],
        offsets: Sequence[int],
        sizes: Sequence[int],
        known: KnownBatches,
        *,
        if_room: bool,
    ) -> Set[TopicPartition]:
        """Adds some batches of each partition to ``known``, and returns the partitions that were answered.

        Args:
            partitions: The partitions.
            offsets: The offset of the first batch of each partition.
            sizes: The greatest number of bytes for each partition.
            known: The batches that are known so far.
            if_room: See :meth:`KnownBatches.add`.
        """
        fetches = self._fetches(partitions, offsets, sizes)
        answered = self._probe.read_batches(fetches, known, if_room=if_room)
        self._note(fetches.keys(), answered)
        return answered

    def _fetches(
        self, partitions: list[TopicPartition], offsets: Sequence[int], sizes: Sequence[int]
    ) -> dict[TopicPartition, FetchFrom]:
        ids = [topic_id or "" for topic_id in found_in(partitions, self._topic_ids)]
        fields = zip(offsets, sizes, ids, strict=True)
        # Takes half the time of calls of the class.
        return dict(zip(partitions, map(tuple.__new__, repeat(FetchFrom), fields), strict=True))

    def _note(self, asked: Set[TopicPartition], answered: Set[TopicPartition]) -> None:
        self._read = self._read | asked if self._read else asked
        if self._unread or len(answered) < len(asked):
            self._unread = ((self._unread - answered) | (asked - answered)) - self._probe.out_of_range
