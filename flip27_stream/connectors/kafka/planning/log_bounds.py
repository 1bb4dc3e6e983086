"""The first and last offsets of logs, by the answers of leaders, and the ranges that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.split import TopicPartition


@dataclass(frozen=True)
class LogBounds:
    """The bounds of the logs whose leaders answered.

    Attributes:
        end: The end of each log (exclusive). In isolation ``read_committed`` this is the last stable offset.
        start: The first offset of each log, for the partitions for which it was asked.
        high_watermark: The high watermark of partitions whose position is after ``end``. Such a query may have read
            records in isolation ``read_uncommitted`` that belong to a transaction that is still open.
        late: The partitions whose ``end`` answers a request that was sent more than 5 s before, by an earlier
            micro-batch.
        epochs: The epochs of the leaders, -1 for a leader that does not send it; empty if they are those of the state.
        kept: The end of the records that a new leader has of former leaders. Records after it are other ones than
            those that the former leaders had there.
    """

    end: Mapping[TopicPartition, int]
    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermark: Mapping[TopicPartition, int] = field(default_factory=dict)
    late: Collection[TopicPartition] = ()
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    kept: Mapping[TopicPartition, int] = field(default_factory=dict)

    def reach(self, tp: TopicPartition) -> int:
        """Returns the greatest position that a query can have reached if no records are lost."""
        reach = self.high_watermark.get(tp, self.end[tp])
        return min(reach, self.kept[tp]) if tp in self.kept else reach

    def available(self, tp: TopicPartition) -> str:
        """Returns a description of the offsets of a log, for messages."""
        end, reach = self.end[tp], self.reach(tp)
        start = self.start.get(tp, 0)
        if reach >= end:
            return f"{start} to {end}"
        return f"{start} to {reach}, and from there to {end} other records than before"


@dataclass
class LogRangesResult:
    """The result of ``LogRanges.look``: ranges and changes of topics.

    Attributes:
        ranges: The offset range of each split, by split id. A split is left out if its leader did not answer, or if its
            partition has been missing for less than 5 s.
        recreated: The partitions whose topic was deleted and created again, with the id of the new topic.
        identified: The current metadata of topics whose id or cluster id has changed, by name.
        reset: The partitions whose cached event times are invalid, because their records are lost, or may be other ones
            after a change of the leader, or because their topic has another id or cluster.
        epochs: The epochs of leaders that the next offset must have, by partition.
    """

    ranges: dict[str, SplitRange] = field(default_factory=dict)
    recreated: dict[TopicPartition, str] = field(default_factory=dict)
    identified: dict[str, TopicMetadata] = field(default_factory=dict)
    reset: set[TopicPartition] = field(default_factory=set)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
