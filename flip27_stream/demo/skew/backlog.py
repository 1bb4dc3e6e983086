"""The data: a backlog of four partitions with the same number of records. One of them begins hours earlier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flip27_stream.demo.event_time import HOUR
from flip27_stream.demo.windowed_count import DELAY, Counts, right_counts
from flip27_stream.testing import KafkaBroker, write_bulk

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOURS_COVERED = (1, 1, 1, 6)
_VALUE = b'{"page": "/index.html", "status": 200}'


@dataclass(frozen=True)
class SkewedTopic:
    """The records of the topic. All times are in ms.

    Attributes:
        topic: The name of the topic.
        event_times: The event times of each partition, ascending.
        end: All event times are before this time.
    """

    topic: str
    event_times: tuple[NDArray[np.int64], ...]
    end: int

    @staticmethod
    def skewed(topic: str, records: int, now: int) -> SkewedTopic:
        """Returns at least ``records`` records up to the last full hour before ``now`` (ms).

        Three partitions cover one hour, and one covers six hours.
        """
        end = now // HOUR * HOUR
        count = -(-records // len(_HOURS_COVERED))
        steps = np.arange(count, dtype=np.int64)
        times = tuple(end - hours * HOUR + steps * (hours * HOUR) // count for hours in _HOURS_COVERED)
        return SkewedTopic(topic, times, end)

    @property
    def splits(self) -> list[str]:
        """The split ids in offsets, by partition."""
        return [f"{self.topic}-{partition}" for partition in range(len(self.event_times))]

    @property
    def laggard(self) -> int:
        """The partition that begins first."""
        return min(range(len(self.event_times)), key=lambda partition: int(self.event_times[partition][0]))

    @property
    def begin(self) -> int:
        """The least event time."""
        return int(self.event_times[self.laggard][0])

    @property
    def rows(self) -> int:
        """The number of records to count."""
        return sum(len(times) for times in self.event_times)

    @property
    def closing_time(self) -> int:
        """The event time of one more record in every partition.

        In append mode a window is written once the watermark has passed its end. The closing records move the watermark
        past the last window. Their own window stays open, so they are not counted.
        """
        return self.end + DELAY + 1

    def write(self, broker: KafkaBroker) -> None:
        """Creates the topic and writes all records, the closing records last."""
        broker.create_topic(self.topic, len(self.event_times))
        for partition, times in enumerate(self.event_times):
            closed = np.append(times, np.int64(self.closing_time))
            write_bulk(broker.bootstrap_servers, self.topic, partition, closed, _VALUE)

    def last_event_time(self, partition: int, position: int) -> int | None:
        """Returns the greatest event time before ``position`` (an offset), or ``None`` at position 0."""
        return None if position == 0 else self.next_event_time(partition, position - 1)

    def next_event_time(self, partition: int, position: int) -> int:
        """Returns the event time at ``position``, or that of the closing record from there on."""
        times = self.event_times[partition]
        return int(times[position]) if position < len(times) else self.closing_time

    def counts(self) -> Counts:
        """Returns the number of rows of each window and partition if no row is lost."""
        return right_counts(self.event_times)
