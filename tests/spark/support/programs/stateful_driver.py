"""A separate driver program that tests kill: queries with state, over any format that reads Kafka.

``python -m tests.spark.support.programs.stateful_driver '{"source": "kafka", "options": {...}, "folder": "..."}'``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.functions import expr

import flip27_stream
from flip27_stream.testing import local_session
from tests.spark.support.kafka_queries import start_files
from tests.spark.support.processes import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def _deduplicated(stream: DataFrame) -> DataFrame:
    return stream.withWatermark("timestamp", "1 hour").dropDuplicates(["topic", "partition", "value"])


def _joined(stream: DataFrame) -> DataFrame:
    """Joins the records of partition 0 with those of the others that have the same offset."""
    stream = stream.withWatermark("timestamp", "1 hour")
    left, right = stream.where("partition = 0").alias("l"), stream.where("partition > 0").alias("r")
    on = "l.offset = r.offset and r.timestamp between l.timestamp and l.timestamp + interval 1 minute"
    return left.join(right, expr(on)).select("r.topic", "r.partition", "r.offset")


QUERIES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "deduplicated": _deduplicated,
    "joined": _joined,
}
"""The queries by their tables."""


@dataclass(frozen=True)
class StatefulAssignment:
    """The task of the driver.

    Attributes:
        source: The format of the source.
        options: The options of the source.
        folder: The folder for tables and checkpoints.
    """

    source: str
    options: Mapping[str, str]
    folder: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def start(self, spark: SparkSession, name: str, **trigger: Any) -> StreamingQuery:
        """Starts a query."""
        output = f"{self.folder}/{name}"
        rows = QUERIES[name](spark.readStream.format(self.source).options(**self.options).load())
        writer = rows.writeStream.option("checkpointLocation", f"{output}-checkpoint").trigger(**trigger)
        return start_files(spark, writer, output)


def main(assignment: StatefulAssignment) -> None:
    spark = local_session("stateful-driver", kafka_source=True, conf=QUICK_CONF)
    flip27_stream.register(spark)
    for name in QUERIES:
        assignment.start(spark, name, processingTime="0 seconds")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(StatefulAssignment(**json.loads(sys.argv[1])))
