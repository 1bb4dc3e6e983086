"""A separate driver program that tests kill: two aligned queries of one topic, each into a Delta table.

``python -m tests.spark.support.programs.driver '{"options": {...}, "folder": "..."}'``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import flip27_stream
from flip27_stream.testing import local_session
from tests.spark.support.processes import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SINK, FOREACH_BATCH = "out", "each"
"""The queries, by their tables: one writes through the streaming sink, one with idempotent batch writes."""


@dataclass(frozen=True)
class Assignment:
    """The task of the driver.

    Attributes:
        options: The options of the source.
        folder: The folder for tables and checkpoints.
        queries: The queries to start.
    """

    options: dict[str, str]
    folder: str
    queries: Sequence[str] = (SINK, FOREACH_BATCH)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def start(self, spark: SparkSession, name: str, **trigger: Any) -> StreamingQuery:
        """Starts one of the two queries. The one that writes through the sink begins at the latest records."""
        output, own = f"{self.folder}/{name}", {"scan.watermark.alignment.group": name}
        if name == SINK:
            own["startingOffsets"] = "latest"
        stream = spark.readStream.format("flip27_kafka").options(**self.options | own).load()
        writer = stream.writeStream.option("checkpointLocation", f"{output}-checkpoint").trigger(**trigger)
        if name == SINK:
            return writer.format("delta").start(output)

        def write(batch: DataFrame, number: int) -> None:
            once = {"txnAppId": "driver", "txnVersion": str(number)}
            batch.write.format("delta").mode("append").options(**once).save(output)

        return writer.foreachBatch(write).start()


def main(assignment: Assignment) -> None:
    spark = local_session("flip27-driver", conf=QUICK_CONF)
    flip27_stream.register(spark)
    for name in assignment.queries:
        assignment.start(spark, name, processingTime="0 seconds")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(Assignment(**json.loads(sys.argv[1])))
