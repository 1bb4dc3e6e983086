"""The ends of logs that leaders gave a moment ago, for the next micro-batch of a query that has a backlog."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flip27_stream.connectors.kafka.split import TopicPartition

_RECENT_S = 0.25


class RecentEnds:
    """Keeps the log ends that the last :meth:`LogRanges.look` got from the leaders, and returns them for 0.25 s.

    A query that reads a backlog in small micro-batches plans several of them in that time. If there are more records up
    to these ends than a micro-batch may read, it has no use for later ends. They are not used with alignment, where a
    partition without new records may be idle.
    """

    def __init__(self) -> None:
        self._ends: Mapping[TopicPartition, int] = {}
        self._asked_at = 0.0

    def keep(self, ends: Mapping[TopicPartition, int], asked_at: float) -> None:
        """Keeps the ends of logs, by partition, in place of the former ones.

        Args:
            ends: The end of each log (exclusive).
            asked_at: The time at which the leaders were asked, in monotonic seconds.
        """
        self._ends, self._asked_at = ends, asked_at

    def enough(
        self, positions: Mapping[TopicPartition, int], least: int | None
    ) -> Mapping[TopicPartition, int] | None:
        """Returns the kept end of each log in ``positions``, by partition, if enough records are before these ends.

        Returns ``None`` if the ends are too old or those of other partitions, if a position is after its end or only a
        marker such as :data:`EARLIEST`, or if there are fewer than ``least`` records from the positions to the ends.

        Args:
            positions: The next position of each partition.
            least: The number of records; ``None`` if the leaders must be asked.
        """
        ends = self._ends
        if least is None or not ends or time.monotonic() - self._asked_at > _RECENT_S:
            return None
        if ends.keys() != positions.keys():
            return None
        if not all(0 <= offset <= ends[tp] for tp, offset in positions.items()):
            return None
        return ends if sum(ends.values()) - sum(positions.values()) >= least else None
