"""The skewed backlog: four partitions with the same number of records, one of which begins hours earlier."""

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
class Backlog:
    """What is written to the topic; all times in ms.

    Attributes:
        topic: its name.
        event_times: by partition, ascending.
        end: all event times are before it.
    """

    topic: str
    event_times: tuple[NDArray[np.int64], ...]
    end: int

    @staticmethod
    def skewed(topic: str, records: int, now: int) -> Backlog:
        """At least ``records`` records up to the last full hour: three partitions of 1 hour, one of 6."""
        end = now // HOUR * HOUR
        count = -(-records // len(_HOURS_COVERED))
        steps = np.arange(count, dtype=np.int64)
        times = tuple(end - hours * HOUR + steps * (hours * HOUR) // count for hours in _HOURS_COVERED)
        return Backlog(topic, times, end)

    @property
    def splits(self) -> list[str]:
        """By partition, as offsets name them."""
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
        """The number of records that are to be counted."""
        return sum(len(times) for times in self.event_times)

    @property
    def closing_time(self) -> int:
        """Event time of one more record in every partition.

        In append mode a window comes out once the watermark has passed its end. The closing records move the
        watermark past the last window; their own stays open, so they are not counted.
        """
        return self.end + DELAY + 1

    def write(self, broker: KafkaBroker) -> None:
        """Create the topic and write everything, closing records last."""
        broker.create_topic(self.topic, len(self.event_times))
        for partition, times in enumerate(self.event_times):
            closed = np.append(times, np.int64(self.closing_time))
            write_bulk(broker.bootstrap_servers, self.topic, partition, closed, _VALUE)

    def last_event_time(self, partition: int, position: int) -> int | None:
        """The greatest event time before ``position``, which is an offset."""
        return None if position == 0 else self.next_event_time(partition, position - 1)

    def next_event_time(self, partition: int, position: int) -> int:
        """The event time at ``position``; that of the closing record from there on."""
        times = self.event_times[partition]
        return int(times[position]) if position < len(times) else self.closing_time

    def counts(self) -> Counts:
        """The right result."""
        return right_counts(self.event_times)
