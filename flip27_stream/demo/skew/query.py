"""The query: rows by window and partition, from Kafka to a Delta table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flip27_stream.demo import event_time, windowed_count
from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.comparison import ComparedRun
from flip27_stream.demo.event_time import MINUTE
from flip27_stream.demo.run import Positions, count_of_batches, positions_of
from flip27_stream.demo.windowed_count import Counts

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC, GROUP = "clicks", "demo"
MAX_DRIFT = 5 * MINUTE


@dataclass(frozen=True)
class SkewBatch:
    """A micro-batch of the source. The first batch of an aligned run reads no rows, since it joins the group.

    Attributes:
        rows: The number of rows.
        positions: The end positions.
        state_rows: The number of rows in the state store afterwards.
        began_at: The time at which the micro-batch began (ms since the epoch).
    """

    rows: int
    positions: Positions
    state_rows: int
    began_at: int


@dataclass
class SkewRun(ComparedRun[SkewBatch]):
    """The run of the query with one source. ``counts`` is its result once it has ended."""

    counts: Counts = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """The number of rows that were read."""
        return sum(batch.rows for batch in self.batches)

    @property
    def so_far(self) -> str:
        return f"{self.rows:,} rows in {count_of_batches(self.batches)}"

    @property
    def positions(self) -> Positions:
        return self.batches[-1].positions if self.batches else {}

    def batch(self, progress: StreamingQueryProgress) -> SkewBatch | None:
        if progress.sources[0].startOffset == progress.sources[0].endOffset:
            return None
        return SkewBatch(
            rows=progress.numInputRows,
            positions=positions_of(json.loads(progress.sources[0].endOffset)),
            state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
            began_at=event_time.parse(progress.timestamp),
        )

    def start(self, resources: DemoResources) -> StreamingQuery:
        records = self.records(resources, TOPIC, GROUP, MAX_DRIFT, self.format)
        return windowed_count.writer(resources, records, self.format).trigger(availableNow=True).start()

    def count(self, resources: DemoResources) -> None:
        self.counts = windowed_count.counted(resources, self.format)
