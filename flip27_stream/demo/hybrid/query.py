"""The query: one hybrid source, counted in windows, written to a Delta table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import flip27_stream
from flip27_stream import FileSource, HybridSource, KafkaSource
from flip27_stream.connectors.hybrid import SourceSwitchContext
from flip27_stream.demo import event_time, run, windowed_count
from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.event_time import MINUTE
from flip27_stream.demo.hybrid.clicks import COLUMNS
from flip27_stream.demo.run import Positions, positions_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

MAX_DRIFT = 5 * MINUTE
FORMAT = "clicks"


def clicks_source(table: str, bootstrap_servers: str, topic: str, rows_per_batch: int) -> HybridSource:
    """Returns the table followed by the topic, which begins at the first event time that the table does not have."""

    def live(switch: SourceSwitchContext) -> KafkaSource:
        return KafkaSource(
            {
                "kafka.bootstrap.servers": bootstrap_servers,
                "subscribe": topic,
                "startingTimestamp": str(switch.start_time_ms),
                "startingOffsetsByTimestampStrategy": "latest",
                "maxOffsetsPerTrigger": str(rows_per_batch),
            }
        )

    def as_in_the_table(records: pa.RecordBatch) -> pa.RecordBatch:
        return records.select(COLUMNS.names)

    history = FileSource({"path": table, "files.format": "delta"}, bounded=True)
    return HybridSource.builder(history).add_source(live, converter=as_in_the_table).build()


@dataclass(frozen=True)
class HybridBatch:
    """A micro-batch that read rows.

    Attributes:
        index: The source that it read: 0 is the table, 1 the topic.
        rows: The number of rows.
        least: The least event time of the rows (ms).
        greatest: The greatest event time of the rows (ms).
        watermark: Spark's watermark in this batch (ms).
        positions: The positions in the topic after the batch; empty for a batch of the table.
        seam: The end of the table in the offset (ms).
    """

    index: int
    rows: int
    least: int
    greatest: int
    watermark: int
    positions: Positions
    seam: int | None


class HybridRun(run.DemoRun[HybridBatch]):
    """The run of the query."""

    def batch(self, progress: StreamingQueryProgress) -> HybridBatch | None:
        if not progress.numInputRows:
            return None
        offset = json.loads(progress.sources[0].endOffset)
        state, positions = offset["enumerator"][1], positions_of(offset)
        times = {name: event_time.parse(text) for name, text in progress.eventTime.items()}
        return HybridBatch(
            index=state["index"],
            rows=progress.numInputRows,
            least=times["min"],
            greatest=times["max"],
            watermark=times["watermark"],
            positions={split: positions[split] for split in positions if split.startswith("1:")},
            seam=state.get("end"),
        )

    def start(self, resources: DemoResources, source: HybridSource) -> StreamingQuery:
        """Starts the query, which runs until it is stopped."""
        resources.spark.dataSource.register(flip27_stream.data_source(source, self.format))
        options = resources.alignment("demo", MAX_DRIFT)
        records = resources.spark.readStream.format(self.format).options(**options).load()
        return windowed_count.writer(resources, records, self.format).start()
