"""The state of a split in a task: how far it was fetched, and fetched records that are not decoded yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flip27_stream.connectors.kafka.client.protocol import FetchedPartition
from flip27_stream.connectors.kafka.fetching.fetch_size import FetchSize
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.values.rows import RowMaker


@dataclass
class SplitProgress:
    """The progress of one split.

    Attributes:
        split_id: The id of the split.
        position: The offset after the last record that was emitted or that is in a response to be decoded.
        stop: The end of the range, exclusively.
        rows: Makes record batches of the records.
        fetch_size: Estimates the size of the next fetch.
        topic_id: The id of the topic; empty if it is not known.
        waited: The time that the split has waited, in seconds, since its leader last sent records of any split of the
            same request. A response has room for some splits, and the others wait for the next response.
        asked: The id of the broker of the last fetch.
        unknown: The part of ``waited`` in which brokers did not know the topic id; ``None`` if they know it.
    """

    split_id: str
    position: int
    stop: int
    rows: RowMaker
    fetch_size: FetchSize = field(default_factory=FetchSize)
    topic_id: str = ""
    waited: float = 0.0
    asked: int | None = None
    unknown: float | None = None


@dataclass
class UndecodedRecords:
    """Records of one split that were fetched and are not all decoded yet.

    Attributes:
        tp: The partition.
        progress: The progress of the split.
        start: The first offset that was not emitted yet.
        fetched: The answer of the broker.
        more: Decodes the next part of a large batch; ``None`` outside of one.
    """

    tp: TopicPartition
    progress: SplitProgress
    start: int
    fetched: FetchedPartition
    more: Callable[[], DecodedRecords] | None = None
