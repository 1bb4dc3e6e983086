"""A separate driver program that tests kill: it reads with Spark's built-in Kafka source.

``python -m tests.spark.support.programs.built_in_driver '{"options": {...}, "table": "...", "checkpoint": "..."}'``
"""

from __future__ import annotations

import json
import sys

from flip27_stream.testing import local_session


def main(options: dict[str, str], table: str, checkpoint: str) -> None:
    spark = local_session("built-in-driver", kafka_source=True)
    stream = spark.readStream.format("kafka").options(**options).load()
    writer = stream.writeStream.format("delta").option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="0 seconds").start(table).awaitTermination()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
