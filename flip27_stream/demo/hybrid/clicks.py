"""The data: clicks of eight hours. The first six are in a Delta table, the last three in a topic."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from flip27_stream.demo.event_time import HOUR, MINUTE
from flip27_stream.demo.run import Positions
from flip27_stream.demo.windowed_count import DELAY, WINDOW, Counts, right_counts
from flip27_stream.testing import KafkaBroker, write_bulk

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTITIONS = 2
COLUMNS = pa.schema(
    [("value", pa.binary()), ("partition", pa.int32()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)

_FILES = 24
_PORTIONS = 8
_VALUE = b'{"page": "/index.html", "status": 200}'


@dataclass(frozen=True)
class Clicks:
    """The records. All times are in ms.

    Attributes:
        topic: The name of the topic.
        table: The path of the Delta table.
        times: The event times in each partition, ascending.
        topic_begin: The least event time in the topic.
        table_end: All event times in the table are before this time.
        live_begin: Records from this time on are written while the query runs.
        end: All event times are before this time.
    """

    topic: str
    table: Path
    times: NDArray[np.int64]
    topic_begin: int
    table_end: int
    live_begin: int
    end: int

    @staticmethod
    def make(topic: str, table: Path, records: int, now: int) -> Clicks:
        """Returns at least ``records`` records up to the last full hour. The table ends in the middle of a window."""
        end = now // HOUR * HOUR
        begin = end - 8 * HOUR
        count = -(-records // PARTITIONS)
        times = begin + np.arange(count, dtype=np.int64) * (end - begin) // count
        seam = begin + 6 * HOUR + WINDOW // 2
        return Clicks(topic, table, times, begin + 5 * HOUR, seam, begin + 7 * HOUR, end)

    @property
    def rows(self) -> int:
        return PARTITIONS * len(self.times)

    @property
    def rows_in_both(self) -> int:
        return PARTITIONS * len(self._between(self.topic_begin, self.table_end))

    @property
    def begin(self) -> int:
        return int(self.times[0])

    @property
    def positions(self) -> Positions:
        """The end positions of the topic, which is the second source, after all records are written."""
        end = len(self._between(self.topic_begin, self.end)) + 1
        return {f"1:{self.topic}-{partition}": end for partition in range(PARTITIONS)}

    def write_table(self) -> None:
        """Writes a file for each quarter of an hour, in random order, as after compactions."""
        bounds = np.linspace(self.begin, self.table_end, _FILES + 1).astype(np.int64)
        files = list(pairwise(bounds))
        random.Random(27).shuffle(files)
        for first, end in files:
            times = self._between(int(first), int(end))
            rows = pa.table(
                [
                    pa.repeat(_VALUE, PARTITIONS * len(times)),
                    pa.array(np.repeat(np.arange(PARTITIONS, dtype=np.int32), len(times))),
                    pa.array(np.tile(times, PARTITIONS) * 1000, COLUMNS.field("timestamp").type),
                ],
                schema=COLUMNS,
            )
            write_deltalake(str(self.table), rows, mode="append")

    def write_topic(self, broker: KafkaBroker) -> None:
        """Writes the records that the topic has when the query starts. They overlap with the end of the table."""
        broker.create_topic(self.topic, PARTITIONS)
        self._write(broker, self._between(self.topic_begin, self.live_begin))

    def write_live(self, broker: KafkaBroker) -> Iterator[int]:
        """Writes the other records in portions, one at each step, then a later record that closes the last windows.

        Yields:
            The event time up to which all records are written.
        """
        bounds = np.linspace(self.live_begin, self.end, _PORTIONS + 1).astype(np.int64)
        for first, end in pairwise(bounds):
            self._write(broker, self._between(int(first), int(end)))
            yield int(end)
        self._write(broker, np.array([self.end + DELAY + MINUTE], np.int64))
        yield self.end

    def counts(self) -> Counts:
        """Returns the correct result."""
        return right_counts([self.times] * PARTITIONS)

    def _between(self, first: int, end: int) -> NDArray[np.int64]:
        return self.times[np.searchsorted(self.times, first) : np.searchsorted(self.times, end)]

    def _write(self, broker: KafkaBroker, times: NDArray[np.int64]) -> None:
        for partition in range(PARTITIONS):
            write_bulk(broker.bootstrap_servers, self.topic, partition, times, _VALUE)
