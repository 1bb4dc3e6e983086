"""A query over a Delta table of history and a live topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flip27_stream.api import Source
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.hybrid import ExactSeam, HybridSource, Overlap, SourceSwitchContext
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.spark.data_source import register
from tests.spark.support.kafka_queries import start_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class HistoryAndTopic:
    """A topic, and a Delta table with a copy of its first records.

    Attributes:
        table: The path of the Delta table.
        bootstrap_servers: The address of the broker.
        topic: The name of the topic.
        overlap_ms: How much of the history's end is read again from the topic (ms of event time).
        exact: Whether the topic begins at the offsets where the table ends, and not at an event time.
        options: The options of the query.
        output: The folder of the Parquet files that the query writes.
        checkpoint: The path of the checkpoint.
        rows: The greatest number of rows of a micro-batch.
    """

    table: str
    bootstrap_servers: str
    topic: str
    output: str
    checkpoint: str
    overlap_ms: int = 0
    exact: bool = False
    rows: int = 50
    options: dict[str, str] = field(default_factory=dict)

    def source(self) -> HybridSource:
        """Returns the hybrid source: the table, then the topic."""
        kafka = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsetsByTimestampStrategy": "latest",
            "maxOffsetsPerTrigger": str(self.rows),
        }

        def live(switch: SourceSwitchContext) -> Source[Any, Any]:
            return KafkaSource(kafka | {"startingTimestamp": str(switch.start_time_ms)})

        table = {"path": self.table, "files.format": "delta", "maxFilesPerTrigger": "2"}
        history = FileSource(table, bounded=True)
        if self.exact:
            topic = KafkaSource(kafka | {"startingOffsets": "earliest"})
            return HybridSource.builder(history).add_source(topic, seam=ExactSeam()).build()
        overlap = Overlap(ms=self.overlap_ms) if self.overlap_ms else None
        return HybridSource.builder(history, event_time="timestamp").add_source(live, overlap=overlap).build()

    def start(self, spark: SparkSession, **trigger: Any) -> StreamingQuery:
        register(spark, self.source(), "history_and_topic")
        stream = spark.readStream.format("history_and_topic").options(**self.options).load()
        writer = stream.writeStream.option("checkpointLocation", self.checkpoint).trigger(**trigger)
        return start_files(spark, writer, self.output)
