"""Finds logs that have lost records, and have got other records at their offsets (KIP-320).

Each leader of a partition has a greater epoch than the leaders before it. A leader without all records of the former
one (unclean leader election, a restored disk) goes on at the end of its own log. Then the range of the log does not
show what was lost, but the end of the records that former leaders have written does.
"""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition

Epochs = Mapping[TopicPartition, int]


class LeaderEpochs:
    """Asks new leaders how much they have kept of the log of their predecessors.

    Args:
        client: Sends the requests, one to each new leader.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._checked: Epochs = {}

    def kept(self, found: Epochs, read: Epochs) -> dict[TopicPartition, int | None]:
        """Returns, for each partition with a new leader, the end of the records that it has of former leaders.

        The end is ``None`` if the leader did not answer.

        Args:
            found: The epochs of the leaders that answered now, by partition.
            read: The epochs of the leaders whose records the query has read.
        """
        if found == self._checked:
            return {}
        checked = self._checked
        newer = {
            tp: read[tp]
            for tp, epoch in found.items()
            if epoch > read.get(tp, epoch) and checked.get(tp) != epoch
        }
        ends = self._client.epoch_ends(newer) if newer else {}
        return {tp: ends.get(tp) for tp in newer}

    def note(self, found: Epochs) -> None:
        """Records that :meth:`kept` need not ask leaders with these epochs again.

        Their logs were compared with the positions of the query.
        """
        self._checked = found


def to_store(
    found: Epochs,
    read: Epochs,
    ranges: Mapping[str, SplitRange],
    positions: Mapping[KafkaPartitionSplit, int | None],
) -> dict[TopicPartition, int]:
    """Returns the epochs that the next offset must have.

    These are the epochs of leaders whose records the query may read, and of those that say where a new split begins. An
    epoch alone is no reason for an offset, which would be an empty micro-batch.

    Args:
        found: The epochs of the leaders that answered now, by partition.
        read: The epochs in the last offset.
        ranges: The ranges that can be read, by split id.
        positions: The next position of each split; ``None`` for a split that was not planned yet.
    """
    if found.items() <= read.items():
        return {}
    newer = {tp: epoch for tp, epoch in found.items() if epoch > read.get(tp, -1)}
    planned = ((s.topic_partition, ranges.get(s.split_id), at) for s, at in positions.items())
    return {
        tp: newer[tp]
        for tp, span, at in planned
        if tp in newer and span is not None and (at is None or span.position < span.end)
    }
